"""Group estimators against exact gradients, on the game of tests/methods/credit/test_bias.py (one logit, up to three turns)."""

import itertools

import numpy as np
import pytest
from tests.methods.credit import test_bias as exact

from sparring.config.plugins.registry import bind
from sparring.methods.credit.opo import opo
from sparring.methods.credit.pass_at_k import pass_at_k

TOTALS = [(probability, sum(rewards), sum(scores)) for probability, rewards, scores in exact.TRAJECTORIES]


@pytest.mark.parametrize("members", [1, 2, 3])
def test_pass_at_k_is_an_unbiased_gradient_of_the_best_of_the_group(members):
    """Summed over the group; a group of one gives 0 by convention."""

    def best(logit):
        p = 1 / (1 + np.exp(-logit))
        chances = [p, (1 - p) * p, (1 - p) ** 2]
        draws = itertools.product(zip(chances, [total for _, total, _ in TOTALS], strict=True), repeat=members)
        return sum(np.prod([chance for chance, _ in draw]) * max(total for _, total in draw) for draw in draws)

    logit, step = np.log(exact.P / (1 - exact.P)), 1e-5
    slope = (best(logit + step) - best(logit - step)) / (2 * step)
    assert members * exact.expected_gradient(pass_at_k, members) == pytest.approx(
        slope if members > 1 else 0.0, rel=1e-7
    )


@pytest.mark.parametrize("members", [2, 3])
def test_minimax_preference_is_an_unbiased_gradient_of_the_chance_to_beat_an_equal(members):
    wins = 0.0
    for (p, mine, score), (q, other, _) in itertools.product(TOTALS, repeat=2):
        wins += p * q * score * ((mine > other) + 0.5 * (mine == other))
    preference = bind("credit", "arena_rl", preset="minimax_preference")
    assert exact.expected_gradient(lambda turns: preference(turns, {}), members) == pytest.approx(wins)
    assert abs(wins) > 0.01


@pytest.mark.parametrize("length", ["turns", "tokens"])
def test_opos_bias_is_that_of_a_baseline_which_knows_its_own_trajectory(length):
    """Exactly -E[b * score]."""
    bias = 0.0
    for chosen in itertools.product(exact.TRAJECTORIES, repeat=2):
        lengths, totals = [len(rewards) for _, rewards, _ in chosen], [sum(rewards) for _, rewards, _ in chosen]
        baseline = float(np.dot(lengths, totals)) / sum(lengths)
        bias -= np.prod([p for p, _, _ in chosen]) * baseline * sum(sum(scores) for _, _, scores in chosen) / 2
    assert exact.expected_gradient(lambda turns: opo(turns, length=length), 2) - exact.EXACT == pytest.approx(bias)
