import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import BY_HAND, table

from sparring.methods.credit.outcome import outcome
from sparring.methods.credit.rae import rae

REWARDS = st.lists(st.lists(st.floats(-10, 10), min_size=1, max_size=4), min_size=1, max_size=6)


def test_every_turn_gets_the_whole_return():
    assert outcome(table(**BY_HAND)).advantages.tolist() == [3.0, 3.0, -3.0, -1.0, 1.0, 1.0, 1.0]


@given(REWARDS, st.floats(-10, 10))
def test_it_is_linear_in_the_rewards(rewards, factor):
    scaled = outcome(table([[factor * value for value in turns] for turns in rewards])).advantages
    assert scaled == pytest.approx(factor * outcome(table(rewards)).advantages, abs=1e-9)


@given(REWARDS, st.integers(0, 3), st.integers(0, 3))
def test_where_in_a_trajectory_a_reward_falls_is_irrelevant(rewards, first, second):
    moved = [list(turns) for turns in rewards]
    moved[0][first % len(moved[0])] += 1.0
    elsewhere = [list(turns) for turns in rewards]
    elsewhere[0][second % len(elsewhere[0])] += 1.0
    assert outcome(table(moved)).advantages == pytest.approx(outcome(table(elsewhere)).advantages)

def test_empty_table():
    assert outcome(table([])).advantages.shape == (0,)


def test_offset_is_kept_exactly():
    assert np.array_equal(outcome(table([[1e6, 1.0]])).advantages, [1e6 + 1, 1e6 + 1])


def test_two_games_of_both_seats_by_hand():
    """Game 0: the first seat earns -1 on the way and 3 at the end, its opponent 0 and -2; game 1 ends after one turn of the first seat."""
    turns = table([[-1.0, 3.0], [0.0, -2.0], [-1.0]], seats=[0, 1, 0], groups=[0, 0, 0])
    assert outcome(turns).advantages.tolist() == [2.0, 2.0, -2.0, -2.0, -1.0]


@given(REWARDS)
def test_it_is_a_running_baseline_that_never_moves_from_zero(rewards):
    assert np.array_equal(outcome(table(rewards)).advantages, rae(table(rewards), {}, decay=1.0).advantages)


@given(REWARDS, st.randoms())
def test_a_trajectory_is_judged_by_itself_whatever_stands_beside_it(rewards, random):
    together = outcome(table(rewards)).advantages
    alone = np.concatenate([outcome(table([turns])).advantages for turns in rewards])
    assert np.array_equal(together, alone)
    assert len(set(outcome(table([random.choice(rewards)])).advantages)) == 1
