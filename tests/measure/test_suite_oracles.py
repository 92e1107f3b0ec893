"""Rows with an oracle: tallies worked out by hand, sums in any order, agents whose regret is known exactly."""

import json
import math

import pytest

from sparring.core.rng import Stream
from sparring.measure.matches import play_matches
from sparring.measure.regret import Judge, added_turns
from sparring.measure.suite import PIECE, SuiteRow, added, figures, pieces_of, play_piece
from sparring.methods.oracles.minimax import minimax as minimax_oracle
from sparring.methods.oracles.posterior import posterior
from sparring.play.players.base import TextAgent
from sparring.play.players.minimax import minimax
from sparring.play.players.random import random

PUZZLE = {"role": "trained", "kind": "solo", "oracle": {"name": "constraint", "options": {"lost": "solution"}}, "normalise": (0, 1)}


def nim(sizes, games=5, **changes):
    options = {"pile_sizes": sizes, "is_misere": False}
    row = {"name": "n", "game": "nim", "options": options, "role": "trained", "kind": "match", "opponent": {"name": "random"}}
    return SuiteRow(**{**row, "oracle": {"name": "minimax"}, "games_per_seat": games, **changes})


def tallies(row, agent, opponent=None, oracle=None):
    game, judge = row.make_game(), oracle or row.oracle.spec.make()
    return {piece: play_piece(piece, row, game, agent, opponent, 0, judge) for piece in pieces_of(0, row, game)}


def measured(row, agent, opponent=None, seat=None, oracle=None):
    parts = [counts for piece, counts in tallies(row, agent, opponent, oracle).items() if seat in (None, piece.seat)]
    return figures(added(parts), row, row.make_game())


class Scripted(TextAgent):
    def __init__(self, *words):
        super().__init__("scripted")
        self.words = words

    def choose(self, state, seat, stream):
        return self.words[state.plies // state.game.num_seats % len(self.words)]


class Obedient(TextAgent):
    def __init__(self, oracle):
        super().__init__("obedient")
        self.oracle = oracle

    def choose(self, state, seat, stream):
        return min(self.oracle.judge([state])[0].best)


class Mute:
    name = "mute"

    def covers(self, game):
        return ""

    def judge(self, states, streams=None):
        return [None] * len(states)


def test_a_tally_worked_out_by_hand():
    # piles 1 and 2: only b1 wins, so a1 loses 2; the answer b1 leaves one stone, and taking it is all there is, so the game is won
    first, second = tallies(nim("1;2"), Scripted("a1", "b1"), Scripted("b1", "b1")).values()
    assert first["judged"] == {"turns": 10, "asked": 10, "games": [[2.0, 1, 2, 5]], "bound": 0.0}
    assert second["judged"] == {"turns": 5, "asked": 5, "games": [[0.0, 1, 1, 5]], "bound": 0.0}
    assert (first["wins"], first["returns"]) == (5, {"1.0": 5})
    found = figures(added([first, second]), nim("1;2"), nim("1;2").make_game())
    assert found["oracle"] == {"name": "minimax", "turns": 15, "asked": 15, "judged": 15, "judged_share": 1.0, "bound": 0.0}
    assert found["regret"]["mean"] == pytest.approx(10 / 15) and found["optimal"]["mean"] == pytest.approx(10 / 15)
    # ratio of sums, games as clusters: residuals 2 - 2 * 2/3 and 0 - 2/3, five times each, and t of 9 degrees of freedom
    error = math.sqrt(10 / 9 * 5 * ((2 / 3) ** 2 + (2 / 3) ** 2)) / 15
    assert found["regret"]["high"] == pytest.approx(10 / 15 + 2.2621572 * error)
    assert found["success"]["mean"] == found["wins"] / 10


def test_pieces_add_up_to_the_match_that_regret_measures():
    row = nim("2;3", PIECE + 7)
    found = tallies(row, random(), random())
    stream = Stream.from_seed(0).child("suite").child("n")
    judge = Judge(oracle=minimax_oracle(), budget=None)
    report = play_matches(row.make_game(), random(), random(), games_per_seat=row.games_per_seat, stream=stream, judge=judge)
    for seat, record in enumerate(report.seats):
        got = figures(added(counts for piece, counts in found.items() if piece.seat == seat), row, row.make_game())
        assert got["oracle"] == record.regret.facts
        for key, interval in record.regret.intervals.items():
            assert got[key] == pytest.approx({"mean": interval.mean, "low": interval.low, "high": interval.high})


def test_the_order_of_the_pieces_changes_nothing_not_even_the_last_bit():
    row = SuiteRow(name="u", game="urn", games_per_seat=3 * PIECE, **{**PUZZLE, "oracle": {"name": "posterior"}})
    parts = list(tallies(row, random()).values())
    sums = [added(order) for order in (parts, parts[::-1], [added(parts[:2]), parts[2]])]
    there_and_back = added(json.loads(json.dumps(parts)))
    assert len(parts) == 3 and sums[0]["judged"] == sums[1]["judged"] == sums[2]["judged"] == there_and_back["judged"]
    game = row.make_game()
    assert figures(sums[0], row, game)["regret"] == figures(sums[1], row, game)["regret"]
    assert sums[0]["judged"]["turns"] == sum(part["replies"] for part in parts)
    judged = [part["judged"] for part in parts]
    assert added_turns(judged) == added_turns(judged[::-1])


def test_perfect_play_loses_nothing():
    for row in (nim("1;3;2"), nim("1;3", game="tic_tac_toe", options={})):
        found = measured(row, minimax(), random())
        assert (found["optimal"]["mean"], found["regret"]) == (1.0, {"mean": 0.0, "low": 0.0, "high": 0.0})
        assert found["oracle"]["judged_share"] == 1.0


def test_who_follows_the_oracle_is_optimal_and_solves_the_puzzle():
    row = SuiteRow(name="s", game="sudoku", options={"blanks": 4, "wrong": "continues"}, games_per_seat=9, **PUZZLE)
    found = measured(row, Obedient(row.oracle.spec.make()))
    assert (found["optimal"]["mean"], found["regret"]["mean"], found["success"]["mean"]) == (1.0, 0.0, 1.0)
    assert found["score"]["mean"] == 100.0 and "wins" not in found
    hidden = SuiteRow(name="m", game="minesweeper", games_per_seat=9, **{**PUZZLE, "oracle": {"name": "posterior"}})
    found = measured(hidden, Obedient(posterior()))
    assert (found["optimal"]["mean"], found["regret"]["mean"]) == (1.0, 0.0) and found["success"]["mean"] > 0


def test_random_play_of_one_pile_of_two_loses_2_whenever_it_loses_the_game():
    # one pile of 2: to take both wins, to take one leaves the last to the other: a turn loses 0 or 2, each with probability 1/2
    row = nim("2", 400)
    found = measured(row, random(), random(), seat=0)
    assert found["oracle"]["judged"] == found["games"] == 400
    assert found["regret"]["mean"] == 2 * found["losses"] / 400
    assert found["optimal"]["mean"] == found["success"]["mean"] == found["wins"] / 400
    assert found["regret"]["low"] < 1.0 < found["regret"]["high"] and found["regret"]["high"] - found["regret"]["low"] < 0.2


def test_illegal_replies_are_turns_that_are_never_optimal():
    row = SuiteRow(name="s", game="sudoku", options={"blanks": 2}, games_per_seat=4, **PUZZLE)
    found = measured(row, Scripted("nothing"))
    assert found["illegal"]["mean"] == 1.0 and found["optimal"]["mean"] == 0.0 and found["success"]["mean"] == 0.0
    assert found["regret"]["mean"] == 1.0  # what the worst digit loses


def test_nothing_judged_is_no_figure_and_not_0():
    found = measured(nim("1;2"), random(), random(), oracle=Mute())
    assert "regret" not in found and "optimal" not in found
    assert (found["oracle"]["judged"], found["oracle"]["judged_share"]) == (0, 0.0) and found["oracle"]["turns"] > 0


def test_success_is_the_most_that_is_paid_and_told_alone_even_without_an_oracle():
    row = SuiteRow(name="s", game="sudoku", games_per_seat=4, **{**PUZZLE, "oracle": None})
    counts = {"returns": {"0.0": 1, "0.5": 2, "1.0": 1}, "wins": 4, "draws": 0, "losses": 0, "illegal": 0, "replies": 9}
    found = figures(counts, row, row.make_game())
    assert found["success"]["mean"] == 0.25 and "oracle" not in found and "wins" not in found
    match = nim("1;2", oracle=None)
    assert "success" not in figures(counts, match, match.make_game())


def test_sums_of_nothing():
    assert added_turns([]).regret("minimax").intervals == {}
