"""The exact bias of every estimator on a game of variable length (that of tests/methods/credit/test_bias.py), with exact values in every column.

Numbers are the expected gradient of a group of three as a share of the exact gradient: 1 is no bias. They were computed by this
enumeration and are pinned in tests/data/exact-bias.json, from which the pages of the estimators take them, so that a change of an
estimator's expectation is seen and no page can say anything else. The lab's page has the same of every estimator in larger games.
"""

import dataclasses
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from tests.methods.credit import test_bias as exact
from tests.methods.credit.tables import table

from sparring.measure.credit_lab import advantage_per_turn, bind_estimator, estimator_names

pytestmark = pytest.mark.always
MEMBERS = 3
STOP, GO = 0, 1
STOP_REWARD = np.array([1.0, 3.0])  # at turns 0 and 1
GO_VALUE = np.array([-0.5 + exact.P * 3.0 + (1 - exact.P) * 1.5, 1.5])  # value of continuing at turn 0 and at turn 1
STATE_VALUE = exact.P * STOP_REWARD + (1 - exact.P) * GO_VALUE
SHARES = json.loads((Path(__file__).parents[3] / "tests" / "data" / "exact-bias.json").read_text(encoding="utf-8"))


def table_with_exact_columns(trajectories):
    """Return the turn table of these trajectories; a perfect critic fills every optional column."""
    turns = table(
        [rewards for _, rewards, _ in trajectories],
        groups=[0] * len(trajectories),
        tokens=[1] * sum(len(r) for _, r, _ in trajectories),
    )
    action = np.array([STOP if score > 0 else GO for _, _, scores in trajectories for score in scores])
    turn_index = turns.turn_index
    logprob = np.log(np.where(action == STOP, exact.P, 1 - exact.P))
    action_value = np.where(action == STOP, STOP_REWARD[turn_index], GO_VALUE[turn_index])
    value = STATE_VALUE[turn_index]
    so_far = np.concatenate([np.cumsum(rewards) for _, rewards, _ in trajectories])
    is_best_action = (action_value >= np.maximum(STOP_REWARD, GO_VALUE)[turn_index]).astype(np.float64)
    columns = {
        "action": action,
        "view": turn_index,
        "state_key": turn_index,
        "logprob": logprob,
        "old_logprob": logprob,
    }
    return dataclasses.replace(
        turns,
        **columns,
        reference_logprob=np.full(len(turn_index), np.log(0.5)),
        value=value,
        value_after=np.where(turns.done, 0.0, np.append(value[1:], 0.0)),
        token_value=value,
        action_value=action_value,
        state_value=value,
        default_value=(STOP_REWARD + GO_VALUE)[turn_index] / 2,
        playout_before=so_far - turns.reward + value,
        playout=so_far + np.where(turns.done, 0.0, np.append(value[1:], 0.0)),
        components={"game": turns.reward, "best_action": is_best_action},
        action_names=("stop", "go"),
        view_names=("first", "second"),
    )


def with_contributions(turns):
    """Return the table with the contribution of each turn: differences of expected returns, which sum to the return."""
    is_first_turn = np.diff(turns.trajectory, prepend=-1) != 0
    so_far = turns.playout_before - turns.value  # rewards of earlier turns
    total = np.where(turns.done, so_far + turns.reward, so_far + turns.action_value)
    return dataclasses.replace(turns, value_after=total - np.where(is_first_turn, 0.0, np.append(0.0, total[:-1])))


def with_verdicts(turns):
    return dataclasses.replace(turns, reward=turns.reward + turns.components["best_action"])


def share_of_exact_gradient(name):
    estimate, total = bind_estimator(name), 0.0
    is_judged = "best_action" in estimate.options.values()
    for trajectories in itertools.product(exact.TRAJECTORIES, repeat=MEMBERS):
        turns = table_with_exact_columns(trajectories)
        if estimate.plugin.declarations.CRITIC == "contribution":
            turns = with_contributions(turns)
        turns = with_verdicts(turns) if is_judged else dataclasses.replace(turns, components={"game": turns.reward})
        advantages = advantage_per_turn(estimate(turns, {}), turns)
        scores = np.array([score for _, _, scores in trajectories for score in scores])
        total += np.prod([p for p, _, _ in trajectories]) * float(advantages @ scores) / MEMBERS
    return total / exact.EXACT


UNBIASED = {
    "difference_rewards",
    "exact_advantage",
    "gae",
    "loop",
    "marti",
    "outcome",
    "rae",
    "rloo",
    "shapley",
    "vine_ppo",
    "vtrace",
}


@pytest.mark.parametrize("name", sorted(SHARES))
def test_the_share_of_the_exact_gradient_is_as_its_page_says(name):
    assert share_of_exact_gradient(name) == pytest.approx(SHARES[name], rel=1e-5, abs=1e-9)


def test_which_estimators_are_unbiased_with_an_exact_critic():
    assert {name.split(":")[0] for name, value in SHARES.items() if value == 1.0} == UNBIASED


def test_contributions_sum_to_the_return_and_without_bonus_are_unbiased():
    turns = with_contributions(table_with_exact_columns(exact.TRAJECTORIES))
    assert np.bincount(turns.trajectory, weights=turns.value_after) == pytest.approx([1.0, 2.5, 1.0])
    assert share_of_exact_gradient("spa grounding=0") == pytest.approx(1.0)
    assert share_of_exact_gradient("spa") == pytest.approx(
        -2 / 3
    )  # the default bonus, paid for each turn, in a game of when to stop


def test_every_stored_number_belongs_to_an_existing_estimator():
    assert set(SHARES) <= set(estimator_names("all"))
