import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases import every_case
from tests.methods.credit.tables import table

from sparring.methods.credit.rloo import rloo
from sparring.methods.credit.spo_tree import spo_tree


def random_tree(seed, num_games=14):
    """Return a random table whose groups form trees, and per trajectory its (group, role), keys, actions and rewards."""
    generator = np.random.Generator(np.random.Philox(seed))
    trajectories, key_of_history = [], {}
    groups, roles = generator.integers(0, 2, num_games), generator.integers(0, 2, num_games)
    for game, length in enumerate(generator.integers(1, 5, num_games)):
        keys, actions, history = [], generator.integers(0, 2, length).tolist(), ()
        for action in actions:
            keys.append(key_of_history.setdefault(history, len(key_of_history)))
            history = (*history, action, int(generator.integers(0, 2)))
        trajectories.append(((groups[game], roles[game]), keys, actions, generator.normal(size=length).tolist()))
    turns = table(
        [episode[3] for episode in trajectories],
        groups=groups,
        roles=roles,
        keys=[key for episode in trajectories for key in episode[1]],
    )
    return with_actions(turns, [action for episode in trajectories for action in episode[2]]), trajectories


def with_actions(turns, actions):
    return dataclasses.replace(turns, action=np.array(actions, dtype=np.int64))


# three games share their first turn, two of them their second
HAND = {"rewards": [[0.0, 4.0], [0.0, 0.0], [0.0, 1.0]], "groups": [0] * 3, "keys": [0, 1, 0, 1, 0, 2]}


def test_by_hand():
    turns = table(**HAND)
    # values: 5/3 at the start, 2 at key 1, 1 at key 2
    assert spo_tree(turns).advantages == pytest.approx([1 / 3, 2, 1 / 3, -2, -2 / 3, 0])
    # values without the trajectory itself: 1/2, 5/2 and 2 at the start; 0 and 4 at key 1; key 2 has no other trajectory
    assert spo_tree(turns, leave_one_out=True).advantages == pytest.approx([1.5, 4, -0.5, -4, -1, 0])
    # later rewards count half: the value at the start is (2 + 0 + 0.5) / 3
    assert spo_tree(turns, gamma=0.5).advantages[[0, 1, 4]] == pytest.approx([1 - 2.5 / 3, 2, 0.5 - 2.5 / 3])
    # deviations: at the start of (2, 2, 1), at key 1 of (4, 0)
    divided_by_std = spo_tree(turns, divide_by_std=True).advantages
    assert divided_by_std == pytest.approx([0.5**0.5, 1, 0.5**0.5, -1, -(2**0.5), 0])
    assert spo_tree(turns, divide_by_std=True, epsilon=2.0).advantages[1] == pytest.approx(0.5)


def test_segments_of_branches_by_hand():
    # two games of four turns differ from the second action on; the value is 2 in turns 1 and 2, then the game's return
    rewards, keys = [[0.0, 0.0, 0.0, 4.0], [0.0, 0.0, 0.0, 0.0]], [0, 1, 2, 3, 0, 1, 4, 5]
    turns = with_actions(table(rewards, groups=[0, 0], keys=keys), [0, 0, 0, 0, 0, 1, 0, 0])
    assert spo_tree(turns).advantages == pytest.approx([0, 2, 0, 0, 0, -2, 0, 0])
    assert spo_tree(turns, segments="branches").advantages == pytest.approx([0, 2, 2, 2, 0, -2, -2, -2])
    # without a branch each game is one segment
    unbranched = with_actions(table(rewards, groups=[0, 0], keys=[0, 1, 2, 3] * 2), [0] * 8)
    assert spo_tree(unbranched, segments="branches").advantages == pytest.approx([2] * 4 + [-2] * 4)


@given(st.integers(0, 10_000), st.sampled_from(["trajectories", "children"]))
@settings(max_examples=40, deadline=None)
def test_segments_keep_the_sum_of_advantages(seed, average):
    turns, trajectories = random_tree(seed)
    turn_advantages = spo_tree(turns, average=average).advantages
    segment_advantages = spo_tree(turns, average=average, segments="branches").advantages
    continuations = {}
    for group_and_role, keys, actions, _ in trajectories:
        for index, key in enumerate(keys):
            continuations.setdefault((group_and_role, index, key), set()).add(
                keys[index + 1] if index + 1 < len(keys) else ("end", actions[index])
            )
    row = 0
    for group_and_role, keys, *_ in trajectories:
        segment = []
        for index, key in enumerate([*keys, None]):
            if segment and (key is None or len(continuations[group_and_role, index, key]) > 1):
                assert segment_advantages[segment] == pytest.approx(
                    [turn_advantages[segment].sum()] * len(segment), abs=1e-9
                )
                segment = []
            segment.append(row + index)
        row += len(keys)


def test_by_hand_over_children():
    turns = with_actions(table(**HAND), [0, 0, 0, 1, 0, 0])
    # key 1 has two ends with values 4 and 0; the start has two children with values 2 and 1, each counted once
    assert spo_tree(turns, average="children").advantages == pytest.approx([0.5, 2, 0.5, -2, -0.5, 0])
    leave_one_out_advantages = spo_tree(turns, average="children", leave_one_out=True).advantages
    assert leave_one_out_advantages == pytest.approx([1, 4, 1, -4, -1, 0])
    divided_by_std = spo_tree(turns, average="children", divide_by_std=True).advantages
    assert divided_by_std == pytest.approx([1, 1, 1, -1, -1, 0])
    with_one_child = with_actions(turns, [0, 0, 0, 0, 0, 0])  # both continuations of key 1 are one child with value 2
    assert spo_tree(with_one_child, average="children").advantages == pytest.approx([0.5, 0, 0.5, 0, -0.5, 0])


def advantages_by_recursion(trajectories, gamma, average, leave_one_out):
    """Return the advantages, with the value of each state computed by recursion over lists of trajectories."""

    def visits_of(group_and_role, key):
        return [
            (episode, episode[1].index(key))
            for episode in trajectories
            if episode[0] == group_and_role and key in episode[1]
        ]

    def return_to_go(episode, turn):
        return sum(gamma**k * r for k, r in enumerate(episode[3][turn:]))

    def next_state_of(episode, turn):
        return ("to", episode[1][turn + 1]) if turn + 1 < len(episode[1]) else ("end", episode[2][turn])

    def step_return(episode, turn):
        return episode[3][turn] + (
            gamma * value_of(episode[0], episode[1][turn + 1]) if turn + 1 < len(episode[1]) else 0.0
        )

    def values_of_next_states(group_and_role, key):
        returns_by_state = {}
        for trajectory, turn in visits_of(group_and_role, key):
            returns_by_state.setdefault(next_state_of(trajectory, turn), []).append(step_return(trajectory, turn))
        return {next_state: sum(values) / len(values) for next_state, values in returns_by_state.items()}

    def value_of(group_and_role, key):
        values = (
            [return_to_go(*visit) for visit in visits_of(group_and_role, key)]
            if average == "trajectories"
            else list(values_of_next_states(group_and_role, key).values())
        )
        return sum(values) / len(values)

    def baseline_of(episode, turn):
        if not leave_one_out:
            return value_of(episode[0], episode[1][turn])
        if average == "trajectories":
            other_values = [
                return_to_go(*visit) for visit in visits_of(episode[0], episode[1][turn]) if visit[0] is not episode
            ]
        else:
            other_values = [
                v
                for next_state, v in values_of_next_states(episode[0], episode[1][turn]).items()
                if next_state != next_state_of(episode, turn)
            ]
        return sum(other_values) / len(other_values) if other_values else None

    advantages = []
    for episode in trajectories:
        for turn in range(len(episode[1])):
            action_value = (
                step_return(episode, turn)
                if average == "trajectories"
                else values_of_next_states(episode[0], episode[1][turn])[next_state_of(episode, turn)]
            )
            baseline = baseline_of(episode, turn)
            advantages.append(0.0 if baseline is None else action_value - baseline)
    return advantages


@every_case("seed", range(6))
@every_case("average", ["trajectories", "children"])
@every_case("leave_one_out", [False, True])
def test_spo_tree_equals_plain_recursion(seed, average, leave_one_out):
    turns, trajectories = random_tree(seed)
    expected = advantages_by_recursion(trajectories, 0.9, average, leave_one_out)
    assert np.count_nonzero(expected) > 5
    options = {"gamma": 0.9, "average": average, "leave_one_out": leave_one_out}
    assert spo_tree(turns, **options).advantages == pytest.approx(expected, abs=1e-9)


@settings(deadline=None)
@given(seed=st.integers(0, 1000))
def test_advantages_of_a_trajectory_sum_to_its_return_minus_the_mean(seed):
    turns, _ = random_tree(seed)
    advantages = spo_tree(turns).advantages
    keys = list(zip(turns.group, turns.role, turns.state_key, strict=True))
    first_rows = {trajectory: row for row, trajectory in reversed(list(enumerate(turns.trajectory)))}
    returns = {trajectory: turns.reward[turns.trajectory == trajectory].sum() for trajectory in first_rows}
    for trajectory, row in first_rows.items():
        same_start_returns = [returns[peer] for peer, peer_row in first_rows.items() if keys[peer_row] == keys[row]]
        expected = returns[trajectory] - sum(same_start_returns) / len(same_start_returns)
        assert advantages[turns.trajectory == trajectory].sum() == pytest.approx(expected, abs=1e-9)


@settings(deadline=None)
@given(returns=st.lists(st.floats(-100, 100), min_size=1, max_size=7))
def test_on_one_turn_games_leave_one_out_is_rloo(returns):
    turns = with_actions(table([[value] for value in returns], groups=[0] * len(returns)), range(len(returns)))
    expected = rloo(turns).advantages
    for average in ("trajectories", "children"):
        assert spo_tree(turns, average=average, leave_one_out=True).advantages == pytest.approx(expected, abs=1e-9)
