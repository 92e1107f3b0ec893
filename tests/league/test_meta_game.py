import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind, names
from sparring.core.errors import ConfigError
from sparring.environments.catalogue import make_game
from sparring.league.meta_game import check_sides, member_payoffs, pair_shares, unplayed_pairs_note
from sparring.league.payoffs import Payoffs, Results, RowKey
from tests.run_with_members import CYCLE, MEMBERS, book_of


def note_of(solver, book, members=MEMBERS):
    return unplayed_pairs_note(bind("league.meta_solvers", solver), member_payoffs(book, members, {"kuhn_poker": 1.0}))


def test_pairs_without_games_are_counted():
    assert note_of("nash", book_of([(MEMBERS[0], MEMBERS[1])])).startswith(
        "2 of 3 pairs of members have never met, and nash takes"
    )
    assert note_of("pfsp", Payoffs()).startswith("3 of 3 pairs")
    assert note_of("nash", CYCLE) == "" and note_of("nash", Payoffs(), MEMBERS[:1]) == ""


def test_exact_results_count_as_infinitely_many_games():
    exact_rows = {
        row: replace(results, exact=True) for row, results in book_of([(MEMBERS[0], MEMBERS[1])]).rows.items()
    }
    game_of_two = member_payoffs(Payoffs(exact_rows), MEMBERS[:2], {"kuhn_poker": 1.0})
    assert game_of_two.counts is None and game_of_two.payoffs[0][0, 1] == 1.0
    game_of_three = member_payoffs(CYCLE.with_exact(exact_rows), MEMBERS, {"kuhn_poker": 1.0})
    assert game_of_three.counts.tolist() == [[0, math.inf, 20], [math.inf, 0, 20], [20, 20, 0]]
    assert note_of("nash", Payoffs(exact_rows)).startswith("2 of 3 pairs of members have never met")
    rectangular_game = member_payoffs(Payoffs(exact_rows), MEMBERS[:1], {"kuhn_poker": 1.0}, MEMBERS[1:2])
    assert rectangular_game.counts is None and rectangular_game.payoffs[0].tolist() == [[-1.0]]


@pytest.mark.parametrize("solver", ["uniform", "last", "delta_uniform"])
def test_solvers_that_ignore_payoffs_have_no_note(solver):
    assert note_of(solver, Payoffs()) == ""


def test_solvers_for_two_sides_are_refused_for_three_teams():
    game_of_two, three_teams = make_game("kuhn_poker"), make_game("kuhn_poker", options={"players": 3})
    one_team = make_game("team_matrix", options={"members": 3})
    for solver in names("league.meta_solvers"):
        bound = bind("league.meta_solvers", solver)
        check_sides(bound, [game_of_two, one_team], "league.answer")
        if solver in ("nash", "max_entropy_nash", "rectified", "pfsp"):
            with pytest.raises(
                ConfigError,
                match=f"league.answer: the meta-solver '{solver}' is for two teams, and 'kuhn_poker' has 3; write",
            ):
                check_sides(bound, [game_of_two, three_teams], "league.answer")
        else:
            check_sides(bound, [three_teams], "league.answer")


LAST, NASH = bind("league.meta_solvers", "last"), bind("league.meta_solvers", "nash")


def book_of_deviations(spreads, games=10):
    rows = {}
    for exact_rows, spread in zip(itertools.combinations(MEMBERS, 2), spreads, strict=True):
        squares = None if spread is None else spread**2 * (games - 1)
        rows[RowKey("kuhn_poker", 0, *exact_rows)] = Results(games=games, draws=games, squares=squares)
    return Payoffs(rows)


def shares(book, solver=LAST, focus=1.0, members=MEMBERS):
    return pair_shares(book, members, "kuhn_poker", solver=solver, focus=focus)


def test_the_shares_of_pairs_by_hand():
    """The last member has all weight, so only the pairs 0-2 and 1-2 count, by their deviations 1 and 3."""
    assert shares(book_of_deviations([2.0, 1.0, 3.0])) == pytest.approx([0, 0.25, 0.75])
    assert shares(book_of_deviations([2.0, 1.0, 3.0]), focus=0.5) == pytest.approx(
        [1 / 6, 1 / 6 + 0.125, 1 / 6 + 0.375]
    )
    # an unknown deviation counts as the largest known one, 4
    assert shares(book_of_deviations([4.0, 1.0, None])) == pytest.approx([0, 0.2, 0.8])


def test_for_equal_weights_deviations_decide_and_unknown_ones_are_equal():
    equal_shares = pytest.approx([1 / 3] * 3)
    assert shares(CYCLE, NASH) == equal_shares  # rock, paper, scissors: all deviations are equal
    assert shares(book_of_deviations([1.0, 2.0, 5.0]), bind("league.meta_solvers", "uniform")) == pytest.approx(
        [1 / 8, 2 / 8, 5 / 8]
    )
    assert shares(Payoffs(), NASH, focus=0.0) == shares(book_of_deviations([0.0] * 3)) == equal_shares
    assert shares(Payoffs(), members=MEMBERS[:2]) == [1.0]


@settings(max_examples=20)
@given(spreads=st.lists(st.floats(0, 100) | st.none(), min_size=3, max_size=3), focus=st.floats(0, 1))
def test_shares_are_a_distribution_with_a_minimum_for_every_pair(spreads, focus):
    pair_weights = shares(book_of_deviations(spreads), NASH, focus)
    assert sum(pair_weights) == pytest.approx(1.0) and min(pair_weights) >= (1 - focus) / 3 - 1e-12
