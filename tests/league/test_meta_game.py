import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind, names
from sparring.core.errors import ConfigError
from sparring.environments.catalogue import make_game
from sparring.league.meta_game import check_sides, member_payoffs, pair_shares, unmet_note
from sparring.league.payoffs import Payoffs, Results, Row
from tests.run_with_members import CYCLE, MEMBERS, book_of


def note(solver, book, members=MEMBERS):
    return unmet_note(bind("league.meta_solvers", solver), member_payoffs(book, members, {"kuhn_poker": 1.0}))


def test_pairs_that_have_never_met_are_counted():
    assert note("nash", book_of([(MEMBERS[0], MEMBERS[1])])).startswith(
        "2 of 3 pairs of members have never met, and nash takes"
    )
    assert note("pfsp", Payoffs()).startswith("3 of 3 pairs")
    assert note("nash", CYCLE) == "" and note("nash", Payoffs(), MEMBERS[:1]) == ""


def test_exact_results_count_as_plays_without_end():
    pair = {row: replace(results, exact=True) for row, results in book_of([(MEMBERS[0], MEMBERS[1])]).rows.items()}
    two = member_payoffs(Payoffs(pair), MEMBERS[:2], {"kuhn_poker": 1.0})
    assert two.counts is None and two.payoffs[0][0, 1] == 1.0
    mixed = member_payoffs(CYCLE.with_exact(pair), MEMBERS, {"kuhn_poker": 1.0})
    assert mixed.counts.tolist() == [[0, math.inf, 20], [math.inf, 0, 20], [20, 20, 0]]
    assert note("nash", Payoffs(pair)).startswith("2 of 3 pairs of members have never met")
    apart = member_payoffs(Payoffs(pair), MEMBERS[:1], {"kuhn_poker": 1.0}, MEMBERS[1:2])
    assert apart.counts is None and apart.payoffs[0].tolist() == [[-1.0]]


@pytest.mark.parametrize("solver", ["uniform", "last", "delta_uniform"])
def test_who_looks_at_no_payoffs_misses_none(solver):
    assert note(solver, Payoffs()) == ""


def test_solvers_of_two_sides_are_refused_where_there_are_more_teams():
    two, three = make_game("kuhn_poker"), make_game("kuhn_poker", options={"players": 3})
    together = make_game("team_matrix", options={"members": 3})
    for solver in names("league.meta_solvers"):
        bound = bind("league.meta_solvers", solver)
        check_sides(bound, [two, together], "league.answer")
        if solver in ("nash", "max_entropy_nash", "rectified", "pfsp"):
            with pytest.raises(
                ConfigError,
                match=f"league.answer: the meta-solver '{solver}' is for two teams, and 'kuhn_poker' has 3; write",
            ):
                check_sides(bound, [two, three], "league.answer")
        else:
            check_sides(bound, [three], "league.answer")


LAST, NASH = bind("league.meta_solvers", "last"), bind("league.meta_solvers", "nash")


def book_of_focus(spreads, games=10):
    rows = {}
    for pair, spread in zip(itertools.combinations(MEMBERS, 2), spreads, strict=True):
        squares = None if spread is None else spread**2 * (games - 1)
        rows[Row("kuhn_poker", 0, *pair)] = Results(games=games, draws=games, squares=squares)
    return Payoffs(rows)


def shares(book, solver=LAST, focus=1.0, members=MEMBERS):
    return pair_shares(book, members, "kuhn_poker", solver=solver, focus=focus)


def test_the_shares_by_hand():
    """The last member has all weight, so that the pairs 0-2 and 1-2 matter, by their deviations 1 and 3."""
    assert shares(book_of_focus([2.0, 1.0, 3.0])) == pytest.approx([0, 0.25, 0.75])
    assert shares(book_of_focus([2.0, 1.0, 3.0]), focus=0.5) == pytest.approx([1 / 6, 1 / 6 + 0.125, 1 / 6 + 0.375])
    assert shares(book_of_focus([4.0, 1.0, None])) == pytest.approx([0, 0.2, 0.8])  # the largest that is known


def test_where_all_members_weigh_the_same_the_spread_decides_and_nothing_known_is_equal():
    third = pytest.approx([1 / 3] * 3)
    assert shares(CYCLE, NASH) == third  # rock, paper, scissors: returns are all alike
    assert shares(book_of_focus([1.0, 2.0, 5.0]), bind("league.meta_solvers", "uniform")) == pytest.approx(
        [1 / 8, 2 / 8, 5 / 8]
    )
    assert shares(Payoffs(), NASH, focus=0.0) == shares(book_of_focus([0.0] * 3)) == third
    assert shares(Payoffs(), members=MEMBERS[:2]) == [1.0]


@settings(max_examples=20)
@given(spreads=st.lists(st.floats(0, 100) | st.none(), min_size=3, max_size=3), focus=st.floats(0, 1))
def test_shares_are_a_distribution_with_a_part_for_every_pair(spreads, focus):
    parts = shares(book_of_focus(spreads), NASH, focus)
    assert sum(parts) == pytest.approx(1.0) and min(parts) >= (1 - focus) / 3 - 1e-12
