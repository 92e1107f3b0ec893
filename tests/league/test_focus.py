"""Plays go to pairs by their weight in the meta-strategy and by the spread of their returns."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.league.meta_game import pair_shares
from sparring.league.payoffs import Payoffs, Results, Row
from tests.run_with_members import CYCLE, MEMBERS

LAST, NASH = bind("league.meta_solvers", "last"), bind("league.meta_solvers", "nash")


def book_of(spreads, games=10):
    rows = {}
    for pair, spread in zip(itertools.combinations(MEMBERS, 2), spreads, strict=True):
        squares = None if spread is None else spread**2 * (games - 1)
        rows[Row("kuhn_poker", 0, *pair)] = Results(games=games, draws=games, squares=squares)
    return Payoffs(rows)


def shares(book, solver=LAST, focus=1.0, members=MEMBERS):
    return pair_shares(book, members, "kuhn_poker", solver=solver, focus=focus)


def test_the_shares_by_hand():
    """The last member has all weight, so that the pairs 0-2 and 1-2 matter, by their deviations 1 and 3."""
    assert shares(book_of([2.0, 1.0, 3.0])) == pytest.approx([0, 0.25, 0.75])
    assert shares(book_of([2.0, 1.0, 3.0]), focus=0.5) == pytest.approx([1 / 6, 1 / 6 + 0.125, 1 / 6 + 0.375])
    assert shares(book_of([4.0, 1.0, None])) == pytest.approx([0, 0.2, 0.8])  # the largest that is known


def test_where_all_members_weigh_the_same_the_spread_decides_and_nothing_known_is_equal():
    third = pytest.approx([1 / 3] * 3)
    assert shares(CYCLE, NASH) == third  # rock, paper, scissors: returns are all alike
    assert shares(book_of([1.0, 2.0, 5.0]), bind("league.meta_solvers", "uniform")) == pytest.approx([1 / 8, 2 / 8, 5 / 8])
    assert shares(Payoffs(), NASH, focus=0.0) == shares(book_of([0.0] * 3)) == third
    assert shares(Payoffs(), members=MEMBERS[:2]) == [1.0]


@settings(max_examples=20)
@given(spreads=st.lists(st.floats(0, 100) | st.none(), min_size=3, max_size=3), focus=st.floats(0, 1))
def test_shares_are_a_distribution_with_a_part_for_every_pair(spreads, focus):
    found = shares(book_of(spreads), NASH, focus)
    assert sum(found) == pytest.approx(1.0) and min(found) >= (1 - focus) / 3 - 1e-12
