import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.methods.losses.dpo import dpo
from sparring.methods.losses.kto import kto
from sparring.methods.losses.trajectory_dpo import trajectory_dpo

# a token: its trajectory, and its log-probabilities now and under the reference; a trajectory: its group and outcome
TOKENS = st.lists(st.tuples(st.integers(0, 4), st.floats(-3, 0), st.floats(-3, 0)), min_size=1, max_size=14)
GAMES = st.lists(st.tuples(st.integers(0, 1), st.integers(-1, 1)), min_size=5, max_size=5)


def minibatch_of(make_minibatch, tokens, games, splits=()):
    """Return the minibatch of these tokens; trajectories with tokens are renumbered."""
    trajectories_with_tokens = sorted({token[0] for token in tokens})
    tokens = sorted(tokens)
    return make_minibatch(
        [t[1] for t in tokens],
        reference_logprobs=[t[2] for t in tokens],
        trajectory=[trajectories_with_tokens.index(t[0]) for t in tokens],
        group=[games[i][0] for i in trajectories_with_tokens],
        outcome=[games[i][1] for i in trajectories_with_tokens],
        splits=[c for c in splits if c < len(tokens)],
    )


def dpo_by_loops(minibatch, leaf, beta, pairs, smoothing):
    size = len(minibatch.outcome)
    log_ratios = [(leaf - minibatch.reference_logprobs)[minibatch.trajectory == i].sum() for i in range(size)]
    outcome, group = minibatch.outcome.tolist(), minibatch.group.tolist()
    groups = {}
    for winner in range(size):
        for loser in range(size):
            if group[winner] == group[loser] and outcome[winner] > outcome[loser]:
                groups.setdefault(group[winner], []).append((winner, loser))
    losses_by_group = []
    for group_id, group_pairs in groups.items():
        best = max(o for o, g in zip(outcome, group, strict=True) if g == group_id)
        worst = min(o for o, g in zip(outcome, group, strict=True) if g == group_id)
        compared_pairs = (
            group_pairs
            if pairs == "all"
            else [
                (winner, loser) for winner, loser in group_pairs if outcome[winner] == best and outcome[loser] == worst
            ]
        )
        losses = []
        for winner, loser in compared_pairs:
            probability = torch.sigmoid(beta * (log_ratios[winner] - log_ratios[loser]))
            losses.append(-(1 - smoothing) * probability.log() - smoothing * (1 - probability).log())
        losses_by_group.append(losses if pairs == "all" else [sum(losses) / len(losses)])
    pair_losses = [loss for losses in losses_by_group for loss in losses]
    return sum(pair_losses) / len(pair_losses) if pair_losses else 0.0 * leaf.sum()


def test_dpo_by_hand(make_minibatch, gradient_of):
    """The winner (two tokens) has the log-ratio 1 and the loser -0.5, so the margin is 0.1 * 1.5."""
    batches, leaf = make_minibatch(
        [-1.0, -1.0, -2.0], reference_logprobs=[-1.5, -1.5, -1.5], trajectory=[0, 0, 1], outcome=[1.0, -1.0]
    )
    term = dpo(batches[0])
    assert term.level == "sum"
    assert term.values.sum().item() == pytest.approx(math.log(1 + math.exp(-0.15)))
    slope = 0.1 / (1 + math.exp(0.15))
    assert gradient_of(dpo, batches, leaf).tolist() == pytest.approx([-slope, -slope, slope])
    assert (term.metrics["pairs"], term.metrics["accuracy"].item()) == (1.0, 1.0)
    assert term.metrics["margin"].item() == pytest.approx(0.15)


@given(
    TOKENS,
    GAMES,
    st.sampled_from(["best_worst", "all"]),
    st.floats(0.05, 2),
    st.sampled_from([0.0, 0.2]),
    st.integers(1, 13),
)
def test_the_dpo_gradient_is_that_of_the_formula_for_any_split(
    make_minibatch, gradient_of, tokens, games, pairs, beta, smoothing, split
):
    batches, leaf = minibatch_of(make_minibatch, tokens, games, splits=(split,))

    def loss(batch):
        return dpo(batch, beta=beta, pairs=pairs, label_smoothing=smoothing)

    loss_by_formula = dpo_by_loops(batches[0].whole, leaf, beta, pairs, smoothing)
    assert sum(loss(batch).values.sum() for batch in batches).item() == pytest.approx(
        loss_by_formula.item(), rel=1e-5, abs=1e-5
    )
    assert torch.allclose(gradient_of(loss, batches, leaf), torch.autograd.grad(loss_by_formula, leaf)[0])


def test_dpo_accuracy_and_margin_are_means_over_pairs(make_minibatch):
    """Log-ratios 2, 0 and 1 of the best, the middle and the worst: margins 2, 1 and -1."""
    (batch,), _ = make_minibatch(
        [2.0, 0.0, 1.0], reference_logprobs=[0.0] * 3, trajectory=[0, 1, 2], outcome=[1.0, 0.0, -1.0]
    )
    metrics = dpo(batch, pairs="all", beta=0.5).metrics
    assert (metrics["accuracy"].item(), metrics["margin"].item()) == (pytest.approx(2 / 3), pytest.approx(0.5 * 2 / 3))


def test_dpo_extreme_margins_stay_finite(make_minibatch, gradient_of):
    batches, leaf = make_minibatch([-1e9, 0.0], reference_logprobs=[0.0, -1e9], trajectory=[0, 1], outcome=[1.0, -1.0])
    assert dpo(batches[0], beta=1.0).values.sum().item() == pytest.approx(2e9)
    assert gradient_of(lambda batch: dpo(batch, beta=1.0), batches, leaf).tolist() == pytest.approx([-1.0, 1.0])


def kto_by_loops(minibatch, leaf, beta, desirable, good_weight, bad_weight):
    outcome, group = minibatch.outcome.tolist(), minibatch.group.tolist()
    log_ratios = [
        (leaf - minibatch.reference_logprobs)[minibatch.trajectory == trajectory].sum()
        for trajectory in range(len(outcome))
    ]
    baseline = max(0.0, sum(g.item() for g in log_ratios) / len(log_ratios))
    losses = []
    for trajectory, value in enumerate(outcome):
        outcomes = [o for o, g in zip(outcome, group, strict=True) if g == group[trajectory]]
        threshold = sum(outcomes) / len(outcomes) if desirable == "above_group_mean" else 0.0
        if value > threshold + 1e-8:
            losses.append(good_weight * (1 - torch.sigmoid(beta * (log_ratios[trajectory] - baseline))))
        elif value < threshold - 1e-8:
            losses.append(bad_weight * (1 - torch.sigmoid(beta * (baseline - log_ratios[trajectory]))))
    return sum(losses) / len(losses) if losses else 0.0 * leaf.sum()


def test_kto_by_hand(make_minibatch, gradient_of):
    """The log-ratios are 2 and -1, so the baseline is 0.5."""
    batches, leaf = make_minibatch([-1.0, -3.0], reference_logprobs=[-3.0, -2.0], trajectory=[0, 1], outcome=[1.0, 0.0])
    term = kto(batches[0], beta=1.0)
    good = bad = 1 / (1 + math.exp(1.5))
    assert (term.level, term.values.sum().item()) == ("sum", pytest.approx((good + bad) / 2))
    slope = good * (1 - good) / 2
    assert gradient_of(lambda batch: kto(batch, beta=1.0), batches, leaf).tolist() == pytest.approx([-slope, slope])
    assert term.metrics["baseline"].item() == pytest.approx(0.5)
    assert term.metrics["margin"].item() == pytest.approx(3.0)
    assert term.metrics["desirable_fraction"].item() == 0.5
    assert kto(batches[0], beta=1.0, desirable_weight=3.0).values.sum().item() == pytest.approx((3 * good + bad) / 2)
    assert kto(batches[0], beta=1.0, undesirable_weight=3.0).values.sum().item() == pytest.approx((good + 3 * bad) / 2)
    term_of_positive = kto(batches[0], beta=1.0, desirable="positive")  # the outcome 0 is ignored
    assert term_of_positive.values.sum().item() == pytest.approx(good)
    assert term_of_positive.metrics["desirable_fraction"].item() == 1.0


@given(
    TOKENS,
    GAMES,
    st.sampled_from(["above_group_mean", "positive"]),
    st.floats(0, 2),
    st.floats(0, 2),
    st.integers(1, 11),
)
def test_the_kto_gradient_is_that_of_the_formula_for_any_split(
    make_minibatch, gradient_of, tokens, games, desirable, desirable_weight, undesirable_weight, split
):
    batches, leaf = minibatch_of(make_minibatch, tokens, games, splits=(split,))

    def loss(batch):
        return kto(
            batch,
            beta=0.5,
            desirable=desirable,
            desirable_weight=desirable_weight,
            undesirable_weight=undesirable_weight,
        )

    loss_by_formula = kto_by_loops(batches[0].whole, leaf, 0.5, desirable, desirable_weight, undesirable_weight)
    assert sum(loss(batch).values.sum() for batch in batches).item() == pytest.approx(
        loss_by_formula.item(), rel=1e-5, abs=1e-5
    )
    assert torch.allclose(gradient_of(loss, batches, leaf), torch.autograd.grad(loss_by_formula, leaf)[0])


# rounding makes the first mean larger than the outcome, and the other two smaller
@pytest.mark.parametrize(("outcome", "size"), [(0.1, 3), (0.1, 6), (0.7, 3)])
def test_kto_outcomes_equal_to_the_mean_up_to_rounding_count_as_equal(make_minibatch, outcome, size):
    (batch,), _ = make_minibatch(
        [-1.0] * size, reference_logprobs=[-1.0] * size, trajectory=list(range(size)), outcome=[outcome] * size
    )
    term = kto(batch)
    assert term.values.tolist() == [0.0] * size
    assert term.metrics["desirable_fraction"].item() == 0.0


def test_the_kto_gradient_vanishes_far_from_the_reference(make_minibatch, gradient_of):
    batches, leaf = make_minibatch([0.0, -1e9], reference_logprobs=[-1e9, 0.0], trajectory=[0, 1], outcome=[1.0, -1.0])
    assert gradient_of(kto, batches, leaf).tolist() == [0.0, 0.0]


# a token: its trajectory and turn, and its log-probabilities now and under the reference
TOKENS_OF_TRAJECTORY_DPO = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.floats(-3, 0), st.floats(-3, 0)), min_size=1, max_size=14
)
OUTCOMES = st.lists(st.integers(-1, 1), min_size=4, max_size=4)


def minibatch_of_turns(make_minibatch, tokens, outcomes, splits=()):
    tokens, trajectories_with_tokens = sorted(tokens), sorted({token[0] for token in tokens})
    return make_minibatch(
        [t[2] for t in tokens],
        reference_logprobs=[t[3] for t in tokens],
        trajectory=[trajectories_with_tokens.index(t[0]) for t in tokens],
        turn_index=[t[1] for t in tokens],
        outcome=[outcomes[i] for i in trajectories_with_tokens],
        splits=[c for c in splits if c < len(tokens)],
    )


def trajectory_dpo_by_loops(minibatch, leaf, beta, normalised, discount):
    log_ratios, outcome = [], minibatch.outcome.tolist()
    for index in range(len(outcome)):
        tokens = [token for token, trajectory in enumerate(minibatch.trajectory.tolist()) if trajectory == index]
        num_turns = 1 + max(int(minibatch.turn_index[token]) for token in tokens)
        total = 0.0
        for token in tokens:
            turn = int(minibatch.turn_index[token])
            weight = 1.0
            if discount is not None:  # sum of discount^k for k = t .. T-1, divided by the sum for k = 0 .. T-1
                weight = sum(discount**k for k in range(turn, num_turns)) / sum(discount**k for k in range(num_turns))
            total = total + weight * (leaf[token] - minibatch.reference_logprobs[token])
        log_ratios.append(total / len(tokens) if normalised else total)
    losses = [-torch.sigmoid(beta * (log_ratios[i] - log_ratios[j])).log()
              for i in range(len(log_ratios)) for j in range(len(log_ratios)) if outcome[i] > outcome[j]]  # fmt: skip
    return sum(losses) / len(losses) if losses else 0.0 * leaf.sum()


def margin(batch, **options):
    return trajectory_dpo(batch, beta=1.0, **options).metrics["margin"].item()


def test_trajectory_dpo_by_hand(make_minibatch):
    """The winner has log-ratios 3, 2, 1 in three turns, the loser 1."""
    (batch,), _ = make_minibatch([0.0, 0.0, 0.0, 0.0], reference_logprobs=[-3.0, -2.0, -1.0, -1.0], trajectory=[0, 0, 0, 1],
                             turn_index=[0, 1, 2, 0], outcome=[1.0, 0.0])  # fmt: skip
    assert margin(batch) == pytest.approx(2.0 - 1.0)
    assert margin(batch, length_normalised=False) == pytest.approx(6.0 - 1.0)
    assert margin(batch, length_normalised=False, discount=1.0) == pytest.approx(3 + 2 * 2 / 3 + 1 / 3 - 1.0)
    winner_log_ratio = 3 + 2 * (0.5 * 0.75 / 0.875) + 1 * (0.25 * 0.5 / 0.875)
    assert margin(batch, length_normalised=False, discount=0.5) == pytest.approx(winner_log_ratio - 1.0)
    assert margin(batch, discount=0.5) == pytest.approx(winner_log_ratio / 3 - 1.0)
    term = trajectory_dpo(batch, beta=2.0)
    assert (term.level, term.values.sum().item()) == ("sum", pytest.approx(math.log(1 + math.exp(-2.0))))
    assert (term.metrics["pairs"], term.metrics["accuracy"].item()) == (1.0, 1.0)


@given(TOKENS_OF_TRAJECTORY_DPO, OUTCOMES, st.booleans(), st.sampled_from([None, 0.5, 0.9, 1.0]), st.integers(1, 13))
def test_the_trajectory_dpo_gradient_is_that_of_the_formula_for_any_split(
    make_minibatch, gradient_of, tokens, outcomes, normalised, discount, split
):
    batches, leaf = minibatch_of_turns(make_minibatch, tokens, outcomes, splits=(split,))

    def loss(batch):
        return trajectory_dpo(batch, beta=0.5, pairs="all", length_normalised=normalised, discount=discount)

    loss_by_formula = trajectory_dpo_by_loops(batches[0].whole, leaf, 0.5, normalised, discount)
    assert sum(loss(batch).values.sum() for batch in batches).item() == pytest.approx(
        loss_by_formula.item(), rel=1e-5, abs=1e-5
    )
    assert torch.allclose(gradient_of(loss, batches, leaf), torch.autograd.grad(loss_by_formula, leaf)[0])


@given(TOKENS_OF_TRAJECTORY_DPO, OUTCOMES, st.sampled_from(["best_worst", "all"]))
def test_trajectory_dpo_without_normalisation_and_discount_is_dpo(make_minibatch, gradient_of, tokens, outcomes, pairs):
    batches, leaf = minibatch_of_turns(make_minibatch, tokens, outcomes)
    trajectory_dpo_gradient = gradient_of(
        lambda batch: trajectory_dpo(batch, pairs=pairs, length_normalised=False), batches, leaf
    )
    assert torch.allclose(trajectory_dpo_gradient, gradient_of(lambda batch: dpo(batch, pairs=pairs), batches, leaf))


def test_trajectory_dpo_preset_of_dmpo(make_minibatch):
    (batch,), _ = make_minibatch(
        [0.0] * 3, reference_logprobs=[-1.0] * 3, trajectory=[0, 0, 1], turn_index=[0, 1, 0], outcome=[1.0, 0.0]
    )
    dmpo_term = bind("losses", "trajectory_dpo", preset="dmpo")(batch)
    assert torch.equal(dmpo_term.values, trajectory_dpo(batch, length_normalised=False, discount=0.9).values)
