import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import EIGHTHS, table

from sparring.config.plugins.registry import bind
from sparring.core.errors import CreditError
from sparring.methods.credit.at_grpo import at_grpo
from sparring.methods.credit.grpo import grpo
from sparring.methods.credit.vpr import vpr

REWARDS = st.lists(st.lists(EIGHTHS, min_size=1, max_size=4), min_size=1, max_size=8)

P = 0.4
# stop for a reward of 1, or continue for -0.5 and then get 2: (probability, rewards, score of each turn)
STOP, GO = (P, [1.0], [1 - P]), (1 - P, [-0.5, 2.0], [-P, 0.0])
EXACT = P * (1 - P) * (1.0 - 1.5)


def group(rewards, **kwargs):
    return table(rewards, groups=[0] * len(rewards), **kwargs)


def expected_gradient(advantages_of, members):
    total = 0.0
    for trajectories in itertools.product((STOP, GO), repeat=members):
        turns = group([rewards for _, rewards, _ in trajectories])
        score = np.array([value for _, _, scores in trajectories for value in scores])
        total += (
            np.prod([probability for probability, _, _ in trajectories]) * float(advantages_of(turns) @ score) / members
        )
    return total


def test_by_hand():
    # turn 0: 1, 3, 5: mean 3, deviation 2; turn 1: 4, 0: mean 2, deviation 2 sqrt(2); turn 2: one member
    turns = group([[1.0, 4.0, 9.0], [3.0], [5.0, 0.0]])
    assert at_grpo(turns).advantages == pytest.approx([-1, 2**-0.5, 0, 0, 1, -(2**-0.5)], abs=1e-5)
    assert at_grpo(turns, scale="none").advantages == pytest.approx([-2, 2, 0, 0, 2, -2])


def test_by_hand_returns():
    turns = group([[1.0, 4.0], [3.0], [5.0, 0.0]])
    # turn 0: 5, 3, 5; discounted by 0.5: 3, 3, 5
    assert at_grpo(turns, value="return", scale="none").advantages == pytest.approx([2 / 3, 2, -4 / 3, 2 / 3, -2])
    discounted = at_grpo(turns, value="return", scale="none", gamma=0.5).advantages
    assert discounted == pytest.approx([-2 / 3, 2, -2 / 3, 4 / 3, -2])


def test_turns_in_the_same_state_form_a_group():
    turns = group([[1.0], [3.0], [7.0], [9.0]], keys=[0, 0, 1, 1])
    assert at_grpo(turns, scale="none", same_state=True).advantages == pytest.approx([-1, 1, -1, 1])
    assert at_grpo(turns, scale="none").advantages == pytest.approx([-4, -2, 2, 4])


@given(st.lists(EIGHTHS, min_size=1, max_size=8))
def test_on_games_of_one_turn_at_grpo_is_grpo(returns):
    turns = group([[value] for value in returns])
    expected = grpo(turns, divide_by_std=False).advantages
    assert at_grpo(turns, scale="none").advantages == pytest.approx(expected, abs=1e-12)
    if np.std(returns) > 1e-6:
        assert at_grpo(turns).advantages == pytest.approx(grpo(turns).advantages, abs=1e-9)


@given(REWARDS, st.sampled_from(["reward", "return"]), st.sampled_from(["std", "none"]))
def test_advantages_equal_plain_loops(rewards, value, scale):
    seats, groups = [index % 2 for index in range(len(rewards))], [index // 4 for index in range(len(rewards))]
    samples = {}
    for values, *key in zip(rewards, seats, groups, strict=True):
        for turn in range(len(values)):
            samples.setdefault((*key, turn), []).append(values[turn] if value == "reward" else sum(values[turn:]))
    expected = []
    for values, *key in zip(rewards, seats, groups, strict=True):
        for turn in range(len(values)):
            peers = samples[(*key, turn)]
            sample = values[turn] if value == "reward" else sum(values[turn:])
            deviation = np.std(peers, ddof=1) + 1e-6 if len(peers) > 1 else 1.0
            expected.append((sample - sum(peers) / len(peers)) / (deviation if scale == "std" else 1.0))
    advantages = at_grpo(table(rewards, seats=seats, groups=groups), value=value, scale=scale).advantages
    assert advantages == pytest.approx(expected, abs=1e-5)


def test_step_grpo_is_a_preset():
    turns = group([[1.0, 4.0], [3.0], [5.0, 0.0]])
    assert np.array_equal(
        bind("credit", "at_grpo", preset="step_grpo")(turns, {}).advantages, at_grpo(turns).advantages
    )


@pytest.mark.parametrize("members", [2, 3, 4])
def test_with_turn_rewards_the_gradient_is_that_of_immediate_rewards(members):
    """The later reward of 2 is ignored: continuing looks worse by 1.5 although it is better by 0.5."""
    gradient = P * (1 - P) * (1.0 - -0.5)
    shrink = (members - 1) / members
    assert expected_gradient(lambda turns: at_grpo(turns, scale="none").advantages, members) == pytest.approx(
        shrink * gradient
    )
    assert gradient * EXACT < 0


@pytest.mark.parametrize("members", [2, 3, 4])
def test_with_returns_the_gradient_is_exact_up_to_a_factor(members):
    estimate = expected_gradient(lambda turns: at_grpo(turns, scale="none", value="return").advantages, members)
    assert estimate == pytest.approx(EXACT * (members - 1) / members)


def test_epsilon_is_added_to_the_deviation():
    assert at_grpo(group([[1.0], [-1.0]]), epsilon=2**0.5).advantages == pytest.approx([8**-0.5, -(8**-0.5)])


def replies(team, local, seats=None):
    """Return a table with one trajectory of one turn per reply; ``team`` and ``local`` are lists of rewards per prompt."""
    prompts = [index for index, rewards in enumerate(team) for _ in rewards]
    flat_rewards = [value for rewards in team for value in rewards]
    turns = table(
        [[value] for value in flat_rewards], groups=[0] * len(flat_rewards), seats=seats
    )  # all from one initial state, so only prompts distinguish them
    rewards = np.array([value for values in local for value in values])
    components = {"best_action": turns.reward, "format_bonus": rewards, "game": np.full(len(flat_rewards), 7.0)}
    is_first = [index == 0 for values in team for index in range(len(values))]
    return replace(
        turns,
        reward=turns.reward + rewards + 7.0,
        components=components,
        state_group=np.array(prompts),
        committed=np.array(is_first),
    )


CANDIDATES = {"candidates": True, "team": "best_action", "local": "format_bonus"}


def test_candidates_by_hand():
    # prompt 0: 1 + 0, 0 + 1, 0 + 0 with alpha 1; prompt 1: equal
    turns = replies([[1.0, 0.0, 0.0], [1.0, 1.0]], [[0.0, 1.0, 0.0], [0.0, 0.0]])
    advantages = at_grpo(turns, **CANDIDATES, scale="none").advantages
    assert advantages == pytest.approx([1 / 3, 1 / 3, -2 / 3, 0, 0])
    advantages = at_grpo(turns, **CANDIDATES, alpha=2.0, scale="none").advantages
    assert advantages == pytest.approx([1, 0, -1, 0, 0])
    scaled = at_grpo(turns, **CANDIDATES).advantages
    assert scaled == pytest.approx(np.array([1, 1, -2, 0, 0]) / 3 / (1 / 3) ** 0.5, abs=1e-5)
    local_only = at_grpo(turns, candidates=True, local="format_bonus", scale="none").advantages
    assert local_only == pytest.approx([-1 / 3, 2 / 3, -1 / 3, 0, 0])


def test_with_one_component_candidates_are_credited_as_in_vpr():
    turns = replies([[1.0, 0.0, 0.25], [1.0, 0.5]], [[0.0, 0.0, 0.0], [0.0, 0.0]])
    team = at_grpo(turns, candidates=True, team="best_action").advantages
    assert team == pytest.approx(vpr(turns, baseline="candidates").advantages)


def test_named_rewards_replace_the_reward_of_episodes():
    turns = replace(replies([[1.0, 0.0]], [[0.0, 3.0]]), state_group=None, committed=None)
    assert at_grpo(
        turns, team="best_action", local="format_bonus", alpha=0.5, scale="none"
    ).advantages == pytest.approx([-1.25, 1.25])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"candidates": True}, "team: best_action"),
        ({**CANDIDATES, "value": "return"}, "value: reward"),
        ({"team": "regret"}, "'regret'"),
    ],
)
def test_candidates_with_missing_columns_are_refused(options, words):
    with pytest.raises(CreditError, match=words):
        at_grpo(replies([[1.0, 0.0]], [[0.0, 0.0]]), **options)


def test_candidates_need_a_table_of_all_replies():
    with pytest.raises(CreditError, match="candidates=True"):
        bind("credit", "at_grpo", CANDIDATES)(table([[1.0], [0.0]]), {})
