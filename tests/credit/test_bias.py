"""Estimators against the exact policy gradient on a game of variable length, by enumeration.

The game: up to three turns; at each the policy stops with probability p (one logit, shared) and gets 1 for a stop at
turn 0, 3 at turn 1, 2 at turn 2 (the last turn always ends), or goes on for -0.5 on the way.
"""

import itertools

import numpy as np
import pytest
from tables import table

from sparring.credit.grpo import grpo
from sparring.credit.mars import mars
from sparring.credit.outcome import outcome
from sparring.credit.rloo import rloo

P = 0.4
# (probability, rewards per turn, gradient of log-probability of each turn's action with respect to the logit)
TRAJECTORIES = [
    (P, [1.0], [1 - P]),
    ((1 - P) * P, [-0.5, 3.0], [-P, 1 - P]),
    ((1 - P) ** 2, [-0.5, -0.5 + 2.0], [-P, -P]),
]
EXACT = sum(p * sum(rewards) * sum(score) for p, rewards, score in TRAJECTORIES)


def expected_gradient(estimator, members):
    """Mean over all tuples of trajectories of the gradient per trajectory that the estimator's advantages give."""
    total = 0.0
    for chosen in itertools.product(TRAJECTORIES, repeat=members):
        turns = table([rewards for _, rewards, _ in chosen], groups=[0] * members)
        advantages = estimator(turns, {}).advantages
        scores = np.array([score for _, _, scores in chosen for score in scores])
        total += np.prod([p for p, _, _ in chosen]) * float(advantages @ scores) / members
    return total


@pytest.mark.parametrize("members", [2, 3])
def test_outcome_and_rloo_are_unbiased(members):
    assert expected_gradient(outcome, members) == pytest.approx(EXACT)
    assert expected_gradient(rloo, members) == pytest.approx(EXACT)


@pytest.mark.parametrize("members", [2, 3, 4])
def test_dr_grpo_is_the_gradient_times_n_minus_one_over_n(members):
    value = expected_gradient(lambda turns, state: grpo(turns, state, divide_by_std=False), members)
    assert value == pytest.approx(EXACT * (members - 1) / members)


def test_mars_is_biased_on_games_of_variable_length_and_the_bias_falls_with_the_batch():
    """The mean over turns depends on how many turns a trajectory has itself; the bias is of order one over the batch."""
    biases = [abs(expected_gradient(mars, members) - EXACT) for members in (2, 4, 6)]
    assert biases[0] > biases[1] > biases[2] > 1e-6
    assert biases[2] < 0.6 * biases[0]


def test_mars_is_unbiased_up_to_scale_when_all_games_have_one_turn():
    """With one turn per game the mean over turns is the mean over games."""
    one_turn = [(P, [1.0], [1 - P]), (1 - P, [-2.0], [-P])]
    exact = sum(p * rewards[0] * score[0] for p, rewards, score in one_turn)
    total = 0.0
    for chosen in itertools.product(one_turn, repeat=3):
        advantages = mars(table([rewards for _, rewards, _ in chosen]), {}).advantages
        scores = np.array([score[0] for _, _, score in chosen])
        total += np.prod([p for p, _, _ in chosen]) * float(advantages @ scores) / 3
    assert total == pytest.approx(exact * 2 / 3)
