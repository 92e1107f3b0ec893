"""Compare estimators with the exact policy gradient, by enumeration of a game of variable length.

The game has at most two turns. At each turn the policy stops with probability P (one logit for both turns) or continues
for a reward of -0.5. A stop earns 1 at turn 0 and 3 at turn 1. If the policy continues at turn 1, it also earns 2, and the
game ends.
"""

import itertools

import numpy as np
import pytest
from tests.methods.credit.tables import table

from sparring.methods.credit.gae import gae
from sparring.methods.credit.grpo import grpo
from sparring.methods.credit.mars import mars
from sparring.methods.credit.outcome import outcome
from sparring.methods.credit.rae import rae
from sparring.methods.credit.rloo import rloo

P = 0.4
# (probability, rewards per turn, gradient of log-probability of each turn's action with respect to the logit)
TRAJECTORIES = [
    (P, [1.0], [1 - P]),
    ((1 - P) * P, [-0.5, 3.0], [-P, 1 - P]),
    ((1 - P) ** 2, [-0.5, -0.5 + 2.0], [-P, -P]),
]
EXACT = sum(p * sum(rewards) * sum(score) for p, rewards, score in TRAJECTORIES)


def expected_gradient(estimator, members, trajectories=TRAJECTORIES, values=None):
    """Return the estimator's expected gradient per trajectory, by enumeration of all groups of trajectories."""
    total = 0.0
    for group in itertools.product(trajectories, repeat=members):
        critic = None if values is None else [values[turn] for _, rewards, _ in group for turn in range(len(rewards))]
        turns = table([rewards for _, rewards, _ in group], groups=[0] * members, values=critic)
        advantages = estimator(turns).advantages
        scores = np.array([score for _, _, scores in group for score in scores])
        total += np.prod([probability for probability, _, _ in group]) * float(advantages @ scores) / members
    return total


def test_the_exact_gradient_is_the_derivative_of_the_mean_return():
    def mean_return(logit):
        stop_probability = 1 / (1 + np.exp(-logit))
        return (
            stop_probability * 1.0 + (1 - stop_probability) * stop_probability * 2.5 + (1 - stop_probability) ** 2 * 1.0
        )

    logit, step = np.log(P / (1 - P)), 1e-5
    assert pytest.approx((mean_return(logit + step) - mean_return(logit - step)) / (2 * step), rel=1e-8) == EXACT


@pytest.mark.parametrize("members", [2, 3])
def test_outcome_and_rloo_are_unbiased(members):
    assert expected_gradient(outcome, members) == pytest.approx(EXACT)
    assert expected_gradient(rloo, members) == pytest.approx(EXACT)


@pytest.mark.parametrize("members", [1, 2, 3])
def test_rae_is_unbiased_as_its_baseline_comes_from_earlier_batches(members):
    assert expected_gradient(lambda turns: rae(turns, {"game/first": 0.7}, decay=0.5), members) == pytest.approx(EXACT)


@pytest.mark.parametrize("members", [2, 3, 4])
def test_dr_grpo_is_the_gradient_times_n_minus_one_over_n(members):
    value = expected_gradient(lambda turns: grpo(turns, divide_by_std=False), members)
    assert value == pytest.approx(EXACT * (members - 1) / members)


def test_grpo_in_pairs_keeps_only_the_sign_of_the_difference():
    """In a pair the sample deviation is |difference| / sqrt(2), so the advantage is a sign of constant size."""
    pairs = itertools.product(TRAJECTORIES, repeat=2)
    expected_sign = sum(
        probability_a * probability_b * np.sign(sum(rewards_a) - sum(rewards_b)) * (sum(scores_a) - sum(scores_b)) / 2
        for (probability_a, rewards_a, scores_a), (probability_b, rewards_b, scores_b) in pairs
    )
    assert expected_gradient(grpo, 2) == pytest.approx(expected_sign / 2**0.5, rel=1e-5)
    doubled_trajectories = [
        (probability, [2 * reward for reward in rewards], scores) for probability, rewards, scores in TRAJECTORIES
    ]
    assert expected_gradient(grpo, 2, doubled_trajectories) == pytest.approx(expected_gradient(grpo, 2), rel=1e-5)


@pytest.mark.parametrize("members", [1, 2, 3, 4])
def test_the_bias_of_mars_is_that_of_a_mean_over_turns(members):
    """The baseline b = (sum of turn returns) / (number of turns) depends on each trajectory's length and outcome."""
    bias = 0.0
    for group in itertools.product(TRAJECTORIES, repeat=members):
        returns = [sum(rewards[turn:]) for _, rewards, _ in group for turn in range(len(rewards))]
        score = sum(sum(scores) for _, _, scores in group)
        bias -= np.prod([probability for probability, _, _ in group]) * np.mean(returns) * score / members
    assert expected_gradient(mars, members) - EXACT == pytest.approx(bias, abs=1e-12)
    assert abs(bias) > 0.01


def test_gae_is_unbiased_with_lambda_one_or_with_an_exact_critic():
    exact_values = [P * 1.0 + (1 - P) * (-0.5 + P * 3.0 + (1 - P) * 1.5), P * 3.0 + (1 - P) * 1.5]
    wrong_values = [4.0, -1.0]
    assert expected_gradient(lambda turns: gae(turns, lam=1.0), 1, values=wrong_values) == pytest.approx(EXACT)
    for lam in (0.0, 0.5):
        value = expected_gradient(lambda turns, lam=lam: gae(turns, lam=lam), 1, values=exact_values)
        assert value == pytest.approx(EXACT)
    assert abs(expected_gradient(lambda turns: gae(turns, lam=0.0), 1, values=wrong_values) - EXACT) > 0.1
