"""Pieces of a row add up to the match they are cut from, and scores and totals are what their formulas say."""

import math

import pytest

from sparring.core.records import Interval
from sparring.core.rng import Stream
from sparring.measure.matches import illegal_share, play_matches
from sparring.measure.suite import (
    PIECE,
    SuiteRow,
    added,
    figures,
    mean_of_means,
    pieces_of,
    play_piece,
    score,
    total,
)
from sparring.ops.statistics import wilson_interval
from sparring.play.players.cfr import cfr
from sparring.play.players.random import random

MATCH = SuiteRow(name="k", game="kuhn_poker", role="trained", kind="match", opponent={"name": "cfr"}, games_per_seat=PIECE + 7, normalise=(-2, 2))
KUHN = MATCH.make_game()
COPLAY = SuiteRow(name="h", game="hanabi", role="trained", kind="coplay", games_per_seat=6, normalise=(0, 4))


class Silent:
    name, renderer = "silent", None

    def act(self, turns):
        return [type(random().act([turn])[0])(text="?") for turn in turns]


def tallies(row, agent, opponent, seed=0):
    game = row.make_game()
    return {piece: play_piece(piece, row, game, agent, opponent, seed) for piece in pieces_of(0, row, game)}


def close(found, interval):
    return found == pytest.approx({"mean": interval.mean, "low": interval.low, "high": interval.high})


def test_pieces_cover_every_game_once():
    pieces = pieces_of(3, MATCH, MATCH.make_game())
    assert [(piece.row, piece.seat, piece.begin, piece.games) for piece in pieces] == [
        (3, s, b, n) for s in (0, 1) for b, n in ((0, PIECE), (PIECE, 7))
    ]
    assert len({piece.key for piece in pieces}) == 4
    assert [(p.seat, p.games) for p in pieces_of(0, COPLAY, COPLAY.make_game())] == [(0, 6)]


def test_pieces_add_up_to_the_match():
    found = tallies(MATCH, random(), cfr(iterations=10))
    stream = Stream.from_seed(0).child("suite").child("k")
    report = play_matches(MATCH.make_game(), random(), cfr(iterations=10), games_per_seat=MATCH.games_per_seat, stream=stream)
    for seat, record in [(None, report.overall), *enumerate(report.seats)]:
        got = figures(added(counts for piece, counts in found.items() if seat in (None, piece.seat)), MATCH, KUHN)
        assert (got["games"], got["wins"], got["draws"], got["losses"]) == (record.games, record.wins, record.draws, record.losses)
        assert close(got["return"], record.mean_return) and close(got["win"], record.win) and close(got["illegal"], record.illegal)
        assert close(got["win_or_draw"], record.win_or_draw)


def test_another_seed_and_another_name_deal_other_games():
    first = list(tallies(MATCH, random(), random()).values())
    assert list(tallies(MATCH, random(), random()).values()) == first
    assert list(tallies(MATCH, random(), random(), seed=1).values()) != first
    assert list(tallies(MATCH.model_copy(update={"name": "l"}), random(), random()).values()) != first


def test_more_games_begin_with_the_same_ones():
    game, longer = MATCH.make_game(), MATCH.model_copy(update={"games_per_seat": 3 * PIECE})
    piece = pieces_of(0, longer, game)[0]
    assert play_piece(piece, longer, game, random(), random(), 0) == play_piece(piece, MATCH, game, random(), random(), 0)


def test_in_coplay_the_agent_sits_everywhere_and_nobody_wins():
    (counts,) = tallies(COPLAY, random(), None).values()
    got = figures(counts, COPLAY, COPLAY.make_game())
    assert "wins" not in got and got["games"] == 6
    assert counts["replies"] > 6 * 2  # both seats' replies
    assert got["score"]["mean"] == pytest.approx(25 * got["return"]["mean"])


def test_illegal_replies_lose_and_are_counted():
    got = figures(added(tallies(MATCH, Silent(), random()).values()), MATCH, KUHN)
    assert got["illegal"]["mean"] == 1.0 and got["score"]["mean"] == 0.0
    assert got["losses"] == got["games"]


def test_illegal_replies_are_clustered_by_game_whatever_the_pieces():
    counts = {"returns": {"1.0": 4}, "wins": 4, "draws": 0, "losses": 0, "illegal": 5, "replies": 20}
    parts = [{**counts, "replied": [[0, 5, 2], [5, 5, 1]]}, {**counts, "replied": [[0, 5, 1]]}]
    whole = added(parts)
    assert whole["replied"] == [[0, 5, 3], [5, 5, 1]] and added(parts[::-1]) == whole
    found = figures(whole, MATCH, KUHN)["illegal"]
    expected = illegal_share([(5, 5), (0, 5), (0, 5), (0, 5)])
    assert (found["low"], found["mean"], found["high"]) == (expected.low, 0.25, expected.high)


def test_a_file_of_before_that_does_not_know_the_games_keeps_the_interval_of_independent_replies():
    counts = {"returns": {"1.0": 4}, "wins": 4, "draws": 0, "losses": 0, "illegal": 5, "replies": 20}
    whole = added([counts, {**counts, "replied": [[5, 20, 1]]}])
    assert "replied" not in whole
    found, expected = figures(whole, MATCH, KUHN)["illegal"], wilson_interval(10, 40)
    assert (found["low"], found["mean"], found["high"]) == (expected.low, expected.mean, expected.high)


def test_a_score_is_a_straight_line_through_0_and_100():
    interval = score(Interval(mean=0.0, low=-1.0, high=0.5, count=4), (-1.0, 1.0))
    assert (interval.mean, interval.low, interval.high) == (50.0, 0.0, 75.0)


def test_scores_are_shown_between_0_and_100():
    counts = {"returns": {"-1.0": 1, "3.0": 1}, "wins": 1, "draws": 0, "losses": 1, "illegal": 0, "replies": 2}
    got = figures(counts, MATCH, KUHN)["score"]
    assert (got["low"], got["mean"], got["high"]) == (0.0, 75.0, 100.0)


def test_half_widths_add_in_quadrature():
    parts = [(0.5, Interval(mean=10.0, low=7.0, high=13.0, count=5)), (0.5, Interval(mean=20.0, low=16.0, high=24.0, count=6))]
    got = mean_of_means(parts)
    assert (got.mean, got.count) == (15.0, 11)
    assert got.high - got.mean == pytest.approx(math.hypot(1.5, 2.0)) == pytest.approx(got.mean - got.low)


def counts(mean):
    return {"returns": {str(float(mean)): 10}, "wins": 0, "draws": 0, "losses": 10, "illegal": 0, "replies": 10}


def test_a_total_is_the_mean_over_games_of_the_mean_over_rows():
    other = MATCH.model_copy(update={"name": "k2", "options": {"style": "full"}})  # the same game in other words
    large = MATCH.model_copy(update={"name": "k3", "options": {"players": 3}})
    left_out = MATCH.model_copy(update={"name": "x", "in_totals": False})
    got = total(
        [ (MATCH, counts(-2)), (other, counts(2)), (large, counts(2)), (left_out, counts(-2)), (COPLAY.model_copy(update={"normalise": None}), counts(0)), ],
    )
    assert got == {"mean": 75.0, "low": 75.0, "high": 75.0, "games": 2}
    assert total([(left_out, counts(0))]) is None
