import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import BY_HAND, table

from sparring.credit.outcome import outcome
from sparring.credit.rae import rae


def test_golden():
    credit = rae(table([[1.0], [-1.0], [1.0], [1.0]]), {})
    assert credit.advantages == pytest.approx([1, -1.05, 1.0025, 0.952375])
    assert credit.state == {"game/first": pytest.approx(0.09524, abs=1e-5)}


def test_by_hand_roles_have_baselines_of_their_own():
    credit = rae(table(**BY_HAND), {})
    # first: 3 -> b 0.15, then -1 - 0.15; second: -3 -> b -0.15, then 1 + 0.15
    assert credit.advantages == pytest.approx([3, 3, -3, -1.15, 1.15, 1.15, 1.15])
    assert credit.state == {"game/first": pytest.approx(0.0925), "game/second": pytest.approx(-0.0925)}


def test_games_have_baselines_of_their_own():
    credit = rae(table([[1.0], [1.0]], games=[0, 1]), {})
    assert credit.advantages.tolist() == [1.0, 1.0]
    assert set(credit.state) == {"game/first", "other/first"}


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=8))
def test_a_baseline_that_never_moves_is_the_plain_outcome(returns):
    turns = table([[value] for value in returns])
    assert rae(turns, {}, decay=1.0).advantages == pytest.approx(outcome(turns, {}).advantages)


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=10), st.data())
def test_state_carries_over_batches_and_through_json(returns, data):
    cut = data.draw(st.integers(1, len(returns) - 1))
    whole = rae(table([[value] for value in returns]), {})
    first = rae(table([[value] for value in returns[:cut]]), {})
    second = rae(table([[value] for value in returns[cut:]]), json.loads(json.dumps(first.state)))
    assert [*first.advantages, *second.advantages] == pytest.approx(whole.advantages)
    assert second.state == whole.state


def test_gamma_weakens_early_turns():
    credit = rae(table([[0.0, 0.0, 1.0], [0.0, 1.0]]), {}, decay=1.0, gamma=0.5)
    assert credit.advantages == pytest.approx([0.25, 0.5, 1.0, 0.5, 1.0])


def test_the_given_state_is_not_changed():
    state = {"game/first": 0.5}
    assert rae(table([[1.0]]), state).advantages.tolist() == [0.5]
    assert state == {"game/first": 0.5}
