import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.methods.credit.tables import table

from sparring.methods.credit.grpo import grpo
from sparring.methods.credit.mars2 import mars2


def acting(turns, actions):
    return dataclasses.replace(turns, action=np.array(actions, dtype=np.int64))


def grown(seed, games=12):
    """Return a random table whose groups form trees: the key of a turn is everything that went before."""
    generator = np.random.Generator(np.random.Philox(seed))
    rewards, keys, actions, known = [], [], [], {}
    for length in generator.integers(1, 5, games):
        past = ()
        for action in generator.integers(0, 3, length):
            keys.append(known.setdefault(past, len(known)))
            actions.append(action)
            past = (*past, action)
        rewards.append(generator.normal(size=length).tolist())
    return acting(table(rewards, groups=generator.integers(0, 2, games), roles=generator.integers(0, 2, games), keys=keys), actions)


# one state, actions a (returns 4 and 0, then on to a second turn that both play differently) and b (return 1)
HAND = {"rewards": [[0.0, 4.0], [0.0, 0.0], [1.0]], "groups": [0] * 3, "keys": [0, 1, 0, 1, 0]}


def test_by_hand():
    turns = acting(table(**HAND), [0, 0, 0, 1, 1])
    # nodes: a 2, a-then-a 4, a-then-b 0, b 1; baselines: a 1, b 2, a-then-a (2 + 0) / 2, a-then-b (2 + 4) / 2
    shaped = np.array([2 + 0.3 * 1, 4 + 0.3 * 3, 2 + 0.3 * 1, 0 - 0.3 * 3, 1 - 0.3 * 1])
    centred = shaped - shaped.mean()
    assert mars2(turns, divide_by_std=False).advantages == pytest.approx(centred)
    assert mars2(turns).advantages == pytest.approx(centred / shaped.std(ddof=1), abs=1e-5)
    assert mars2(turns, epsilon=1.0).advantages == pytest.approx(centred / (1 + shaped.std(ddof=1)))
    # siblings only: a-then-a against 0, a-then-b against 4; a weight of 1
    shaped = np.array([3, 8, 3, -4, 0])
    options = {"weight": 1.0, "sibling_share": 1.0, "divide_by_std": False}
    assert mars2(turns, **options).advantages == pytest.approx(shaped - shaped.mean())


@given(returns=st.lists(st.floats(-100, 100), min_size=1, max_size=7), weight=st.floats(0, 2))
def test_without_parents_and_siblings_it_is_grpo(returns, weight):
    turns = acting(table([[value] for value in returns], groups=[0] * len(returns), keys=range(len(returns))), [0] * len(returns))
    for divide in (True, False):
        expected = grpo(turns, divide_by_std=divide).advantages
        assert mars2(turns, weight=weight, divide_by_std=divide).advantages == pytest.approx(expected, abs=1e-6)


def naive(turns, weight, share):
    """The shaped rewards in plain Python loops, centred per group."""
    rows = range(len(turns.reward))
    whole = [turns.reward[turns.trajectory == turns.trajectory[row]].sum() for row in rows]
    states = list(zip(turns.group, turns.role, turns.state_key, strict=True))
    nodes = list(zip(states, turns.action, strict=True))
    reward = {node: np.mean([whole[row] for row in rows if nodes[row] == node]) for node in nodes}
    shaped = []
    for row in rows:
        terms = []
        if row and turns.trajectory[row] == turns.trajectory[row - 1]:
            terms.append((1 - share, reward[nodes[row - 1]]))
        siblings = [value for node, value in reward.items() if node[0] == states[row] and node != nodes[row]]
        if siblings:
            terms.append((share, np.mean(siblings)))
        own = reward[nodes[row]]
        base = sum(w * v for w, v in terms) if len(terms) == 2 else terms[0][1] if terms else own
        shaped.append(own + weight * (own - base))
    groups = list(zip(turns.group, turns.role, strict=True))
    return [shaped[row] - np.mean([shaped[other] for other in rows if groups[other] == groups[row]]) for row in rows]


@pytest.mark.parametrize("seed", range(6))
def test_it_equals_plain_loops(seed):
    turns = grown(seed)
    options = {"weight": 0.2 * seed, "sibling_share": 0.15 * seed}
    expected = naive(turns, *options.values())
    assert mars2(turns, divide_by_std=False, **options).advantages == pytest.approx(expected, abs=1e-9)


@settings(deadline=None)
@given(seed=st.integers(0, 1000), factor=st.floats(0.1, 10), shift=st.floats(-1e6, 1e6))
def test_returns_may_be_scaled_and_shifted(seed, factor, shift):
    turns = grown(seed)
    moved = dataclasses.replace(turns, reward=factor * turns.reward + shift * turns.done)
    plain = mars2(turns, divide_by_std=False).advantages
    assert mars2(moved, divide_by_std=False).advantages == pytest.approx(factor * plain, abs=1e-6)


def test_hard_tables():
    assert mars2(acting(table([]), [])).advantages.shape == (0,)
    assert mars2(acting(table([[5.0]]), [0])).advantages.tolist() == [0.0]
    equal = acting(table([[1e6 + 0.1]] * 5, groups=[0] * 5), [0, 1, 0, 1, 2])
    assert mars2(equal, divide_by_std=False).advantages == pytest.approx(np.zeros(5), abs=1e-6)


def test_roles_and_games_have_trees_of_their_own():
    turns = acting(table([[1.0], [3.0], [10.0], [20.0]], groups=[0, 0, 0, 1], roles=[0, 1, 0, 0], games=[0, 0, 0, 1]), [0, 1, 0, 1])
    # one node in role 0 of the first game, worth (1 + 10) / 2 to both that meet there; nobody has a sibling
    assert mars2(turns, divide_by_std=False).advantages.tolist() == [0.0] * 4
    apart = dataclasses.replace(turns, action=np.array([0, 1, 2, 1]))
    assert mars2(apart, divide_by_std=False).advantages == pytest.approx([-4.5 - 0.3 * 9, 0, 4.5 + 0.3 * 9, 0])
