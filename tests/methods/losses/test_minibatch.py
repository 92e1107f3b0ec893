import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.methods.losses.base import LossTerm, Whole
from sparring.methods.losses.minibatch import (
    covariance,
    group_mean,
    preference_pairs,
    standardised,
    through_tokens,
    trajectory_sums,
)

ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 2)), min_size=1, max_size=12)


def whole_of_groups(group, outcome):
    size, none = len(group), torch.zeros(len(group), dtype=torch.float64)
    return Whole(
        logprobs=none,
        old_logprobs=none,
        advantages=none,
        uniform=none,
        trajectory=torch.arange(size),
        turn_index=torch.zeros(size, dtype=torch.int64),
        group=torch.tensor(group),
        outcome=torch.tensor(outcome, dtype=torch.float64),
    )


def naive_pairs(group, outcome, which):
    weights = {}
    for g in set(group):
        members = [i for i in range(len(group)) if group[i] == g]
        top, low = max(outcome[i] for i in members), min(outcome[i] for i in members)
        own = [(i, j) for i in members for j in members if outcome[i] > outcome[j]]
        if which == "best_worst":
            own = [(i, j) for i, j in own if outcome[i] == top and outcome[j] == low]
        weights.update({pair: 1 / len(own) if which == "best_worst" else 1.0 for pair in own})
    return {pair: weight / sum(weights.values()) for pair, weight in weights.items()}


@pytest.mark.parametrize("which", ["best_worst", "all"])
@given(rows=ROWS)
def test_pairs_are_those_of_a_double_loop(which, rows):
    group, outcome = [7 * g for g, _ in rows], [o for _, o in rows]
    better, worse, weight = preference_pairs(whole_of_groups(group, outcome), which)
    found = {(i, j): w for i, j, w in zip(better.tolist(), worse.tolist(), weight.tolist(), strict=True)}
    assert len(found) == len(better)
    assert found == pytest.approx(naive_pairs(group, outcome, which))


@given(rows=ROWS)
def test_group_means_are_those_of_a_loop(rows):
    group, outcome = [g for g, _ in rows], [float(o) for _, o in rows]
    whole = whole_of_groups(group, outcome)
    expected = [sum(o for h, o in zip(group, outcome, strict=True) if h == g) / group.count(g) for g in group]
    assert group_mean(whole.outcome, whole).tolist() == pytest.approx(expected)


def test_sums_and_covariance_by_hand(make_whole):
    (batch,), _ = make_whole([-1.0, -2.0, -3.0], advantages=[1.0, 2.0, 6.0], trajectory=[0, 1, 0])
    assert trajectory_sums(batch.whole.logprobs, batch.whole).tolist() == [-4.0, -2.0]
    assert covariance(batch.whole).tolist() == [-2.0, 0.0, -3.0]  # means 3 and -2


@pytest.mark.parametrize(("values", "expected"), [([1.0, 3.0], [-1.0, 1.0]), ([1e6, 1e6, 1e6], [0.0] * 3), ([0.1] * 3, [0.0] * 3)])
def test_standardised_by_hand(values, expected):
    assert standardised(torch.tensor(values, dtype=torch.float64)).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("cut", [(), (1,), (2, 3)])
def test_value_and_gradient_through_tokens_are_the_loss_s_own(make_whole, gradient_of, cut):
    def loss_of(logprobs):
        return (logprobs.sum() ** 2) * logprobs[0]

    batches, free = make_whole([-1.0, -2.0, 0.5, 3.0], cut=cut)
    terms = [through_tokens(batch, loss_of) for batch in batches]
    assert sum(term.sum() for term in terms).item() == pytest.approx(loss_of(free).item())
    found = gradient_of(lambda batch: LossTerm(values=through_tokens(batch, loss_of)), batches, free)
    assert torch.allclose(found, torch.autograd.grad(loss_of(free), free)[0])


def test_a_loss_without_the_tokens_has_gradient_zero(make_whole, gradient_of):
    batches, free = make_whole([-1.0, -2.0])
    found = gradient_of(lambda batch: LossTerm(values=through_tokens(batch, lambda _: torch.zeros((), dtype=torch.float64))), batches, free)
    assert found.tolist() == [0.0, 0.0]


def test_without_the_whole_minibatch_the_cause_is_named(make_whole):
    (batch,), _ = make_whole([-1.0])
    with pytest.raises(AssertionError, match="NEEDS"):
        through_tokens(dataclasses.replace(batch, whole=None), lambda x: x.sum())
