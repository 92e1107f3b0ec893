import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError
from sparring.methods.losses.cispo import cispo
from sparring.methods.losses.policy_gradient import policy_gradient


def test_by_hand(make_whole, gradient_of):
    batches, free = make_whole([-1.0, -2.0], old=[-1.0 - math.log(3.0), -2.0 - math.log(0.5)], advantages=[2.0, -4.0])
    term = cispo(batches[0])
    assert term.values.tolist() == pytest.approx([1.2 * 2.0 * 1.0, -0.5 * 4.0 * 2.0])
    assert gradient_of(cispo, batches, free).tolist() == pytest.approx([-2.4, 2.0])
    assert term.metrics["clip_fraction"].item() == 0.5
    assert term.metrics["ratio_max"].item() == pytest.approx(3.0)
    assert term.weighted and term.level == "token"


def test_bounds_both_ways(make_whole):
    (batch,), _ = make_whole([-1.0, -1.0], old=[-1.0 - math.log(3.0), -1.0 - math.log(0.5)])
    assert cispo(batch, clip_high=5.0).values.tolist() == pytest.approx([3.0, 0.5])
    assert cispo(batch, clip_low=0.1).values.tolist() == pytest.approx([1.2, 0.9])


@given(st.lists(st.tuples(st.floats(-5, 0), st.floats(-3, 3)), min_size=1, max_size=6))
def test_at_ratio_one_it_is_the_policy_gradient(make_whole, rows):
    (batch,), _ = make_whole([row[0] for row in rows], advantages=[row[1] for row in rows])
    assert torch.equal(cispo(batch).values, policy_gradient(batch).values)


@given(st.lists(st.tuples(st.floats(-30, 30), st.floats(-3, 3)), min_size=1, max_size=6))
def test_every_token_with_an_advantage_keeps_a_bounded_gradient(make_whole, gradient_of, rows):
    batches, free = make_whole([row[0] for row in rows], old=[0.0] * len(rows), advantages=[row[1] for row in rows])
    expected = [-min(math.exp(max(x, -20.0)), 1.2) * advantage for x, advantage in rows]
    assert gradient_of(cispo, batches, free).tolist() == pytest.approx(expected)


def test_with_bounds_far_out_the_gradient_is_the_off_policy_one(make_whole, gradient_of):
    batches, free = make_whole([0.3, -0.7], old=[0.0, 0.0], advantages=[1.0, -2.0])
    direct = torch.autograd.grad((-free.exp() * batches[0].advantages).sum(), free)[0]
    assert torch.allclose(gradient_of(lambda batch: cispo(batch, clip_high=1e9), batches, free), direct)


def test_bad_options_are_refused():
    with pytest.raises(ConfigError, match="clip_low"):
        bind("losses", "cispo", {"clip_low": 1.5})
