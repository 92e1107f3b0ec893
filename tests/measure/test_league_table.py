"""The league table: order, cross table, pairs, intervals."""

import itertools

import pytest

from sparring.core.errors import ConfigError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.measure.league_table import ELO, build_table, league_table
from sparring.measure.matches import MatchReport, Record
from sparring.ops.statistics import mean_interval, wilson_interval
from sparring.play.players.base import TextAgent


class Uniform(TextAgent):
    def choose(self, state, seat, stream):
        legal = state.legal_actions()
        return legal[stream.integer(0, len(legal))]


class Always(TextAgent):
    def __init__(self, word):
        super().__init__(word)
        self.word = word

    def choose(self, state, seat, stream):
        return self.word


def record(wins, draws, losses):
    games = wins + draws + losses
    return Record(
        wins=wins, draws=draws, losses=losses, mean_return=mean_interval([1.0] * wins + [0.0] * draws + [-1.0] * losses), win=wilson_interval(wins, games),
        win_or_draw=wilson_interval(wins + draws, games), illegal=wilson_interval(0, games),
    )


def report(agent, opponent, wins, draws, losses):
    overall = record(wins, draws, losses)
    return MatchReport(game="g", agent=agent, opponent=opponent, roles=("X", "O"), seats=(), overall=overall, opponent_return=-overall.mean_return.mean)


def test_rows_are_sorted_by_rating_and_the_cross_table_follows_them():
    results = {("a", "b"): (10, 0, 90), ("a", "c"): (1, 9, 90), ("b", "c"): (20, 0, 80)}
    table = build_table("g", {pair: report(*pair, *counts) for pair, counts in results.items()})
    assert [row.player for row in table.rows] == ["c", "b", "a"]
    c, b, a = table.rows
    assert (c.wins, c.draws, c.losses, c.rating.count) == (170, 9, 21, 200)
    assert (a.wins, a.draws, a.losses) == (11, 9, 180)
    assert c.rating.mean > b.rating.mean > a.rating.mean
    assert sum(row.rating.mean for row in table.rows) == pytest.approx(0.0, abs=1e-9)
    assert all(row.rating.low < row.rating.mean < row.rating.high for row in table.rows)
    assert table.payoffs[0] == pytest.approx((0.0, 0.6, 0.89))
    assert table.payoffs[1] == pytest.approx((-0.6, 0.0, 0.8))
    assert c.mean_return == pytest.approx((0.6 + 0.89) / 2)
    assert not any(row.one_sided for row in table.rows)


def test_intervals_narrow_with_games_and_widen_with_the_level():
    def width(games, level=0.95):
        row = build_table("g", {("a", "b"): report("a", "b", 6 * games, games, 3 * games)}, level=level).rows[0]
        assert row.rating.level == level
        return row.rating.high - row.rating.low

    assert width(100) < width(10) < width(10, level=0.99)
    # half the width of s_a - s_b, since ratings are around their mean: 1.96 * ELO * sqrt(1/wins + 1/losses) / 2 to each side
    assert width(1000) == pytest.approx(1.95996 * ELO * (1 / 6000 + 1 / 3000) ** 0.5, rel=1e-3)


def test_players_that_only_win_are_marked():
    results = {("a", "b"): (0, 0, 50), ("b", "c"): (50, 0, 0), ("a", "c"): (25, 0, 25)}
    table = build_table("g", {pair: report(*pair, *counts) for pair, counts in results.items()})
    assert {row.player: row.one_sided for row in table.rows} == {"b": True, "a": False, "c": False}


def test_two_seats_play_each_pair_once_in_an_order_that_does_not_depend_on_the_mapping():
    game = make_game("tic_tac_toe")
    done = []
    players = {"u": Uniform("u"), "mute": Always("zzz"), "v": Uniform("v")}
    table = league_table(game, players, games_per_seat=20, stream=Stream.from_seed(0), on_match=lambda *counts: done.append(counts))
    assert [match.overall.games for match in table.matches] == [40] * 3
    assert done == [(1, 3), (2, 3), (3, 3)]
    assert table.rows[-1].player == "mute"
    assert (table.rows[-1].losses, table.rows[-1].one_sided, table.rows[-1].mean_return) == (80, True, -1.0)
    again = league_table(game, dict(reversed(players.items())), games_per_seat=20, stream=Stream.from_seed(0))
    assert again.rows == table.rows


def test_a_pairs_games_do_not_depend_on_who_else_plays():
    game = make_game("tic_tac_toe")
    players = {"u": Uniform("u"), "v": Uniform("v"), "mute": Always("zzz")}
    small = league_table(game, {"u": players["u"], "v": players["v"]}, games_per_seat=10, stream=Stream.from_seed(0))
    large = league_table(game, players, games_per_seat=10, stream=Stream.from_seed(0))
    assert small.matches[0] in large.matches


def test_three_seats_play_each_pair_both_ways_and_favour_nobody():
    game = make_game("kuhn_poker", options={"players": 3})
    table = league_table(game, {"u": Uniform("u"), "v": Uniform("v")}, games_per_seat=400, stream=Stream.from_seed(0))
    assert len(table.matches) == 2
    assert [match.overall.games for match in table.matches] == [1200, 1200]
    assert all(row.rating.low < 0.0 < row.rating.high for row in table.rows)


def test_with_more_seats_a_return_is_that_of_the_match_in_which_the_player_sat_alone():
    table = build_table("g", {("a", "b"): report("a", "b", 30, 0, 10), ("b", "a"): report("b", "a", 10, 0, 30)})
    assert table.payoffs == ((0.0, 0.5), (-0.5, 0.0))
    uneven = build_table("g", {("a", "b"): report("a", "b", 30, 0, 10), ("b", "a"): report("b", "a", 20, 0, 20)})
    assert uneven.payoffs == ((0.0, 0.5), (0.0, 0.0))


def test_the_agents_own_names_are_not_needed_and_may_be_equal():
    players = {"one": Uniform("same"), "two": Always("pass")}
    table = league_table(make_game("kuhn_poker"), players, games_per_seat=50, stream=Stream.from_seed(0))
    assert {row.player for row in table.rows} == {"one", "two"}
    assert {(match.agent, match.opponent) for match in table.matches} <= set(itertools.permutations(("one", "two")))


def test_one_player_is_no_league():
    with pytest.raises(ConfigError, match=r"at least 2 players, got \['u'\]"):
        league_table(make_game("kuhn_poker"), {"u": Uniform("u")}, games_per_seat=5, stream=Stream.from_seed(0))
