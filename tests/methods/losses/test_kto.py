import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError
from sparring.methods.losses.kto import kto

TOKENS = st.lists(st.tuples(st.integers(0, 3), st.floats(-3, 0), st.floats(-3, 0)), min_size=1, max_size=12)
GAMES = st.lists(st.tuples(st.integers(0, 1), st.integers(-1, 1)), min_size=4, max_size=4)


def naive(whole, free, beta, desirable, good_weight, bad_weight):
    outcome, group = whole.outcome.tolist(), whole.group.tolist()
    gain = [(free - whole.reference_logprobs)[whole.trajectory == i].sum() for i in range(len(outcome))]
    z = max(0.0, sum(g.item() for g in gain) / len(gain))
    losses = []
    for i, value in enumerate(outcome):
        own = [o for o, g in zip(outcome, group, strict=True) if g == group[i]]
        bar = sum(own) / len(own) if desirable == "above_group_mean" else 0.0
        if value > bar + 1e-8:
            losses.append(good_weight * (1 - torch.sigmoid(beta * (gain[i] - z))))
        elif value < bar - 1e-8:
            losses.append(bad_weight * (1 - torch.sigmoid(beta * (z - gain[i]))))
    return sum(losses) / len(losses) if losses else 0.0 * free.sum()


def test_by_hand(make_whole, gradient_of):
    """S = 2 and -1: z = 0.5."""
    batches, free = make_whole([-1.0, -3.0], reference_logprobs=[-3.0, -2.0], trajectory=[0, 1], outcome=[1.0, 0.0])
    term = kto(batches[0], beta=1.0)
    good = bad = 1 / (1 + math.exp(1.5))
    assert (term.level, term.values.sum().item()) == ("sum", pytest.approx((good + bad) / 2))
    slope = good * (1 - good) / 2
    assert gradient_of(lambda batch: kto(batch, beta=1.0), batches, free).tolist() == pytest.approx([-slope, slope])
    assert term.metrics["baseline"].item() == pytest.approx(0.5)
    assert term.metrics["margin"].item() == pytest.approx(3.0)
    assert term.metrics["desirable_fraction"].item() == 0.5
    assert kto(batches[0], beta=1.0, desirable_weight=3.0).values.sum().item() == pytest.approx((3 * good + bad) / 2)
    assert kto(batches[0], beta=1.0, undesirable_weight=3.0).values.sum().item() == pytest.approx((good + 3 * bad) / 2)
    positive = kto(batches[0], beta=1.0, desirable="positive")  # an outcome of 0 is neither
    assert positive.values.sum().item() == pytest.approx(good)
    assert positive.metrics["desirable_fraction"].item() == 1.0


@given(TOKENS, GAMES, st.sampled_from(["above_group_mean", "positive"]), st.floats(0, 2), st.floats(0, 2), st.integers(1, 11))
def test_gradient_is_the_direct_formula_s_however_it_is_cut(make_whole, gradient_of, tokens, games, desirable, good, bad, cut):
    tokens, present = sorted(tokens), sorted({token[0] for token in tokens})
    batches, free = make_whole(
        [t[1] for t in tokens],
        reference_logprobs=[t[2] for t in tokens],
        trajectory=[present.index(t[0]) for t in tokens],
        group=[games[i][0] for i in present],
        outcome=[games[i][1] for i in present],
        cut=[cut] if cut < len(tokens) else [],
    )

    def loss(batch):
        return kto(batch, beta=0.5, desirable=desirable, desirable_weight=good, undesirable_weight=bad)

    direct = naive(batches[0].whole, free, 0.5, desirable, good, bad)
    assert sum(loss(batch).values.sum() for batch in batches).item() == pytest.approx(direct.item(), rel=1e-5, abs=1e-5)
    assert torch.allclose(gradient_of(loss, batches, free), torch.autograd.grad(direct, free)[0])


@pytest.mark.parametrize(("outcome", "size"), [(0.1, 3), (0.1, 6), (0.7, 3)])  # means above, below and below by rounding
def test_a_mean_that_differs_by_rounding_is_still_equal(make_whole, outcome, size):
    (batch,), _ = make_whole([-1.0] * size, reference_logprobs=[-1.0] * size, trajectory=list(range(size)), outcome=[outcome] * size)
    term = kto(batch)
    assert term.values.tolist() == [0.0] * size
    assert term.metrics["desirable_fraction"].item() == 0.0


def test_the_baseline_is_not_negative(make_whole):
    (batch,), _ = make_whole([-9.0, -9.0], reference_logprobs=[-1.0, -1.0], trajectory=[0, 1], outcome=[1.0, -1.0])
    assert kto(batch).metrics["baseline"].item() == 0.0


def test_far_from_the_reference_the_gradient_vanishes(make_whole, gradient_of):
    batches, free = make_whole([0.0, -1e9], reference_logprobs=[-1e9, 0.0], trajectory=[0, 1], outcome=[1.0, -1.0])
    assert gradient_of(kto, batches, free).tolist() == [0.0, 0.0]


def test_bad_options_are_refused():
    for options in ({"beta": 0.0}, {"desirable": "nice"}, {"desirable_weight": -1.0}):
        with pytest.raises(ConfigError, match=next(iter(options))):
            bind("losses", "kto", options)
