import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError
from sparring.methods.losses.gspo import gspo
from sparring.methods.losses.policy_gradient import policy_gradient
from sparring.methods.losses.ppo_clip import ppo_clip
from sparring.methods.losses.reduction import reduce

ROWS = st.lists(st.tuples(st.floats(-1, 1), st.integers(0, 2)), min_size=1, max_size=9)


def test_by_hand(make_whole):
    """Mean log-ratio of the first sequence (0.4 + 0.2) / 2 = 0.3, of the second -0.1."""
    (batch,), _ = make_whole([0.4, 0.2, -0.1], old=[0.0] * 3, advantages=[1.0, 1.0, 2.0], trajectory=[0, 0, 1])
    wide = gspo(batch, clip_low=0.5, clip_high=0.5)
    assert wide.values.tolist() == pytest.approx([-math.exp(0.3)] * 2 + [-2 * math.exp(-0.1)])
    assert gspo(batch).values.tolist() == pytest.approx([-1.0004] * 2 + [-2 * math.exp(-0.1)])
    assert gspo(batch).metrics["clip_fraction"].item() == pytest.approx(2 / 3)
    assert gspo(batch).metrics["ratio_max"].item() == pytest.approx(math.exp(0.3))
    assert gspo(batch, length_normalised=False, clip_high=9.0).values[0].item() == pytest.approx(-math.exp(0.6))


@given(ROWS, st.booleans())
def test_gradient_is_that_of_the_segments_ratios(make_whole, gradient_of, rows, length_normalised):
    """With one advantage per sequence, reduced by sequence: the mean over sequences of -s A, differentiated directly."""
    names = sorted({row[1] for row in rows})
    rows = sorted(rows, key=lambda row: row[1])
    trajectory = [names.index(row[1]) for row in rows]
    gains = [1.0, -2.0, 0.5]
    batches, free = make_whole(
        [r[0] for r in rows], old=[0.1] * len(rows), advantages=[gains[t] for t in trajectory], trajectory=trajectory
    )
    term = gspo(batches[0], length_normalised=length_normalised, clip_low=1.0, clip_high=1e12)
    found = torch.autograd.grad(reduce(term.values, batches[0].sequence, len(names), "sequence_mean"), free)[0]
    direct = 0.0
    for number in range(len(names)):
        own = free[[t == number for t in trajectory]] - 0.1
        ratio = own.mean().exp() if length_normalised else own.sum().exp() / len(own)
        direct = direct - gains[number] * ratio / len(names)
    assert torch.allclose(found, torch.autograd.grad(direct, free)[0])


@given(st.lists(st.tuples(st.floats(-2, 2), st.floats(-3, 3)), min_size=1, max_size=6), st.sampled_from(["sequence", "turn"]))
def test_segments_of_one_token_are_ppo_clip(make_whole, gradient_of, rows, level):
    batches, free = make_whole(
        [r[0] for r in rows], old=[0.0] * len(rows), advantages=[r[1] for r in rows], trajectory=list(range(len(rows)))
    )

    def loss(batch):
        return gspo(batch, level=level, clip_low=0.2, clip_high=0.3)

    assert torch.allclose(loss(batches[0]).values, ppo_clip(batches[0], clip_low=0.2, clip_high=0.3).values)
    plain = gradient_of(lambda batch: ppo_clip(batch, clip_low=0.2, clip_high=0.3), batches, free)
    assert torch.allclose(gradient_of(loss, batches, free), plain)


def test_at_ratio_one_the_gradient_is_the_plain_one(make_whole, gradient_of):
    batches, free = make_whole([-1.0, -2.0, -3.0], advantages=[1.0, 1.0, -2.0], trajectory=[0, 0, 1])
    assert torch.equal(gradient_of(gspo, batches, free), gradient_of(policy_gradient, batches, free))


def test_the_turn_is_the_segment_if_asked(make_whole):
    (batch,), _ = make_whole([0.4, 0.2, -0.1], old=[0.0] * 3, turn_index=[0, 0, 1])
    wide = {"clip_low": 0.9, "clip_high": 9.0}
    assert gspo(batch, level="turn", **wide).values.tolist() == pytest.approx([-math.exp(0.3)] * 2 + [-math.exp(-0.1)])
    assert gspo(batch, **wide).values.tolist() == pytest.approx([-math.exp(0.5 / 3)] * 3)
    seeupo = bind("losses", "gspo", preset="seeupo")(batch)
    assert seeupo.values.tolist() == pytest.approx([-1.2] * 2 + [-math.exp(-0.1)])  # exp(0.6) is held at 1.2


def test_sums_run_wild_stay_finite(make_whole):
    (batch,), _ = make_whole([1e9] * 4, old=[0.0] * 4, advantages=[-1.0] * 4)
    assert gspo(batch, length_normalised=False).values[0].item() == pytest.approx(math.exp(20))


def test_bad_options_are_refused():
    with pytest.raises(ConfigError, match="level"):
        bind("losses", "gspo", {"level": "token"})
