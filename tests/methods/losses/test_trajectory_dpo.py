import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError
from sparring.methods.losses.dpo import dpo
from sparring.methods.losses.trajectory_dpo import trajectory_dpo

# a token: its trajectory, turn, log-probability now and by the reference
TOKENS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.floats(-3, 0), st.floats(-3, 0)), min_size=1, max_size=14)
OUTCOMES = st.lists(st.integers(-1, 1), min_size=4, max_size=4)


def laid_out(make_whole, tokens, outcomes, cut=()):
    tokens, present = sorted(tokens), sorted({token[0] for token in tokens})
    return make_whole(
        [t[2] for t in tokens],
        reference_logprobs=[t[3] for t in tokens],
        trajectory=[present.index(t[0]) for t in tokens],
        turn_index=[t[1] for t in tokens],
        outcome=[outcomes[i] for i in present],
        cut=[c for c in cut if c < len(tokens)],
    )


def naive(whole, free, beta, normalised, discount):
    gain, outcome = [], whole.outcome.tolist()
    for number in range(len(outcome)):
        own = [m for m, t in enumerate(whole.trajectory.tolist()) if t == number]
        turns = 1 + max(int(whole.turn_index[m]) for m in own)
        total = 0.0
        for m in own:
            t = int(whole.turn_index[m])
            phi = 1.0
            if discount is not None:  # sum of discount^k over k = t .. T-1, over the same from 0
                phi = sum(discount**k for k in range(t, turns)) / sum(discount**k for k in range(turns))
            total = total + phi * (free[m] - whole.reference_logprobs[m])
        gain.append(total / len(own) if normalised else total)
    losses = [-torch.sigmoid(beta * (gain[i] - gain[j])).log()
              for i in range(len(gain)) for j in range(len(gain)) if outcome[i] > outcome[j]]  # fmt: skip
    return sum(losses) / len(losses) if losses else 0.0 * free.sum()


def margin(batch, **options):
    return trajectory_dpo(batch, beta=1.0, **options).metrics["margin"].item()


def test_by_hand(make_whole):
    """The winner has log-ratios 3, 2, 1 in three turns, the loser 1."""
    (batch,), _ = make_whole([0.0, 0.0, 0.0, 0.0], reference_logprobs=[-3.0, -2.0, -1.0, -1.0], trajectory=[0, 0, 0, 1],
                             turn_index=[0, 1, 2, 0], outcome=[1.0, 0.0])  # fmt: skip
    assert margin(batch) == pytest.approx(2.0 - 1.0)
    assert margin(batch, length_normalised=False) == pytest.approx(6.0 - 1.0)
    assert margin(batch, length_normalised=False, discount=1.0) == pytest.approx(3 + 2 * 2 / 3 + 1 / 3 - 1.0)
    half = 3 + 2 * (0.5 * 0.75 / 0.875) + 1 * (0.25 * 0.5 / 0.875)
    assert margin(batch, length_normalised=False, discount=0.5) == pytest.approx(half - 1.0)
    assert margin(batch, discount=0.5) == pytest.approx(half / 3 - 1.0)
    term = trajectory_dpo(batch, beta=2.0)
    assert (term.level, term.values.sum().item()) == ("sum", pytest.approx(math.log(1 + math.exp(-2.0))))
    assert (term.metrics["pairs"], term.metrics["accuracy"].item()) == (1.0, 1.0)


@given(TOKENS, OUTCOMES, st.booleans(), st.sampled_from([None, 0.5, 0.9, 1.0]), st.integers(1, 13))
def test_gradient_is_the_direct_formula_s_however_it_is_cut(make_whole, gradient_of, tokens, outcomes, normalised, discount, cut):
    batches, free = laid_out(make_whole, tokens, outcomes, cut=(cut,))

    def loss(batch):
        return trajectory_dpo(batch, beta=0.5, pairs="all", length_normalised=normalised, discount=discount)

    direct = naive(batches[0].whole, free, 0.5, normalised, discount)
    assert sum(loss(batch).values.sum() for batch in batches).item() == pytest.approx(direct.item(), rel=1e-5, abs=1e-5)
    assert torch.allclose(gradient_of(loss, batches, free), torch.autograd.grad(direct, free)[0])


@given(TOKENS, OUTCOMES, st.sampled_from(["best_worst", "all"]))
def test_without_normalisation_and_discount_it_is_dpo(make_whole, gradient_of, tokens, outcomes, pairs):
    batches, free = laid_out(make_whole, tokens, outcomes)
    ours = gradient_of(lambda batch: trajectory_dpo(batch, pairs=pairs, length_normalised=False), batches, free)
    assert torch.allclose(ours, gradient_of(lambda batch: dpo(batch, pairs=pairs), batches, free))


@given(st.integers(1, 6))
def test_saying_everything_twice_changes_nothing_when_normalised(make_whole, times):
    def twice(count):
        (batch,), _ = make_whole([0.0] * count + [0.0], reference_logprobs=[-2.0] * count + [-1.0], trajectory=[0] * count + [1],
                                 outcome=[1.0, 0.0])  # fmt: skip
        return margin(batch)

    assert twice(times) == pytest.approx(twice(1))


def test_preset_of_dmpo_and_bad_options(make_whole):
    (batch,), _ = make_whole([0.0] * 3, reference_logprobs=[-1.0] * 3, trajectory=[0, 0, 1], turn_index=[0, 1, 0], outcome=[1.0, 0.0])
    preset = bind("losses", "trajectory_dpo", preset="dmpo")(batch)
    assert torch.equal(preset.values, trajectory_dpo(batch, length_normalised=False, discount=0.9).values)
    with pytest.raises(ConfigError, match="discount"):
        bind("losses", "trajectory_dpo", {"discount": 0.0})
