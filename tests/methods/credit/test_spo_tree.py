import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases import every_case
from tests.methods.credit.tables import table

from sparring.methods.credit.rloo import rloo
from sparring.methods.credit.spo_tree import spo_tree


def grown(seed, games=14):
    """Return a random table whose groups form trees, and per trajectory its (group, role), keys, actions and rewards."""
    generator = np.random.Generator(np.random.Philox(seed))
    plain, known = [], {}
    groups, roles = generator.integers(0, 2, games), generator.integers(0, 2, games)
    for game, length in enumerate(generator.integers(1, 5, games)):
        keys, actions, past = [], generator.integers(0, 2, length).tolist(), ()
        for action in actions:
            keys.append(known.setdefault(past, len(known)))
            past = (*past, action, int(generator.integers(0, 2)))
        plain.append(((groups[game], roles[game]), keys, actions, generator.normal(size=length).tolist()))
    turns = table(
        [episode[3] for episode in plain],
        groups=groups,
        roles=roles,
        keys=[key for episode in plain for key in episode[1]],
    )
    return acting(turns, [action for episode in plain for action in episode[2]]), plain


def acting(turns, actions):
    return dataclasses.replace(turns, action=np.array(actions, dtype=np.int64))


# three games share their first turn, two of them their second
HAND = {"rewards": [[0.0, 4.0], [0.0, 0.0], [0.0, 1.0]], "groups": [0] * 3, "keys": [0, 1, 0, 1, 0, 2]}


def test_by_hand():
    turns = table(**HAND)
    # V: start 5/3, key 1: 2, key 2: 1
    assert spo_tree(turns).advantages == pytest.approx([1 / 3, 2, 1 / 3, -2, -2 / 3, 0])
    # without the own trajectory: start 1/2, 5/2, 2; key 1: 0, 4; key 2: alone
    assert spo_tree(turns, leave_one_out=True).advantages == pytest.approx([1.5, 4, -0.5, -4, -1, 0])
    # half of what follows counts: start (2 + 0 + 0.5) / 3
    assert spo_tree(turns, gamma=0.5).advantages[[0, 1, 4]] == pytest.approx([1 - 2.5 / 3, 2, 0.5 - 2.5 / 3])
    # deviations: at the start of (2, 2, 1), at key 1 of (4, 0)
    divided = spo_tree(turns, divide_by_std=True).advantages
    assert divided == pytest.approx([0.5**0.5, 1, 0.5**0.5, -1, -(2**0.5), 0])
    assert spo_tree(turns, divide_by_std=True, epsilon=2.0).advantages[1] == pytest.approx(0.5)


def test_segments_of_branches_by_hand():
    # two games part at their second turn, of four; V: start 2, after the first turn 2, then each its own return
    rewards, keys = [[0.0, 0.0, 0.0, 4.0], [0.0, 0.0, 0.0, 0.0]], [0, 1, 2, 3, 0, 1, 4, 5]
    turns = acting(table(rewards, groups=[0, 0], keys=keys), [0, 0, 0, 0, 0, 1, 0, 0])
    assert spo_tree(turns).advantages == pytest.approx([0, 2, 0, 0, 0, -2, 0, 0])
    assert spo_tree(turns, segments="branches").advantages == pytest.approx([0, 2, 2, 2, 0, -2, -2, -2])
    alike = acting(
        table(rewards, groups=[0, 0], keys=[0, 1, 2, 3] * 2), [0] * 8
    )  # nothing parts them: one segment each
    assert spo_tree(alike, segments="branches").advantages == pytest.approx([2] * 4 + [-2] * 4)


@given(st.integers(0, 10_000), st.sampled_from(["trajectories", "children"]))
@settings(max_examples=40, deadline=None)
def test_segments_share_out_the_same_sums(seed, average):
    turns, plain = grown(seed)
    plainly = spo_tree(turns, average=average).advantages
    shared = spo_tree(turns, average=average, segments="branches").advantages
    ways = {}
    for start, keys, actions, _ in plain:
        for place, key in enumerate(keys):
            ways.setdefault((start, place, key), set()).add(
                keys[place + 1] if place + 1 < len(keys) else ("end", actions[place])
            )
    row = 0
    for start, keys, *_ in plain:
        segment = []
        for place, key in enumerate([*keys, None]):
            if segment and (key is None or len(ways[start, place, key]) > 1):
                assert shared[segment] == pytest.approx([plainly[segment].sum()] * len(segment), abs=1e-9)
                segment = []
            segment.append(row + place)
        row += len(keys)


def test_by_hand_over_children():
    turns = acting(table(**HAND), [0, 0, 0, 1, 0, 0])
    # key 1 has two ends, worth 4 and 0; the start has two children, worth 2 and 1, however often they were met
    assert spo_tree(turns, average="children").advantages == pytest.approx([0.5, 2, 0.5, -2, -0.5, 0])
    left_out = spo_tree(turns, average="children", leave_one_out=True).advantages
    assert left_out == pytest.approx([1, 4, 1, -4, -1, 0])
    divided = spo_tree(turns, average="children", divide_by_std=True).advantages
    assert divided == pytest.approx([1, 1, 1, -1, -1, 0])
    same_end = acting(turns, [0, 0, 0, 0, 0, 0])  # both ends of key 1 are one way on, worth 2
    assert spo_tree(same_end, average="children").advantages == pytest.approx([0.5, 0, 0.5, 0, -0.5, 0])


def naive(plain, gamma, average, leave_one_out):
    """The estimator in plain Python: values by recursion over lists of trajectories."""

    def through(owner, key):
        return [(episode, episode[1].index(key)) for episode in plain if episode[0] == owner and key in episode[1]]

    def togo(episode, turn):
        return sum(gamma**k * r for k, r in enumerate(episode[3][turn:]))

    def way(episode, turn):
        return ("to", episode[1][turn + 1]) if turn + 1 < len(episode[1]) else ("end", episode[2][turn])

    def step(episode, turn):
        return episode[3][turn] + (
            gamma * value(episode[0], episode[1][turn + 1]) if turn + 1 < len(episode[1]) else 0.0
        )

    def ways(owner, key):
        steps = {}
        for other, turn in through(owner, key):
            steps.setdefault(way(other, turn), []).append(step(other, turn))
        return {name: sum(values) / len(values) for name, values in steps.items()}

    def value(owner, key):
        values = (
            [togo(*place) for place in through(owner, key)]
            if average == "trajectories"
            else list(ways(owner, key).values())
        )
        return sum(values) / len(values)

    def baseline(episode, turn):
        if not leave_one_out:
            return value(episode[0], episode[1][turn])
        if average == "trajectories":
            others = [togo(*place) for place in through(episode[0], episode[1][turn]) if place[0] is not episode]
        else:
            others = [v for name, v in ways(episode[0], episode[1][turn]).items() if name != way(episode, turn)]
        return sum(others) / len(others) if others else None

    result = []
    for episode in plain:
        for turn in range(len(episode[1])):
            edge = (
                step(episode, turn)
                if average == "trajectories"
                else ways(episode[0], episode[1][turn])[way(episode, turn)]
            )
            base = baseline(episode, turn)
            result.append(0.0 if base is None else edge - base)
    return result


@every_case("seed", range(6))
@every_case("average", ["trajectories", "children"])
@every_case("leave_one_out", [False, True])
def test_it_equals_plain_recursion(seed, average, leave_one_out):
    turns, plain = grown(seed)
    expected = naive(plain, 0.9, average, leave_one_out)
    assert np.count_nonzero(expected) > 5
    options = {"gamma": 0.9, "average": average, "leave_one_out": leave_one_out}
    assert spo_tree(turns, **options).advantages == pytest.approx(expected, abs=1e-9)


@settings(deadline=None)
@given(seed=st.integers(0, 1000))
def test_a_trajectorys_advantages_add_up_to_its_return_less_the_mean_of_its_start(seed):
    turns, _ = grown(seed)
    advantages = spo_tree(turns).advantages
    keys = list(zip(turns.group, turns.role, turns.state_key, strict=True))
    first = {trajectory: row for row, trajectory in reversed(list(enumerate(turns.trajectory)))}
    returns = {trajectory: turns.reward[turns.trajectory == trajectory].sum() for trajectory in first}
    for trajectory, row in first.items():
        alike = [returns[other] for other, start in first.items() if keys[start] == keys[row]]
        expected = returns[trajectory] - sum(alike) / len(alike)
        assert advantages[turns.trajectory == trajectory].sum() == pytest.approx(expected, abs=1e-9)


@settings(deadline=None)
@given(returns=st.lists(st.floats(-100, 100), min_size=1, max_size=7))
def test_on_games_of_one_turn_leaving_oneself_out_is_rloo(returns):
    turns = acting(table([[value] for value in returns], groups=[0] * len(returns)), range(len(returns)))
    expected = rloo(turns).advantages
    for average in ("trajectories", "children"):
        assert spo_tree(turns, average=average, leave_one_out=True).advantages == pytest.approx(expected, abs=1e-9)
