import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError
from sparring.methods.losses.policy_gradient import policy_gradient
from sparring.methods.losses.sapo import sapo


def naive(ratio, advantage, positive=1.0, negative=1.05):
    tau = positive if advantage > 0 else negative
    return -4 / (tau * (1 + (-tau * (ratio - 1)).exp())) * advantage


def test_by_hand(make_whole):
    (batch,), _ = make_whole([math.log(2.0), 0.0, 0.0], old=[0.0] * 3, advantages=[1.0, 1.0, -2.1])
    term = sapo(batch)
    assert term.values.tolist() == pytest.approx([-4 / (1 + math.exp(-1)), -2.0, 4.0])
    gate = 1 / (1 + math.exp(-1))
    assert term.metrics["gate_mean"].item() == pytest.approx((4 * gate * (1 - gate) * 2 + 1 + 1) / 3)


@given(st.lists(st.tuples(st.floats(-3, 3), st.floats(-2, 2)), min_size=1, max_size=8), st.floats(0.1, 5), st.floats(0.1, 5))
def test_value_and_gradient_are_those_of_the_formula(make_whole, gradient_of, rows, positive, negative):
    batches, free = make_whole([r[0] for r in rows], old=[0.0] * len(rows), advantages=[r[1] for r in rows])

    def loss(batch):
        return sapo(batch, temperature_positive=positive, temperature_negative=negative)

    direct = sum(naive(free[i].exp(), rows[i][1], positive, negative) for i in range(len(rows)))
    assert loss(batches[0]).values.sum().item() == pytest.approx(direct.item(), rel=1e-5, abs=1e-5)
    assert torch.allclose(gradient_of(loss, batches, free), torch.autograd.grad(direct, free)[0])


def test_at_ratio_one_the_gradient_is_the_plain_one(make_whole, gradient_of):
    batches, free = make_whole([-1.0, -2.0], advantages=[2.0, -3.0])
    assert torch.allclose(gradient_of(sapo, batches, free), gradient_of(policy_gradient, batches, free))


@given(st.floats(0.01, 3), st.floats(0.01, 3))
def test_the_gate_fades_as_the_ratio_rises(make_whole, gradient_of, first, second):
    slopes = []
    for log_ratio in sorted((first, second)):
        batches, free = make_whole([log_ratio], old=[0.0])
        slopes.append(gradient_of(lambda batch: sapo(batch, temperature_positive=3.0), batches, free).item() / math.exp(log_ratio))
    assert abs(slopes[0]) >= abs(slopes[1])


def test_wild_ratios_have_no_gradient(make_whole, gradient_of):
    batches, free = make_whole([1e9, -1e9], old=[0.0, 0.0])
    assert gradient_of(sapo, batches, free).tolist() == [0.0, 0.0]


def test_bad_options_are_refused():
    with pytest.raises(ConfigError, match="temperature_positive"):
        bind("losses", "sapo", {"temperature_positive": 0.0})
