import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError
from sparring.methods.losses.dpo import dpo

# a token: its trajectory, log-probability now and by the reference; a trajectory: its group and outcome
TOKENS = st.lists(st.tuples(st.integers(0, 4), st.floats(-3, 0), st.floats(-3, 0)), min_size=1, max_size=14)
GAMES = st.lists(st.tuples(st.integers(0, 1), st.integers(-1, 1)), min_size=5, max_size=5)


def laid_out(make_whole, tokens, games, cut=()):
    """Return the minibatch of these tokens, the trajectories that have any renumbered."""
    present = sorted({token[0] for token in tokens})
    tokens = sorted(tokens)
    return make_whole(
        [t[1] for t in tokens],
        reference_logprobs=[t[2] for t in tokens],
        trajectory=[present.index(t[0]) for t in tokens],
        group=[games[i][0] for i in present],
        outcome=[games[i][1] for i in present],
        cut=[c for c in cut if c < len(tokens)],
    )


def naive(whole, free, beta, pairs, smoothing):
    size = len(whole.outcome)
    gain = [(free - whole.reference_logprobs)[whole.trajectory == i].sum() for i in range(size)]
    outcome, group = whole.outcome.tolist(), whole.group.tolist()
    groups = {}
    for i in range(size):
        for j in range(size):
            if group[i] == group[j] and outcome[i] > outcome[j]:
                groups.setdefault(group[i], []).append((i, j))
    means = []
    for name, own in groups.items():
        top = max(o for o, g in zip(outcome, group, strict=True) if g == name)
        low = min(o for o, g in zip(outcome, group, strict=True) if g == name)
        chosen = own if pairs == "all" else [(i, j) for i, j in own if outcome[i] == top and outcome[j] == low]
        losses = []
        for i, j in chosen:
            p = torch.sigmoid(beta * (gain[i] - gain[j]))
            losses.append(-(1 - smoothing) * p.log() - smoothing * (1 - p).log())
        means.append(losses if pairs == "all" else [sum(losses) / len(losses)])
    flat = [loss for losses in means for loss in losses]
    return sum(flat) / len(flat) if flat else 0.0 * free.sum()


def test_by_hand(make_whole, gradient_of):
    """S = 1 for the winner (two tokens), -0.5 for the loser: margin 0.1 * 1.5."""
    batches, free = make_whole([-1.0, -1.0, -2.0], reference_logprobs=[-1.5, -1.5, -1.5], trajectory=[0, 0, 1], outcome=[1.0, -1.0])
    term = dpo(batches[0])
    assert term.level == "sum"
    assert term.values.sum().item() == pytest.approx(math.log(1 + math.exp(-0.15)))
    slope = 0.1 / (1 + math.exp(0.15))
    assert gradient_of(dpo, batches, free).tolist() == pytest.approx([-slope, -slope, slope])
    assert (term.metrics["pairs"], term.metrics["accuracy"].item()) == (1.0, 1.0)
    assert term.metrics["margin"].item() == pytest.approx(0.15)


@given(TOKENS, GAMES, st.sampled_from(["best_worst", "all"]), st.floats(0.05, 2), st.sampled_from([0.0, 0.2]), st.integers(1, 13))
def test_gradient_is_the_direct_formula_s_however_it_is_cut(make_whole, gradient_of, tokens, games, pairs, beta, smoothing, cut):
    batches, free = laid_out(make_whole, tokens, games, cut=(cut,))

    def loss(batch):
        return dpo(batch, beta=beta, pairs=pairs, label_smoothing=smoothing)

    direct = naive(batches[0].whole, free, beta, pairs, smoothing)
    assert sum(loss(batch).values.sum() for batch in batches).item() == pytest.approx(direct.item(), rel=1e-5, abs=1e-5)
    assert torch.allclose(gradient_of(loss, batches, free), torch.autograd.grad(direct, free)[0])


@given(TOKENS, GAMES)
def test_at_the_reference_the_loss_is_log_two(make_whole, tokens, games):
    batches, _ = laid_out(make_whole, [(t[0], t[1], t[1]) for t in tokens], games)
    term = dpo(batches[0], pairs="all")
    assert term.values.sum().item() == pytest.approx(math.log(2) if term.metrics["pairs"] else 0.0)
    assert term.metrics["margin"].item() == 0.0


@pytest.mark.parametrize(("group", "outcome"), [([0, 1], [1.0, -1.0]), ([0, 0], [1.0, 1.0]), ([0, 0], [0.0, 0.0])])
def test_groups_of_one_or_of_equal_outcomes_give_nothing(make_whole, gradient_of, group, outcome):
    batches, free = make_whole([-1.0, -2.0], reference_logprobs=[-3.0, -1.0], trajectory=[0, 1], group=group, outcome=outcome)
    assert dpo(batches[0]).values.tolist() == [0.0, 0.0]
    assert gradient_of(dpo, batches, free).tolist() == [0.0, 0.0]
    assert dpo(batches[0]).metrics["pairs"] == 0.0


def test_accuracy_and_margin_are_means_over_pairs(make_whole):
    """Log-ratios 2, 0 and 1 of the best, the middle and the worst: margins 2, 1 and -1."""
    (batch,), _ = make_whole([2.0, 0.0, 1.0], reference_logprobs=[0.0] * 3, trajectory=[0, 1, 2], outcome=[1.0, 0.0, -1.0])
    metrics = dpo(batch, pairs="all", beta=0.5).metrics
    assert (metrics["accuracy"].item(), metrics["margin"].item()) == (pytest.approx(2 / 3), pytest.approx(0.5 * 2 / 3))


def test_all_pairs_or_the_extreme_ones(make_whole):
    (batch,), _ = make_whole([0.0] * 3, reference_logprobs=[0.0] * 3, trajectory=[0, 1, 2], outcome=[1.0, 0.0, -1.0])
    assert dpo(batch).metrics["pairs"] == 1.0
    assert dpo(batch, pairs="all").metrics["pairs"] == 3.0


def test_wild_margins_stay_finite(make_whole, gradient_of):
    batches, free = make_whole([-1e9, 0.0], reference_logprobs=[0.0, -1e9], trajectory=[0, 1], outcome=[1.0, -1.0])
    assert dpo(batches[0], beta=1.0).values.sum().item() == pytest.approx(2e9)
    assert gradient_of(lambda batch: dpo(batch, beta=1.0), batches, free).tolist() == pytest.approx([-1.0, 1.0])


def test_bad_options_are_refused():
    for options in ({"beta": 0.0}, {"label_smoothing": 0.5}, {"pairs": "some"}):
        with pytest.raises(ConfigError, match=next(iter(options))):
            bind("losses", "dpo", options)
