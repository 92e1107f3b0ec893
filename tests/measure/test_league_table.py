import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.core.errors import ConfigError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.measure.league_table import ELO, build_table, fit_davidson, league_table
from sparring.measure.matches import MatchRecord, MatchReport
from sparring.ops.statistics import mean_interval, wilson_interval
from sparring.play.players.base import TextAgent


class UniformPlayer(TextAgent):
    def choose(self, state, seat, stream):
        legal = state.legal_actions()
        return legal[stream.integer(0, len(legal))]


class ConstantPlayer(TextAgent):
    def __init__(self, word):
        super().__init__(word)
        self.word = word

    def choose(self, state, seat, stream):
        return self.word


def record(wins, draws, losses):
    games = wins + draws + losses
    return MatchRecord(
        wins=wins,
        draws=draws,
        losses=losses,
        mean_return=mean_interval([1.0] * wins + [0.0] * draws + [-1.0] * losses),
        win=wilson_interval(wins, games),
        win_or_draw=wilson_interval(wins + draws, games),
        illegal=wilson_interval(0, games),
    )


def report(agent, opponent, wins, draws, losses):
    overall = record(wins, draws, losses)
    return MatchReport(
        game="g",
        agent=agent,
        opponent=opponent,
        roles=("X", "O"),
        seats=(),
        overall=overall,
        opponent_return=-overall.mean_return.mean,
    )


def test_rows_are_sorted_by_rating_and_the_cross_table_follows_them():
    results = {("a", "b"): (10, 0, 90), ("a", "c"): (1, 9, 90), ("b", "c"): (20, 0, 80)}
    table = build_table("g", {pair: report(*pair, *counts) for pair, counts in results.items()})
    assert [row.player for row in table.rows] == ["c", "b", "a"]
    row_c, row_b, row_a = table.rows
    assert (row_c.wins, row_c.draws, row_c.losses, row_c.rating.count) == (170, 9, 21, 200)
    assert (row_a.wins, row_a.draws, row_a.losses) == (11, 9, 180)
    assert row_c.rating.mean > row_b.rating.mean > row_a.rating.mean
    assert sum(row.rating.mean for row in table.rows) == pytest.approx(0.0, abs=1e-9)
    assert all(row.rating.low < row.rating.mean < row.rating.high for row in table.rows)
    assert table.payoffs[0] == pytest.approx((0.0, 0.6, 0.89))
    assert table.payoffs[1] == pytest.approx((-0.6, 0.0, 0.8))
    assert row_c.mean_return == pytest.approx((0.6 + 0.89) / 2)
    assert not any(row.one_sided for row in table.rows)


def test_intervals_narrow_with_games_and_widen_with_the_level():
    def width(games, level=0.95):
        row = build_table("g", {("a", "b"): report("a", "b", 6 * games, games, 3 * games)}, level=level).rows[0]
        assert row.rating.level == level
        return row.rating.high - row.rating.low

    assert width(100) < width(10) < width(10, level=0.99)
    # a rating is half of s_a - s_b, so the half width is 1.96 * ELO * sqrt(1/wins + 1/losses) / 2
    assert width(1000) == pytest.approx(1.95996 * ELO * (1 / 6000 + 1 / 3000) ** 0.5, rel=1e-3)


def test_players_that_only_win_are_marked():
    results = {("a", "b"): (0, 0, 50), ("b", "c"): (50, 0, 0), ("a", "c"): (25, 0, 25)}
    table = build_table("g", {pair: report(*pair, *counts) for pair, counts in results.items()})
    assert {row.player: row.one_sided for row in table.rows} == {"b": True, "a": False, "c": False}


def test_two_seats_play_each_pair_once_in_a_fixed_order():
    game = make_game("tic_tac_toe")
    finished_pairs = []
    players = {"u": UniformPlayer("u"), "mute": ConstantPlayer("zzz"), "v": UniformPlayer("v")}
    table = league_table(
        game,
        players,
        games_per_seat=20,
        stream=Stream.from_seed(0),
        on_match=lambda *counts: finished_pairs.append(counts),
    )
    assert [match.overall.games for match in table.matches] == [40] * 3
    assert finished_pairs == [(1, 3), (2, 3), (3, 3)]
    assert table.rows[-1].player == "mute"
    assert (table.rows[-1].losses, table.rows[-1].one_sided, table.rows[-1].mean_return) == (80, True, -1.0)
    table_of_reversed_players = league_table(
        game, dict(reversed(players.items())), games_per_seat=20, stream=Stream.from_seed(0)
    )
    assert table_of_reversed_players.rows == table.rows


def test_a_pairs_games_do_not_depend_on_other_players():
    game = make_game("tic_tac_toe")
    players = {"u": UniformPlayer("u"), "v": UniformPlayer("v"), "mute": ConstantPlayer("zzz")}
    two_player_table = league_table(
        game, {"u": players["u"], "v": players["v"]}, games_per_seat=10, stream=Stream.from_seed(0)
    )
    three_player_table = league_table(game, players, games_per_seat=10, stream=Stream.from_seed(0))
    assert two_player_table.matches[0] in three_player_table.matches


def test_three_seats_play_each_pair_in_both_arrangements():
    game = make_game("kuhn_poker", options={"players": 3})
    table = league_table(
        game, {"u": UniformPlayer("u"), "v": UniformPlayer("v")}, games_per_seat=400, stream=Stream.from_seed(0)
    )
    assert len(table.matches) == 2
    assert [match.overall.games for match in table.matches] == [1200, 1200]
    assert all(row.rating.low < 0.0 < row.rating.high for row in table.rows)


def test_with_three_seats_payoffs_are_of_matches_with_one_seat_of_the_player():
    table = build_table("g", {("a", "b"): report("a", "b", 30, 0, 10), ("b", "a"): report("b", "a", 10, 0, 30)})
    assert table.payoffs == ((0.0, 0.5), (-0.5, 0.0))
    unequal_table = build_table("g", {("a", "b"): report("a", "b", 30, 0, 10), ("b", "a"): report("b", "a", 20, 0, 20)})
    assert unequal_table.payoffs == ((0.0, 0.5), (0.0, 0.0))


def test_agents_may_have_equal_names():
    players = {"one": UniformPlayer("same"), "two": ConstantPlayer("pass")}
    table = league_table(make_game("kuhn_poker"), players, games_per_seat=50, stream=Stream.from_seed(0))
    assert {row.player for row in table.rows} == {"one", "two"}
    assert {(match.agent, match.opponent) for match in table.matches} <= set(itertools.permutations(("one", "two")))


def test_a_league_table_of_one_player_is_refused():
    with pytest.raises(ConfigError, match=r"at least 2 players, got \['u'\]"):
        league_table(make_game("kuhn_poker"), {"u": UniformPlayer("u")}, games_per_seat=5, stream=Stream.from_seed(0))


WIDE_PRIOR_SD = 1e4  # with so wide a prior the fit is the maximum likelihood


def tables(size):
    cells = st.lists(st.integers(0, 30), min_size=size * size, max_size=size * size).map(
        lambda c: np.array(c).reshape(size, size)
    )
    return st.tuples(cells, cells.map(lambda d: d + d.T)).map(
        lambda t: tuple(x * (1 - np.eye(size, dtype=int)) for x in t)
    )


def counts_of_two_players(wins, draws, losses):
    return np.array([[0, wins], [losses, 0]]), np.array([[0, draws], [draws, 0]])


@pytest.mark.parametrize(("wins", "draws", "losses"), [(30, 10, 10), (5, 50, 5), (1, 1, 98)])
def test_two_players_have_a_closed_form(wins, draws, losses):
    """Here s_1 - s_2 = ln(wins / losses), d = ln(draws / sqrt(wins losses)), and the variance is 1/wins + 1/losses."""
    fit = fit_davidson(*counts_of_two_players(wins, draws, losses), prior_sd=WIDE_PRIOR_SD)
    assert fit.strengths[0] - fit.strengths[1] == pytest.approx(np.log(wins / losses), abs=1e-6)
    assert fit.draw == pytest.approx(np.log(draws / np.sqrt(wins * losses)), abs=1e-6)
    covariance = fit.covariance
    assert covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1] == pytest.approx(1 / wins + 1 / losses, rel=1e-5)


def test_without_draws_the_fit_is_bradley_terry():
    """400 Elo points mean odds of 10 to 1; here both neighbouring pairs have these odds."""
    wins = np.array([[0, 1000, 0], [100, 0, 1000], [0, 100, 0]])
    elo = ELO * fit_davidson(wins, np.zeros((3, 3)), prior_sd=WIDE_PRIOR_SD).strengths
    np.testing.assert_allclose(elo, [400.0, 0.0, -400.0], atol=0.05)


def test_a_player_that_never_loses_has_a_finite_rating_with_a_wide_interval():
    fit = fit_davidson(*counts_of_two_players(100, 0, 0))
    even_fit = fit_davidson(*counts_of_two_players(60, 0, 40))
    assert np.isfinite(fit.strengths).all()
    assert fit.strengths[0] > 2.0
    assert fit.covariance[0, 0] > 10 * even_fit.covariance[0, 0]


def test_without_games_the_fit_is_the_prior():
    fit = fit_davidson(np.zeros((2, 2)), np.zeros((2, 2)), prior_sd=2.0)
    np.testing.assert_allclose(fit.strengths, 0.0, atol=1e-12)
    assert fit.covariance[0, 0] == pytest.approx(4.0 / 2)  # two independent priors of variance 4, centred on their mean


@settings(max_examples=50, deadline=None)
@given(tables(4), st.permutations(range(4)))
def test_the_fit_is_invariant_under_permutation_and_reversal(counts, order):
    wins, draws = counts
    fit = fit_davidson(wins, draws)
    assert fit.strengths.sum() == pytest.approx(0.0, abs=1e-9)
    renamed = fit_davidson(wins[np.ix_(order, order)], draws[np.ix_(order, order)])
    np.testing.assert_allclose(renamed.strengths, fit.strengths[list(order)], atol=1e-6)
    reversed_fit = fit_davidson(wins.T, draws)
    np.testing.assert_allclose(reversed_fit.strengths, -fit.strengths, atol=1e-6)
    np.testing.assert_allclose(fit.covariance.sum(axis=1), 0.0, atol=1e-9)
    assert np.linalg.eigvalsh(fit.covariance).min() > -1e-9


def log_posterior(strengths, draw, wins, draws, prior_sd):
    """Return the log-posterior by the formula of the paper, as a sum over pairs."""
    total = -(np.sum(strengths**2) + draw**2) / (2 * prior_sd**2)
    exp_strengths, exp_draw = np.exp(strengths), np.exp(draw)
    for player in range(len(exp_strengths)):
        for opponent in range(player):
            mass = (
                exp_strengths[player]
                + exp_strengths[opponent]
                + exp_draw * np.sqrt(exp_strengths[player] * exp_strengths[opponent])
            )
            total += wins[player, opponent] * np.log(exp_strengths[player] / mass) + wins[opponent, player] * np.log(
                exp_strengths[opponent] / mass
            )
            total += draws[player, opponent] * np.log(
                exp_draw * np.sqrt(exp_strengths[player] * exp_strengths[opponent]) / mass
            )
    return total


@settings(max_examples=50, deadline=None)
@given(tables(3), st.sampled_from([1.0, 3.0, 10.0]))
def test_the_fit_maximises_the_posterior(counts, prior_sd):
    fit = fit_davidson(*counts, prior_sd=prior_sd)
    maximum = log_posterior(fit.strengths, fit.draw, *counts, prior_sd)
    for size in (1e-3, -1e-3, 0.3, -0.3):
        for player in range(3):
            assert log_posterior(fit.strengths + size * np.eye(3)[player], fit.draw, *counts, prior_sd) < maximum
        assert log_posterior(fit.strengths, fit.draw + size, *counts, prior_sd) < maximum


@settings(max_examples=50, deadline=None)
@given(tables(4), st.sampled_from([1, 10**3, 10**6]), st.sampled_from([0.1, 3.0, 30.0]))
def test_extreme_counts_converge(counts, scale, prior_sd):
    fit = fit_davidson(counts[0] * scale, counts[1] * scale, prior_sd=prior_sd)
    assert np.isfinite(fit.strengths).all()


def test_huge_counts_converge():
    fit = fit_davidson(*counts_of_two_players(9 * 10**8, 5 * 10**7, 5 * 10**7), prior_sd=WIDE_PRIOR_SD)
    assert fit.strengths[0] - fit.strengths[1] == pytest.approx(np.log(18), abs=1e-5)


def test_intervals_have_their_nominal_coverage():
    generator = np.random.default_rng(0)
    true_strengths = np.array([1.2, 0.3, -0.4, -1.1])
    coverage = []
    for _ in range(400):
        wins, draws = np.zeros((4, 4)), np.zeros((4, 4))
        for player in range(4):
            for opponent in range(player):
                weights = np.exp(
                    [
                        (true_strengths[player] - true_strengths[opponent]) / 2,
                        -0.5,
                        (true_strengths[opponent] - true_strengths[player]) / 2,
                    ]
                )
                wins[player, opponent], draws[player, opponent], wins[opponent, player] = generator.multinomial(
                    60, weights / weights.sum()
                )
                draws[opponent, player] = draws[player, opponent]
        fit = fit_davidson(wins, draws)
        coverage.append(np.abs(fit.strengths - true_strengths) < 1.96 * np.sqrt(np.diag(fit.covariance)))
    assert np.mean(coverage) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize(
    ("wins", "draws"),
    [
        (np.zeros((2, 3)), np.zeros((2, 3))),
        (np.zeros((2, 2)), np.zeros((3, 3))),
        (np.zeros((1, 1)), np.zeros((1, 1))),
        (-np.ones((2, 2)), np.zeros((2, 2))),
        (np.zeros((2, 2)), np.array([[0, 1], [2, 0]])),
    ],
)
def test_invalid_counts_are_refused(wins, draws):
    with pytest.raises(ConfigError, match="Ratings need"):
        fit_davidson(wins, draws)
