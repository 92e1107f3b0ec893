import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import table

from sparring.core.errors import ConfigError
from sparring.methods.credit.marti import marti
from sparring.methods.credit.rloo import rloo

STATE = {"game/first": [4.0, 1.0], "game/second": [2.0, 2.0]}  # Q = 0.25 and 1
RETURNS = st.lists(st.floats(-10, 10), min_size=1, max_size=8)


def test_by_hand():
    """R = 1 and 0.5. Margin .75 and -.5; quality .25 - 0 and .5 - 0."""
    turns = table([[0.5, 0.5], [0.5]], roles=[0, 1])
    margin = marti(turns, STATE, shaping="margin", baseline="none")
    assert margin.advantages == pytest.approx([1.375, 1.375, 0.25])
    quality = marti(turns, STATE, alpha=1.0, baseline="none")
    assert quality.advantages == pytest.approx([1.25, 1.25, 1.0])
    assert quality.state == {"game/first": [5.0, 2.0], "game/second": [3.0, 2.5]}
    assert quality.metrics == {"record/game/first": pytest.approx(0.4), "record/game/second": pytest.approx(2.5 / 3)}
    assert STATE == {"game/first": [4.0, 1.0], "game/second": [2.0, 2.0]}


@given(RETURNS, st.sampled_from(["margin", "quality"]), st.floats(0, 2), st.sampled_from([(0.0, 1.0), (-1.0, 1.0)]))
def test_equals_the_formula_trajectory_by_trajectory(returns, shaping, alpha, ends):
    low, high = ends
    turns = table([[value] for value in returns], roles=[i % 3 for i in range(len(returns))])
    credit = marti(turns, STATE, shaping=shaping, alpha=alpha, low=low, high=high, baseline="none")
    for index, value in enumerate(returns):
        name = f"game/{turns.role_names[index % 3]}"
        r, change = (value - low) / (high - low), 0.0
        if name in STATE:
            q = (STATE[name][1] / STATE[name][0] - low) / (high - low)
            change = r - q if shaping == "margin" else q * r - (1 - q) * (1 - r)
        assert credit.advantages[index] == pytest.approx(value + alpha * (high - low) * change, abs=1e-9)


@given(RETURNS)
def test_without_a_past_or_without_shaping_it_is_rloo(returns):
    turns = table([[value] for value in returns], groups=[0] * len(returns))
    expected = rloo(turns).advantages
    assert marti(turns, {}, baseline="group").advantages == pytest.approx(expected, abs=1e-9)
    assert marti(turns, STATE, shaping="none", baseline="group").advantages == pytest.approx(expected, abs=1e-9)


@given(RETURNS, st.sampled_from(["margin", "quality"]))
def test_within_a_role_shaping_only_scales(returns, shaping):
    turns = table([[value] for value in returns], groups=[0] * len(returns))
    credit = marti(turns, STATE, shaping=shaping, alpha=0.5, baseline="group")
    assert credit.advantages == pytest.approx(1.5 * rloo(turns).advantages, abs=1e-8)


def test_the_team_tells_roles_apart_by_their_records():
    turns = table([[1.0], [1.0]], roles=[0, 1], groups=[0, 0])
    assert marti(turns, STATE, alpha=1.0).advantages == pytest.approx([-0.75, 0.75])
    assert marti(turns, STATE, alpha=1.0, shaping="margin").advantages == pytest.approx([0.75, -0.75])
    assert marti(turns, STATE, alpha=1.0, baseline="group").advantages.tolist() == [0.0, 0.0]


@given(RETURNS, st.data())
def test_records_sum_up_over_batches_and_through_json(returns, data):
    cut = data.draw(st.integers(0, len(returns)))
    whole = marti(table([[value] for value in returns]), {}).state
    first = marti(table([[value] for value in returns[:cut]]), {}).state
    second = marti(table([[value] for value in returns[cut:]]), json.loads(json.dumps(first))).state
    assert second["game/first"] == pytest.approx(whole["game/first"])


def test_all_equal_one_member_offsets_and_no_turns():
    assert marti(table([[1e6], [1e6]], groups=[0, 0]), STATE).advantages.tolist() == [0.0, 0.0]
    assert marti(table([[3.0]]), STATE).advantages.tolist() == [0.0]
    empty = marti(table([]), STATE)
    assert empty.advantages.shape == (0,)
    assert empty.state == STATE


def test_a_win_below_a_loss_is_refused():
    with pytest.raises(ConfigError, match="high"):
        marti(table([[1.0]]), {}, low=1.0, high=1.0)
