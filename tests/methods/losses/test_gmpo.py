import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError
from sparring.methods.losses.gmpo import gmpo
from sparring.methods.losses.policy_gradient import policy_gradient
from sparring.methods.losses.reduction import reduce

ROWS = st.lists(st.tuples(st.floats(-2, 2), st.floats(-2, 2), st.integers(0, 2)), min_size=1, max_size=8)


def naive(free, advantages, trajectory, low, high):
    """Return the mean over sequences of -mean(A) times the product of clipped ratios to the power 1 / length."""
    total = 0.0
    for number in sorted(set(trajectory)):
        product, own = 0.0 * free.sum() + 1.0, [i for i, t in enumerate(trajectory) if t == number]
        for i in own:
            ratio, bound = free[i].exp(), free[i].clamp(-low, high).exp()
            held = torch.minimum(ratio, bound) if advantages[i] > 0 else torch.maximum(ratio, bound)
            product = product * (held if advantages[i] != 0 else 1.0)
        total = total - sum(advantages[i] for i in own) / len(own) * product ** (1 / len(own))
    return total / len(set(trajectory))


def test_by_hand(make_whole):
    """Log-ratios 1 (held at 0.4) and -0.2: geometric mean exp(0.1); for A < 0: 1 and -0.2, exp(0.4)."""
    for advantage, value in ((2.0, -2 * math.exp(0.1)), (-2.0, 2 * math.exp(0.4))):
        (batch,), _ = make_whole([1.0, -0.2], old=[0.0, 0.0], advantages=[advantage] * 2)
        term = gmpo(batch)
        assert term.values.tolist() == pytest.approx([value] * 2)
        assert term.metrics["clip_fraction"].item() == (0.5 if advantage > 0 else 0.0)


@given(ROWS)
def test_value_and_gradient_are_those_of_a_loop(make_whole, rows):
    names = sorted({row[2] for row in rows})
    logs, advantages, trajectory = [r[0] for r in rows], [r[1] for r in rows], [names.index(r[2]) for r in rows]
    (batch,), free = make_whole(logs, old=[0.0] * len(rows), advantages=advantages, trajectory=trajectory)
    found = reduce(gmpo(batch, clip_low=0.3).values, batch.sequence, len(names), "sequence_mean")
    direct = naive(free, advantages, trajectory, 0.3, 0.4)
    assert found.item() == pytest.approx(direct.item(), rel=1e-5, abs=1e-5)
    (expected,) = torch.autograd.grad(direct, free, retain_graph=True)
    assert torch.allclose(torch.autograd.grad(found, free)[0], expected, atol=1e-12)


def test_at_ratio_one_the_gradient_is_the_plain_one(make_whole, gradient_of):
    batches, free = make_whole([-1.0, -2.0, -3.0], advantages=[2.0, 2.0, -1.0], trajectory=[0, 0, 1])
    assert torch.allclose(gradient_of(gmpo, batches, free), gradient_of(policy_gradient, batches, free))


def test_advantages_by_turn_ask_for_the_turn_level(make_whole):
    (batch,), _ = make_whole([0.2, 0.0], old=[0.0, 0.0], advantages=[1.0, -1.0], turn_index=[0, 1])
    assert gmpo(batch, level="turn").values.tolist() == pytest.approx([-math.exp(0.2), 1.0])
    assert gmpo(batch).values.tolist() == pytest.approx([0.0, 0.0])


def test_a_token_without_advantage_is_not_cut_and_does_not_move_its_segment(make_whole):
    (batch,), _ = make_whole([3.0, 0.2], old=[0.0, 0.0], advantages=[0.0, 2.0])
    assert gmpo(batch).values.tolist() == pytest.approx([-math.exp(0.1)] * 2)
    assert gmpo(batch).metrics["clip_fraction"].item() == 0.0


def test_widths_both_ways(make_whole):
    (batch,), _ = make_whole([3.0], old=[0.0])
    assert gmpo(batch, clip_high=1.0).values.item() == pytest.approx(-math.e)
    (batch,), _ = make_whole([-3.0], old=[0.0], advantages=[-1.0])
    assert gmpo(batch, clip_low=1.0).values.item() == pytest.approx(1 / math.e)
    with pytest.raises(ConfigError, match="clip_low"):
        bind("losses", "gmpo", {"clip_low": -1.0})
