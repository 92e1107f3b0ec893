"""Compare group estimators with exact gradients, on the game of tests/methods/credit/test_bias.py."""

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
    """The gradient is summed over the group; a group of one gives 0 by convention."""

    def expected_maximum(logit):
        probability = 1 / (1 + np.exp(-logit))
        chances = [probability, (1 - probability) * probability, (1 - probability) ** 2]
        draws = itertools.product(zip(chances, [total for _, total, _ in TOTALS], strict=True), repeat=members)
        return sum(np.prod([chance for chance, _ in draw]) * max(total for _, total in draw) for draw in draws)

    logit, step = np.log(exact.P / (1 - exact.P)), 1e-5
    slope = (expected_maximum(logit + step) - expected_maximum(logit - step)) / (2 * step)
    assert members * exact.expected_gradient(pass_at_k, members) == pytest.approx(
        slope if members > 1 else 0.0, rel=1e-7
    )


@pytest.mark.parametrize("members", [2, 3])
def test_minimax_preference_is_unbiased_for_the_chance_to_beat_oneself(members):
    wins = 0.0
    for (probability, return_a, score), (other_probability, return_b, _) in itertools.product(TOTALS, repeat=2):
        wins += probability * other_probability * score * ((return_a > return_b) + 0.5 * (return_a == return_b))
    preference = bind("credit", "arena_rl", preset="minimax_preference")
    assert exact.expected_gradient(lambda turns: preference(turns, {}), members) == pytest.approx(wins)
    assert abs(wins) > 0.01


@pytest.mark.parametrize("length", ["turns", "tokens"])
def test_opo_is_biased_as_its_baseline_contains_the_trajectory_itself(length):
    """The bias is exactly -E[b * score]."""
    bias = 0.0
    for group in itertools.product(exact.TRAJECTORIES, repeat=2):
        lengths, totals = [len(rewards) for _, rewards, _ in group], [sum(rewards) for _, rewards, _ in group]
        baseline = float(np.dot(lengths, totals)) / sum(lengths)
        bias -= (
            np.prod([probability for probability, _, _ in group])
            * baseline
            * sum(sum(scores) for _, _, scores in group)
            / 2
        )
    assert exact.expected_gradient(lambda turns: opo(turns, length=length), 2) - exact.EXACT == pytest.approx(bias)
