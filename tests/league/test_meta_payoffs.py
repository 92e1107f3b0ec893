"""What is said of a meta-game that has holes, and which solvers do not fit."""

import math
from dataclasses import replace

import pytest

from sparring.config.plugins.registry import bind, names
from sparring.core.errors import ConfigError
from sparring.environments.catalogue import make_game
from sparring.league.meta_game import check_sides, member_payoffs, unmet_note
from sparring.league.payoffs import Payoffs
from tests.run_with_members import CYCLE, MEMBERS, book_of


def note(solver, book, members=MEMBERS):
    return unmet_note(bind("league.meta_solvers", solver), member_payoffs(book, members, {"kuhn_poker": 1.0}))


def test_pairs_that_have_never_met_are_counted():
    assert note("nash", book_of([(MEMBERS[0], MEMBERS[1])])).startswith("2 of 3 pairs of members have never met, and nash takes")
    assert note("pfsp", Payoffs()).startswith("3 of 3 pairs")
    assert note("nash", CYCLE) == "" and note("nash", Payoffs(), MEMBERS[:1]) == ""


def test_exact_results_count_as_plays_without_end():
    pair = {row: replace(found, exact=True) for row, found in book_of([(MEMBERS[0], MEMBERS[1])]).rows.items()}
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
            with pytest.raises(ConfigError, match=f"league.answer: the meta-solver '{solver}' is for two teams, and 'kuhn_poker' has 3; write"):
                check_sides(bound, [two, three], "league.answer")
        else:
            check_sides(bound, [three], "league.answer")
