import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import BY_HAND, table

from sparring.config.plugins.registry import bind
from sparring.methods.credit.outcome import outcome
from sparring.methods.credit.rae import rae


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


def test_as_released_games_share_the_baseline_of_a_player():
    turns = table([[1.0], [1.0], [-1.0]], games=[0, 1, 0], seats=[0, 0, 1], roles=[0, 0, 1])
    credit = bind("credit", "rae", preset="as_released")(turns, {})
    assert credit.advantages == pytest.approx([1.0, 0.95, -1.0])
    assert credit.state == {"player0": pytest.approx(0.0975), "player1": pytest.approx(-0.05)}


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=8))
def test_as_released_one_game_in_seats_of_their_own_is_as_published(returns):
    seats = [number % 2 for number in range(len(returns))]
    turns = table([[value] for value in returns], seats=seats, roles=seats)
    assert rae(turns, {}, baselines="player").advantages.tolist() == rae(turns, {}).advantages.tolist()


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=8))
def test_a_baseline_that_never_moves_is_the_plain_outcome(returns):
    turns = table([[value] for value in returns])
    assert rae(turns, {}, decay=1.0).advantages == pytest.approx(outcome(turns).advantages)


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


def test_its_baselines_are_logged():
    assert rae(table([[1.0]]), {}, decay=0.5).metrics == {"baseline/game/first": 0.5}


def test_baselines_belong_to_roles_whatever_the_seat():
    credit = rae(table([[1.0], [1.0]], seats=[0, 1], roles=[1, 1]), {}, decay=0.5)
    assert credit.advantages.tolist() == [1.0, 0.5]
    assert credit.state == {"game/second": 0.75}


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=8), st.floats(0.1, 10))
def test_scaling_rewards_scales_advantages_and_baselines(returns, factor):
    plain, scaled = rae(table([[v] for v in returns]), {}), rae(table([[factor * v] for v in returns]), {})
    assert scaled.advantages == pytest.approx(factor * plain.advantages, abs=1e-9)
    assert scaled.state["game/first"] == pytest.approx(factor * plain.state["game/first"], abs=1e-9)


def test_an_offset_of_a_million_fades_as_the_baseline_learns():
    credit = rae(table([[1e6 + 1]] * 600), {})
    assert credit.advantages[0] == 1e6 + 1
    assert abs(credit.advantages[-1]) < 1e-6
    assert credit.advantages == pytest.approx((1e6 + 1) * 0.95 ** np.arange(600), rel=1e-6, abs=1e-8)


def test_an_empty_table_leaves_the_baselines():
    credit = rae(table([]), {"game/first": 0.5})
    assert credit.advantages.shape == (0,)
    assert credit.state == {"game/first": 0.5}
