import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases import every_case
from tests.methods.credit.tables import table

from sparring.methods.credit.grpo import grpo
from sparring.methods.credit.rloo import rloo
from sparring.methods.credit.salt import salt


def stepping(turns, views, actions):
    return dataclasses.replace(turns, view=np.array(views, dtype=np.int64), action=np.array(actions, dtype=np.int64))


def drawn(seed):
    """Return a random table of 9 trajectories in 2 groups, with views that come back within a trajectory."""
    generator = np.random.Generator(np.random.Philox(seed))
    rewards = [generator.normal(size=length).tolist() for length in generator.integers(1, 5, 9)]
    size = sum(map(len, rewards))
    views, actions = generator.integers(0, 2, size), generator.integers(-1, 2, size)
    keys = 10 * views + generator.integers(0, 2, size)
    turns = table(rewards, groups=generator.integers(0, 2, 9), roles=generator.integers(0, 2, 9), keys=keys)
    return stepping(turns, views, actions)


def base_of(name):
    return {
        "grpo": lambda turns: grpo(turns).advantages,
        "dr_grpo": lambda turns: grpo(turns, divide_by_std=False).advantages,
        "rloo": lambda turns: rloo(turns).advantages,
    }[name]


def test_by_hand():
    # returns 3, 0, 0: leave-one-out 3, -1.5, -1.5; the first two share their first step, the last two their last
    turns = stepping(table([[0.0, 3.0], [0.0, 0.0], [0.0, 0.0]], groups=[0] * 3), [0, 1, 0, 2, 0, 2], [5, 5, 5, 5, 6, 5])
    assert salt(turns, base="rloo").advantages == pytest.approx([0.75, 3.0, 0.75, -1.5, -1.5, -1.5])


def test_a_step_that_all_took_gets_nothing():
    turns = stepping(table([[0.0, 3.0], [0.0, 0.0], [0.0, 1.0]], groups=[0] * 3), [0, 1, 0, 2, 0, 3], [5] * 6)
    for base in ("grpo", "dr_grpo", "rloo"):
        assert salt(turns, base=base).advantages[::2] == pytest.approx(np.zeros(3), abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("base", ["grpo", "dr_grpo", "rloo"])
def test_without_merges_it_is_its_base(seed, base):
    turns = drawn(seed)
    alone = stepping(turns, np.arange(len(turns.reward)), np.zeros(len(turns.reward)))
    assert salt(alone, base=base).advantages == pytest.approx(base_of(base)(alone), abs=1e-12)
    silent = stepping(turns, np.zeros(len(turns.reward)), np.full(len(turns.reward), -1))
    assert salt(silent, base=base).advantages == pytest.approx(base_of(base)(silent), abs=1e-12)


@every_case("seed", range(5))
@every_case("base", ["grpo", "dr_grpo", "rloo"])
@every_case("anchor", ["view", "state_key"])
def test_it_equals_plain_loops(seed, base, anchor):
    turns = drawn(seed)
    plain, column = base_of(base)(turns), getattr(turns, anchor)
    rows = list(zip(turns.group, turns.role, column, turns.action, strict=True))
    expected = []
    for row, key in enumerate(rows):
        alike = {row: plain[row]} if key[-1] < 0 else {turns.trajectory[j]: plain[j] for j, own in enumerate(rows) if own == key}
        expected.append(sum(alike.values()) / len(alike))
    assert salt(turns, base=base, anchor=anchor).advantages == pytest.approx(expected, abs=1e-9)


@settings(deadline=None)
@given(seed=st.integers(0, 1000), factor=st.floats(0.1, 10), shift=st.floats(-1e6, 1e6))
def test_rewards_may_be_scaled_and_shifted(seed, factor, shift):
    turns = drawn(seed)
    plain = salt(turns, base="rloo").advantages
    moved = dataclasses.replace(turns, reward=factor * turns.reward + shift * turns.done)
    assert salt(moved, base="rloo").advantages == pytest.approx(factor * plain, abs=1e-6)


def test_hard_tables():
    assert salt(stepping(table([]), [], [])).advantages.shape == (0,)
    assert not salt(stepping(table([[5.0, 1.0]]), [0, 0], [1, 1])).advantages.any()
    equal = stepping(table([[1e6 + 0.1]] * 5, groups=[0] * 5), [0] * 5, [0, 0, 1, 1, 1])
    assert salt(equal).advantages == pytest.approx(np.zeros(5), abs=1e-6)
    assert np.abs(salt(equal, epsilon=1.0).advantages).max() < 1e-6
