"""The exact bias of every estimator on a game of variable length (that of tests/credit/test_bias.py), with every column filled by the truth.

Numbers are the expected gradient of a group of three as a share of the exact gradient: 1 is no bias. They were computed by this
enumeration and are pinned, so that a change of an estimator's expectation is seen. The lab's page has the same of every estimator in larger games.
"""

import dataclasses
import importlib.util
import itertools
from pathlib import Path

import numpy as np
import pytest
from tables import table

from sparring.evaluate.credit_lab import bind_estimator, per_turn

SPEC = importlib.util.spec_from_file_location("exact_game", Path(__file__).parent / "test_bias.py")
exact = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(exact)
MEMBERS = 3
STOP, GO = 0, 1
STOP_REWARD = np.array([1.0, 3.0])  # at turns 0 and 1
GO_VALUE = np.array([-0.5 + exact.P * 3.0 + (1 - exact.P) * 1.5, 1.5])  # going on at turn 0 and then playing on; at turn 1
STATE_VALUE = exact.P * STOP_REWARD + (1 - exact.P) * GO_VALUE
UNBIASED = {"difference_rewards", "exact_advantage", "gae", "loop", "marti", "outcome", "rae", "rloo", "shapley", "vtrace"}
PINNED = {
    "a_grae": 0,
    "adv_evo": 0.666666667,
    "advantage_alignment": 1.22,
    "advantage_alignment:as_released": 1.22,
    "arena_rl": 0.769798581,
    "arena_rl:minimax_preference": 0.333333333,
    "at_grpo": 5.35920265,
    "at_grpo:step_grpo": 5.35920265,
    "bi_level_gae": 1.35,
    "branch_grpo": 0.76979947,
    "coma": 0.106666667,
    "copo": 0.511387211,
    "dgrpo": 0.76979947,
    "dr_mas": 0.531960857,
    "dr_mas:global": 0.531960857,
    "flow_grpo": 0.531960857,
    "gigpo": 1.00666667,
    "gigpo:as_released": 0.756,
    "gpg": 0.666666667,
    "grpo": 0.76979947,
    "grpo:dr_grpo": 0.666666667,
    "hgpo": 2.29788164,
    "hgpo:as_released": 2.29788164,
    "hiper": 1.49012748,
    "mage": 1.05348148,
    "mars": 0.662666667,
    "mars:as_released": 3.27916097,
    "mars:no_turn_level": 0.666666667,
    "mars:no_agent_specific": 0.662666667,
    "mars2": 0.682607634,
    "match_tir": 1.29784569,
    "mc_grpo": 0.76979947,
    "mc_grpo:as_released": 635.2,
    "ngrpo": 0.962271514,
    "opo": 0.416,
    "oprl": 0.893605956,
    "pass_at_k": 0.5776,
    "ppr": -1.94101309,
    "rebn": 0.0540292235,
    "reinforce_plus_plus": 0.0540292987,
    "reinforce_plus_plus:baseline": 0.531961519,
    "s_grpo": 1.27777778,
    "salt": 0.76979947,
    "spa": -8.66666667,
    "spae": -0.63020053,
    "spo_tree": 0.106666667,
    "ssl": -3.84898846,
    "vpr": -2.33879063,
    "vpr:unbiased": -1.65333333,
    "xrpo": 0.815925373,
}


def filled(chosen):
    """Return the turn table of a tuple of trajectories: every optional column as a run or a perfect critic would fill it."""
    turns = table([rewards for _, rewards, _ in chosen], groups=[0] * len(chosen), tokens=[1] * sum(len(r) for _, r, _ in chosen))
    action = np.array([STOP if score > 0 else GO for _, _, scores in chosen for score in scores])
    place = turns.turn_index
    logprob = np.log(np.where(action == STOP, exact.P, 1 - exact.P))
    action_value = np.where(action == STOP, STOP_REWARD[place], GO_VALUE[place])
    value = STATE_VALUE[place]
    best = (action_value >= np.maximum(STOP_REWARD, GO_VALUE)[place]).astype(np.float64)
    columns = {"action": action, "view": place, "state_key": place, "logprob": logprob, "old_logprob": logprob}
    return dataclasses.replace(
        turns,
        **columns,
        reference_logprob=np.full(len(place), np.log(0.5)),
        value=value,
        value_after=np.where(turns.done, 0.0, np.append(value[1:], 0.0)),
        token_value=value,
        action_value=action_value,
        state_value=value,
        default_value=(STOP_REWARD + GO_VALUE)[place] / 2,
        components={"game": turns.reward, "best_action": best},
        action_names=("stop", "go"),
        view_names=("first", "second"),
    )


def judged(turns):
    """Return the table with the judge's reward paid on top of the game's."""
    return dataclasses.replace(turns, reward=turns.reward + turns.components["best_action"])


def share(name):
    """Return the expected gradient of a group as a share of the exact gradient."""
    estimate, total = bind_estimator(name), 0.0
    paid = "best_action" in estimate.options.values()
    for chosen in itertools.product(exact.TRAJECTORIES, repeat=MEMBERS):
        turns = filled(chosen)
        turns = judged(turns) if paid else dataclasses.replace(turns, components={"game": turns.reward})
        advantages = per_turn(estimate(turns, {}), turns)
        scores = np.array([score for _, _, scores in chosen for score in scores])
        total += np.prod([p for p, _, _ in chosen]) * float(advantages @ scores) / MEMBERS
    return total / exact.EXACT


@pytest.mark.parametrize("name", sorted(UNBIASED))
def test_no_bias_with_the_truth_for_a_critic(name):
    assert share(name) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("name", sorted(PINNED))
def test_the_expected_gradient_is_the_pinned_share_of_the_exact_one(name):
    assert share(name) == pytest.approx(PINNED[name], rel=1e-5, abs=1e-9)


def test_the_columns_are_those_of_the_game():
    turns = filled(exact.TRAJECTORIES)
    assert turns.action.tolist() == [STOP, GO, STOP, GO, GO]
    assert turns.action_value - turns.state_value == pytest.approx([-0.6 * 0.6, 0.6 * 0.4, 1.5 * 0.6, 0.6 * 0.4, -1.5 * 0.4])
    assert turns.components["best_action"].tolist() == [0, 1, 1, 1, 0]
