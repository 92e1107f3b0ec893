import dataclasses
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError
from sparring.methods.features.centred_logit import centred_logit
from sparring.methods.losses.neurd import neurd

LOGITS = st.lists(st.floats(-1, 1), min_size=3, max_size=3)


def batch_of(make_batch, logits, *, old=None, advantages=None):
    """Return the batch, and the free logits themselves as its feature."""
    logit = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
    batch = make_batch([-1.0] * len(logits), old=old, advantages=advantages)
    return dataclasses.replace(batch, features={"centred_logit": logit}), logit


@pytest.mark.parametrize(("logit", "advantage", "slope"), [
    (0.5, 3.0, -6.0),  # probability 1/2: weight 2
    (1.9, 3.0, -6.0), (2.0, 3.0, 0.0), (2.5, -3.0, 6.0), (-2.5, 3.0, -6.0), (-2.0, -3.0, 0.0), (-1.9, -3.0, 6.0),
])  # fmt: skip
def test_by_hand(make_batch, logit, advantage, slope):
    batch, free = batch_of(make_batch, [logit], old=[math.log(0.5)], advantages=[advantage])
    term = neurd(batch)
    assert term.values.item() == pytest.approx(slope * logit)
    assert term.metrics["held_fraction"].item() == (slope == 0.0)
    assert term.metrics["centred_logit_max"].item() == abs(logit)
    term.values.sum().backward()
    assert free.grad.item() == pytest.approx(slope)


def test_options(make_batch):
    batch, _ = batch_of(make_batch, [3.0], old=[math.log(0.01)])
    assert neurd(batch).values.item() == 0.0
    assert neurd(batch, threshold=4.0).values.item() == pytest.approx(-30.0)
    assert neurd(batch, threshold=4.0, importance_cap=1.0).values.item() == pytest.approx(-3.0)
    assert neurd(batch, threshold=4.0, importance_cap=1e6).values.item() == pytest.approx(-300.0)
    assert neurd(batch).metrics["weight_mean"].item() == 10.0


@given(LOGITS, LOGITS)
def test_expectation_over_samples_is_the_all_action_rule(make_batch, logits, gains):
    """Without cap and threshold, the mean over samples of the policy is the gradient of sum_a A(a) y(a)."""
    free = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
    y, log_p = centred_logit(free[None])[0], free.detach().log_softmax(0)
    batch = make_batch(log_p.tolist(), advantages=gains)
    batch = dataclasses.replace(batch, features={"centred_logit": y})
    mean = (log_p.exp() * neurd(batch, threshold=1e9, importance_cap=1e9).values).sum()
    direct = -(torch.tensor(gains, dtype=torch.float64) * (free - free.mean())).sum()
    expected = torch.autograd.grad(direct, free)[0]
    assert torch.allclose(torch.autograd.grad(mean, free, retain_graph=True)[0], expected)
    plain = (log_p.exp() * neurd(batch, threshold=1e9, importance_cap=1.0).values).sum()
    weighted = -(log_p.exp() * torch.tensor(gains, dtype=torch.float64) * (free - free.mean())).sum()
    assert torch.allclose(torch.autograd.grad(plain, free)[0], torch.autograd.grad(weighted, free)[0])


@given(LOGITS, st.lists(st.floats(-5, 5), min_size=3, max_size=3), st.floats(0.1, 2))
def test_nothing_is_pushed_further_out_than_the_threshold(make_batch, advantages, logits, threshold):
    batch, free = batch_of(make_batch, logits, advantages=advantages)
    neurd(batch, threshold=threshold).values.sum().backward()
    outside = free.detach().abs() >= threshold
    assert (free.grad * free.detach())[outside].min().item() >= 0.0 if outside.any() else True  # descent goes inwards


def test_impossible_samples_stay_finite(make_batch):
    batch, _ = batch_of(make_batch, [0.0], old=[-1e9])
    assert neurd(batch, importance_cap=1e9).metrics["weight_mean"].item() == pytest.approx(1e9)


def test_bad_options_are_refused():
    with pytest.raises(ConfigError, match="importance_cap"):
        bind("losses", "neurd", {"importance_cap": 0.5})
