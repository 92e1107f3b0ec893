import runpy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import BY_HAND, table

from sparring.core.errors import CreditError
from sparring.methods.credit.adv_evo import adv_evo
from sparring.methods.credit.grpo import grpo

BIAS = runpy.run_path(str(Path(__file__).with_name("test_bias.py")))
TEAMS = {"first": "attackers", "second": "defenders", "third": "defenders"}
RETURNS = st.lists(st.tuples(st.floats(-10, 10), st.integers(0, 2), st.integers(0, 1), st.integers(0, 1)), max_size=10)


def test_by_hand():
    """Attackers earned 4 and 0; defenders 1, 2 and 6."""
    turns = table([[1.0, 3.0], [1.0], [2.0], [0.0], [6.0]], roles=[0, 1, 2, 0, 1])
    credit = adv_evo(turns, teams=TEAMS)
    assert credit.advantages == pytest.approx([2, 2, -2, -1, -2, 3])
    assert adv_evo(turns).advantages == pytest.approx([2, 2, -2.5, 0, -2, 2.5])


@given(RETURNS, st.booleans(), st.booleans())
def test_equals_plain_loops(rows, with_teams, by_group):
    roles, games, groups = [row[1] for row in rows], [row[3] for row in rows], [2 * row[2] + row[3] for row in rows]
    turns = table([[row[0]] for row in rows], roles=roles, groups=groups, games=games)

    def key(row):
        role = turns.role_names[row[1]]
        return (TEAMS[role] if with_teams else role, row[3], row[2] if by_group else 0)

    expected = [row[0] - np.mean([other[0] for other in rows if key(other) == key(row)]) for row in rows]
    credit = adv_evo(turns, teams=TEAMS if with_teams else None, over="group" if by_group else "batch")
    assert credit.advantages == pytest.approx(expected, abs=1e-9)


@given(RETURNS)
def test_without_teams_over_groups_it_is_grpo_without_deviations(rows):
    groups = [2 * row[2] + row[3] for row in rows]
    turns = table([[row[0]] for row in rows], roles=[row[1] for row in rows], groups=groups, games=[row[3] for row in rows])
    assert adv_evo(turns, over="group").advantages == pytest.approx(grpo(turns, divide_by_std=False).advantages, abs=1e-9)


@pytest.mark.parametrize("members", [2, 3])
def test_its_bias_is_the_factor_of_the_own_return_in_the_mean(members):
    assert BIAS["expected_gradient"](adv_evo, members) == pytest.approx(BIAS["EXACT"] * (members - 1) / members)


def test_whitening():
    turns = table(**BY_HAND)
    plain, white = adv_evo(turns).advantages, adv_evo(turns, whiten=True).advantages
    assert white == pytest.approx((plain - plain.mean()) / plain.std(ddof=1))


def test_all_equal_one_member_offsets_and_no_turns():
    assert adv_evo(table([[1e6], [1e6]]), whiten=True).advantages.tolist() == [0.0, 0.0]
    assert adv_evo(table([[7.0]]), whiten=True).advantages.tolist() == [0.0]
    assert adv_evo(table([[1e6 + 1], [1e6]])).advantages == pytest.approx([0.5, -0.5])
    assert adv_evo(table([]), teams={}).advantages.shape == (0,)


def test_a_role_without_a_team_is_named():
    with pytest.raises(CreditError, match="'second' has no team"):
        adv_evo(table([[1.0], [1.0]], roles=[0, 1]), teams={"first": "attackers"})
