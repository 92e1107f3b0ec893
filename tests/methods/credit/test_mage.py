import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import table

from sparring.methods.credit.gigpo import gigpo
from sparring.methods.credit.mage import mage


def table_of_attempts(rewards, views=None, episodes=None, **options):
    turns = table(rewards, **options)
    lengths = [len(turn_rewards) for turn_rewards in rewards]
    views = np.zeros(sum(lengths)) if views is None else views
    episode = turns.episode if episodes is None else np.repeat(np.array(episodes, dtype=np.int64), lengths)
    return dataclasses.replace(turns, view=np.array(views, dtype=np.int64), episode=episode)


def random_turns(seed, final_only=False):
    generator = np.random.Generator(np.random.Philox(seed))
    rewards = [generator.normal(size=generator.integers(1, 4)).tolist() for _ in range(12)]
    if final_only:
        rewards = [[0.0] * (len(turn_rewards) - 1) + turn_rewards[-1:] for turn_rewards in rewards]
    size = sum(map(len, rewards))
    seats = generator.integers(0, 2, 12).tolist()
    episodes = generator.permutation(12)
    return table_of_attempts(rewards, generator.integers(0, 3, size), episodes, seats=seats, groups=[0] * 7 + [1] * 5)


def mage_by_loops(turns, attempts, gamma, gamma_episode, step_weight, by_attempt):
    rows = [np.flatnonzero(turns.trajectory == index) for index in range(turns.trajectory.max() + 1)]
    group_keys = [(turns.group[turn_rows[0]], turns.role[turn_rows[0]]) for turn_rows in rows]
    returns = [turns.reward[turn_rows].sum() for turn_rows in rows]
    differences, attempt_indices, step_returns = {}, {}, np.zeros(len(turns.reward))
    for group_key in set(group_keys):
        members = sorted(
            (trajectory for trajectory in range(len(rows)) if group_keys[trajectory] == group_key),
            key=lambda i: turns.episode[rows[i][0]],
        )
        for begin in range(0, len(members), attempts):
            trial = members[begin : begin + attempts]
            for attempt_index, trajectory in enumerate(trial):
                previous_return = returns[trial[attempt_index - 1]] if attempt_index else 0.0
                differences[trajectory] = returns[trajectory] - previous_return
                attempt_indices[trajectory] = attempt_index
            next_return = 0.0  # step return of the first turn of the next attempt
            for trajectory in reversed(trial):
                value = differences[trajectory] + gamma_episode * next_return
                for row in reversed(rows[trajectory]):
                    step_returns[row], value = value, gamma * value
                next_return = step_returns[rows[trajectory][0]]
    advantages = []
    for trajectory, turn_rows in enumerate(rows):
        compared = [
            j
            for j in range(len(rows))
            if group_keys[j] == group_keys[trajectory]
            and (not by_attempt or attempt_indices[j] == attempt_indices[trajectory])
        ]
        for row in turn_rows:
            returns_at_view = [step_returns[r] for j in compared for r in rows[j] if turns.view[r] == turns.view[row]]
            advantages.append(
                differences[trajectory]
                - np.mean([differences[j] for j in compared])
                + step_weight * (step_returns[row] - np.mean(returns_at_view))
            )
    return advantages


def test_by_hand():
    """Three attempts with two, one and one turns have returns 1, 3 and 2. The differences are 1, 2 and -1."""
    turns = table_of_attempts([[0.0, 1.0], [3.0], [2.0]], groups=[0, 0, 0])
    # Step returns: -1 in attempt 3; 2 - .5 = 1.5 in attempt 2; in attempt 1 its last turn has 1 + .75 = 1.75
    # and its first turn .5 * 1.75 = .875. Their mean is .78125.
    credit = mage(turns, gamma=0.5, gamma_episode=0.5)
    episode_advantages = np.array([1, 1, 2, -1]) - 2 / 3
    step_advantages = np.array([0.875, 1.75, 1.5, -1.0]) - 0.78125
    assert credit.advantages == pytest.approx(episode_advantages + step_advantages)
    assert mage(turns, gamma=0.5, gamma_episode=0.5, step_weight=0.0).advantages == pytest.approx(episode_advantages)


@given(st.integers(0, 500), st.integers(1, 4), st.sampled_from([0.5, 1.0]), st.sampled_from([0.0, 0.6]), st.booleans())
def test_equals_plain_loops(seed, attempts, gamma, gamma_episode, by_attempt):
    turns = random_turns(seed)
    credit = mage(
        turns, attempts=attempts, gamma=gamma, gamma_episode=gamma_episode, step_weight=0.5, by_attempt=by_attempt
    )
    expected = mage_by_loops(turns, attempts, gamma, gamma_episode, 0.5, by_attempt)
    assert credit.advantages == pytest.approx(expected, abs=1e-9)


@given(st.integers(0, 500))
def test_with_one_attempt_and_final_rewards_mage_equals_gigpo(seed):
    turns = random_turns(seed, final_only=True)
    assert mage(turns, attempts=1).advantages == pytest.approx(gigpo(turns).advantages, abs=1e-9)


def test_step_credit_is_biased_if_attempts_are_independent():
    """One decision earns +1 with probability p, else -1. The test computes the expected gradient from all outcomes of two attempts."""
    p_win, gradient = 0.4, np.zeros(2)
    for reward_0 in (1.0, -1.0):
        for reward_1 in (1.0, -1.0):
            probability = (p_win if reward_0 > 0 else 1 - p_win) * (p_win if reward_1 > 0 else 1 - p_win)
            turns = table_of_attempts([[reward_0], [reward_1], [0.0], [0.0]], groups=[0] * 4, views=[0, 1, 2, 3])
            without_steps, with_steps = (
                mage(turns, attempts=2, gamma_episode=0.25, step_weight=w).advantages for w in (0.0, 1.0)
            )
            assert without_steps == pytest.approx(with_steps)  # a view that occurs once has no step credit
            turns = dataclasses.replace(turns, view=np.zeros(4, dtype=np.int64))
            step_advantages = mage(turns, attempts=2, gamma_episode=0.25).advantages - without_steps
            gradient += (
                probability
                * step_advantages[:2]
                * np.array([1 - p_win if value > 0 else -p_win for value in (reward_0, reward_1)])
            )
    exact_gradient = 2 * p_win * (1 - p_win)
    # The step returns are 0.75 * reward_0 + 0.25 * reward_1, then reward_1 - reward_0, then 0 and 0.
    # The baseline is the mean of these four, so it depends on both rewards.
    assert gradient == pytest.approx([exact_gradient * (0.75 - (0.75 - 1) / 4), exact_gradient * (1 - (1 + 0.25) / 4)])


def test_the_anchor_may_be_the_information_state():
    turns = dataclasses.replace(
        table_of_attempts([[1.0], [0.0]], views=[0, 1], groups=[0, 0]), state_key=np.zeros(2, dtype=np.int64)
    )
    assert mage(turns, attempts=1).advantages == pytest.approx([0.5, -0.5])
    assert mage(turns, attempts=1, anchor="state_key").advantages == pytest.approx([1.0, -1.0])


def test_advantages_are_0_for_equal_rewards_or_one_member_and_do_not_depend_on_offsets():
    for turns in (table_of_attempts([[0.0], [0.0]], groups=[0, 0]), table_of_attempts([[7.0]])):
        assert not mage(turns).advantages.any()
    large_returns = mage(table_of_attempts([[1e6], [1e6 + 1]], groups=[0, 0]), attempts=1)
    assert large_returns.advantages == pytest.approx([-1.0, 1.0])
