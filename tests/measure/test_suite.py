import json
import math
from pathlib import Path

import pytest
import yaml

from sparring.config.recipe import load_recipe
from sparring.core.errors import ConfigError, UnknownNameError
from sparring.core.records import Interval
from sparring.core.rng import Stream
from sparring.measure.agent_spec import AgentSpec
from sparring.measure.initial_states import rules_of
from sparring.measure.matches import illegal_share, play_matches
from sparring.measure.oracle_choice import OracleSpec
from sparring.measure.oracle_regret import Judge, add_judged_turns
from sparring.measure.suite import (
    PIECE,
    SuiteRow,
    add_tallies,
    check_suite,
    figures,
    load_suite,
    mean_of_means,
    pieces_of,
    play_piece,
    score,
    suite_names,
    total_score,
    with_opponents,
    with_oracle,
    without_oracles,
)
from sparring.methods.oracles.minimax import minimax as minimax_oracle
from sparring.ops.statistics import wilson_interval
from sparring.play.players.base import TextAgent
from sparring.play.players.cfr import cfr
from sparring.play.players.random import random
from tests.cases import every_case

ROW = {
    "name": "k",
    "game": "kuhn_poker",
    "role": "trained",
    "kind": "match",
    "opponent": {"name": "random"},
    "normalise": [-2, 2],
}


def changed(**changes):
    row = {**ROW, **changes}
    return {"rows": [{key: value for key, value in row.items() if value is not ...}]}


def test_mars_measures_three_trained_and_three_held_out_games():
    name, suite = load_suite("mars")
    assert name == "mars"
    games = {
        role: {(row.game, row.options.get("size")) for row in suite.rows if row.role == role}
        for role in ("trained", "held_out")
    }
    assert games["trained"] == {("tic_tac_toe", None), ("kuhn_poker", None), ("hanabi", "mini")}
    assert games["held_out"] == {("connect_four", None), ("leduc_poker", None), ("hanabi", "simple")}
    searches = {
        (row.game, row.opponent.options["simulations"])
        for row in suite.rows
        if row.opponent and row.opponent.name == "mcts"
    }
    assert searches == {(game, number) for game in ("tic_tac_toe", "connect_four") for number in (100, 1000)}
    assert all(
        (row.opponent.options["uct_c"], row.opponent.options["rollouts"]) == (2.0, 10)
        for row in suite.rows
        if row.opponent and row.opponent.name == "mcts"
    )
    assert {row.game for row in suite.rows if row.kind == "exact"} == {"kuhn_poker", "leduc_poker"}
    assert {row.game for row in suite.rows if row.opponent and row.opponent.name == "cfr"} == {
        "kuhn_poker",
        "leduc_poker",
    }
    assert {row.game for row in suite.rows if row.kind == "coplay"} == {"hanabi"}


def test_spiral_measures_its_three_games_against_random_play():
    _, suite = load_suite("spiral")
    assert [row.game for row in suite.rows] == ["tic_tac_toe", "kuhn_rounds", "simple_negotiation"]
    assert {row.opponent.name for row in suite.rows} == {"random"}


def test_vpr_measures_what_its_recipes_train_on_and_other_games_and_sizes():
    _, suite = load_suite("vpr")
    trained = [row for row in suite.rows if row.role == "trained"]
    for row, kind in zip(trained, ("tictactoe", "sudoku", "minesweeper"), strict=True):
        recipe = load_recipe(f"vpr/{kind}-tiny")
        (game,) = recipe["environments"]
        judge = {key: value for key, value in game["oracle"].items() if key != "name"}
        assert rules_of(row.game, row.options) == rules_of(game["name"], game.get("options", {}))
        assert (row.oracle.name, row.oracle.options) == (game["oracle"]["name"], judge)
        for bot in recipe.get("bots", {}).values():
            assert {"name": row.opponent.name, **row.opponent.options} == bot
    held_out = [row for row in suite.rows if row.role == "held_out"]
    assert {row.game for row in held_out} - {row.game for row in trained} == {
        *("nim", "mastermind", "zebra", "sokoban", "battleship_hunt", "twenty_questions", "urn")
    }
    assert not any((row.game, row.options) == (other.game, other.options) for row in held_out for other in trained)
    assert all(row.oracle is not None for row in suite.rows)


@pytest.mark.parametrize("name", suite_names())
def test_scores_of_0_and_100_are_the_least_and_the_largest_return(name):
    for row in load_suite(name)[1].rows:
        if row.kind != "exact":
            game = row.make_game()
            assert row.normalise == (game.min_utility, game.max_utility), row.name


def test_the_suite_that_the_documentation_writes_can_be_read():
    page = (Path(__file__).parents[2] / "docs" / "suites.md").read_text(encoding="utf-8")
    suite = check_suite("docs", yaml.safe_load(page.partition("```yaml\n")[2].partition("```")[0]))
    assert [(row.kind, row.oracle.name) for row in suite.rows] == [("match", "cfr"), ("solo", "constraint")]


def test_a_suite_can_be_a_file(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(changed()))
    name, suite = load_suite(str(path))
    assert name == "mine" and suite.rows[0].games_per_seat == 100


@pytest.mark.parametrize(
    ("text", "message"), [("rows: [", "not valid YAML"), ("- 3", "must be a mapping"), (None, "cannot be read")]
)
def test_a_bad_file_gets_one_clear_line(tmp_path, text, message):
    path = tmp_path / "mine.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_suite(str(path))
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_an_unknown_suite_names_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'spiral'"):
        load_suite("spirla")


@every_case(
    ("data", "message"),
    [
        ({"rows": []}, "rows"),
        (changed(gaem="x"), "key of rows.0 in Suite 'x' 'gaem'. Did you mean 'game'"),
        (changed(opponent={"name": "random", "option": {}}), "Unknown option of players 'random' 'option'"),
        (changed(game="khun_poker"), "row 'k': Unknown game 'khun_poker'. Did you mean 'kuhn_poker'"),
        (changed(options={"playrs": 2}), "Did you mean 'players'"),
        (changed(illegal={"rule": "forfiet"}), "Did you mean 'forfeit'"),
        (changed(opponent={"name": "randm"}), "Did you mean 'random'"),
        (changed(opponent={"name": "mcts", "options": {"simulation": 3}}), "Did you mean 'simulations'"),
        (changed(role="heldout"), "rows.0.role"),
        (changed(games_per_seat=1), "rows.0.games_per_seat"),
        (changed(normalise=[2, 2]), "low must be below high"),
        (changed(opponent=...), "has an opponent"),
        (changed(kind="coplay"), "has no opponent"),
        (changed(kind="exact", opponent=...), "an exact row has no score"),
        (changed(kind="coplay", opponent=...), "co-play needs a game whose seats share one payoff"),
        ({"rows": [ROW, ROW]}, "row 'k' is listed twice"),
        (changed(oracle={"name": "minmax"}), "row 'k': Unknown oracle 'minmax'. Did you mean 'minimax'"),
        (changed(oracle={"name": "cfr", "options": {"iteration": 3}}), "Did you mean 'iterations'"),
        (changed(oracle="cfr iterations"), "'iterations' is not an option"),
        (changed(oracle={"name": "minimax"}), "row 'k': oracle 'minimax' cannot judge 'kuhn_poker': "),
        (changed(oracle={"name": "cfr"}, kind="exact", opponent=..., normalise=...), "leave oracle out"),
        (changed(kind="solo", opponent=...), "solo needs a game of one seat, and 'kuhn_poker' has 2"),
        (changed(kind="solo", game="sudoku", normalise=...), "a row of kind 'solo' has no opponent; only a match"),
        (
            changed(game="sudoku", normalise=...),
            "'sudoku' has only one seat, and no seat for an opponent; write kind: solo",
        ),
    ],
)
def test_a_bad_suite_gets_one_clear_line(data, message):
    with pytest.raises(ConfigError) as caught:
        check_suite("x", data)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_named_opponents_play_every_game_of_a_match_once_outside_the_totals():
    rows = [
        {**ROW, "name": "k-a"},
        {**ROW, "name": "k-b", "opponent": {"name": "cfr"}},
        {**ROW, "name": "e", "kind": "exact", "opponent": None, "normalise": None},
    ]
    suite = check_suite("x", {"rows": rows})
    styles = {"k-a": "full", "k-b": "brief", "e": "full"}
    played = with_opponents(suite, {"mcts": AgentSpec("mcts", {"simulations": 3})}, 7, styles)
    assert [(row.name, row.in_totals, row.options["style"]) for row in played.rows] == [
        ("k-a", True, "full"),
        ("k-mcts", False, "full"),
        ("k-b", True, "brief"),
        ("e", True, "full"),
    ]
    assert {row.games_per_seat for row in played.rows} == {7}
    assert played.rows[1].opponent.options == {"simulations": 3}


def test_a_style_of_the_suite_wins_and_names_stay_apart():
    rows = [{**ROW, "name": "k-a", "options": {"style": "full"}}, {**ROW, "name": "k-random"}]
    played = with_opponents(
        check_suite("x", {"rows": rows}),
        {"random": AgentSpec("random", {})},
        None,
        {"k-a": "brief", "k-random": "brief"},
    )
    assert len({row.name for row in played.rows}) == len(played.rows) == 4
    assert played.rows[0].options["style"] == "full" and played.rows[0].games_per_seat == 100


def test_an_oracle_goes_to_the_rows_that_have_none_and_that_it_can_judge():
    rows = [
        {**ROW, "name": "judged", "oracle": {"name": "cfr", "options": {"iterations": 3}}},
        {**ROW, "name": "hidden"},
        {**ROW, "name": "open", "game": "tic_tac_toe", "normalise": [-1, 1]},
        {**ROW, "name": "large", "game": "connect_four", "normalise": [-1, 1]},
        {**ROW, "name": "exact", "kind": "exact", "opponent": None, "normalise": None},
    ]
    suite = check_suite("x", {"rows": rows})
    judged, notes = with_oracle(suite, OracleSpec("minimax", {"max_states": 8000}))
    assert {row.name: row.oracle and row.oracle.name for row in judged.rows} == {
        "judged": "cfr",
        "hidden": None,
        "open": "minimax",
        "large": None,
        "exact": None,
    }
    assert judged.rows[2].oracle.options == {"max_states": 8000}
    assert list(notes) == ["hidden", "large"] and "something is hidden" in notes["hidden"]
    assert notes["large"] == "it has more than 8000 positions"
    assert not any(row.oracle for row in without_oracles(judged).rows)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (ROW, "--oracle minimax can judge none of the rows that have no oracle: kuhn_poker: something is hidden"),
        ({**ROW, "oracle": {"name": "cfr"}}, "all played rows already have an oracle; leave --oracle out"),
    ],
)
def test_an_oracle_that_has_nothing_to_judge_is_refused(row, message):
    with pytest.raises(ConfigError) as caught:
        with_oracle(check_suite("x", {"rows": [row]}), OracleSpec("minimax", {}))
    assert message in str(caught.value)


MATCH = SuiteRow(
    name="k",
    game="kuhn_poker",
    role="trained",
    kind="match",
    opponent={"name": "cfr"},
    games_per_seat=PIECE + 7,
    normalise=(-2, 2),
)
KUHN = MATCH.make_game()
COPLAY = SuiteRow(name="h", game="hanabi", role="trained", kind="coplay", games_per_seat=6, normalise=(0, 4))


def tallies(row, agent, opponent, seed=0):
    game = row.make_game()
    return {piece: play_piece(piece, row, game, agent, opponent, seed) for piece in pieces_of(0, row, game)}


def close(figure, interval):
    return figure == pytest.approx({"mean": interval.mean, "low": interval.low, "high": interval.high})


def test_pieces_cover_every_game_once():
    pieces = pieces_of(3, MATCH, MATCH.make_game())
    assert [(piece.row, piece.seat, piece.begin, piece.games) for piece in pieces] == [
        (3, s, b, n) for s in (0, 1) for b, n in ((0, PIECE), (PIECE, 7))
    ]
    assert len({piece.key for piece in pieces}) == 4
    assert [(p.seat, p.games) for p in pieces_of(0, COPLAY, COPLAY.make_game())] == [(0, 6)]


def test_pieces_add_up_to_the_match():
    counts_by_piece = tallies(MATCH, random(), cfr(iterations=10))
    stream = Stream.from_seed(0).child("suite").child("k")
    report = play_matches(
        MATCH.make_game(), random(), cfr(iterations=10), games_per_seat=MATCH.games_per_seat, stream=stream
    )
    for seat, record in [(None, report.overall), *enumerate(report.seats)]:
        got = figures(
            add_tallies(counts for piece, counts in counts_by_piece.items() if seat in (None, piece.seat)), MATCH, KUHN
        )
        assert (got["games"], got["wins"], got["draws"], got["losses"]) == (
            record.games,
            record.wins,
            record.draws,
            record.losses,
        )
        assert (
            close(got["return"], record.mean_return)
            and close(got["win"], record.win)
            and close(got["illegal"], record.illegal)
        )
        assert close(got["win_or_draw"], record.win_or_draw)


def test_another_seed_and_another_name_deal_other_games():
    first = list(tallies(MATCH, random(), random()).values())
    assert list(tallies(MATCH, random(), random()).values()) == first
    assert list(tallies(MATCH, random(), random(), seed=1).values()) != first
    assert list(tallies(MATCH.model_copy(update={"name": "l"}), random(), random()).values()) != first


def test_more_games_begin_with_the_same_ones():
    game, longer = MATCH.make_game(), MATCH.model_copy(update={"games_per_seat": 3 * PIECE})
    piece = pieces_of(0, longer, game)[0]
    assert play_piece(piece, longer, game, random(), random(), 0) == play_piece(
        piece, MATCH, game, random(), random(), 0
    )


def test_in_coplay_the_agent_sits_everywhere_and_nobody_wins():
    (counts,) = tallies(COPLAY, random(), None).values()
    got = figures(counts, COPLAY, COPLAY.make_game())
    assert "wins" not in got and got["games"] == 6
    assert counts["replies"] > 6 * 2  # both seats' replies
    assert got["score"]["mean"] == pytest.approx(25 * got["return"]["mean"])


def test_illegal_replies_are_clustered_by_game_whatever_the_pieces():
    counts = {"returns": {"1.0": 4}, "wins": 4, "draws": 0, "losses": 0, "illegal": 5, "replies": 20}
    parts = [{**counts, "replied": [[0, 5, 2], [5, 5, 1]]}, {**counts, "replied": [[0, 5, 1]]}]
    whole = add_tallies(parts)
    assert whole["replied"] == [[0, 5, 3], [5, 5, 1]] and add_tallies(parts[::-1]) == whole
    interval = figures(whole, MATCH, KUHN)["illegal"]
    expected = illegal_share([(5, 5), (0, 5), (0, 5), (0, 5)])
    assert (interval["low"], interval["mean"], interval["high"]) == (expected.low, 0.25, expected.high)


def test_a_file_of_before_that_does_not_know_the_games_keeps_the_interval_of_independent_replies():
    counts = {"returns": {"1.0": 4}, "wins": 4, "draws": 0, "losses": 0, "illegal": 5, "replies": 20}
    whole = add_tallies([counts, {**counts, "replied": [[5, 20, 1]]}])
    assert "replied" not in whole
    interval, expected = figures(whole, MATCH, KUHN)["illegal"], wilson_interval(10, 40)
    assert (interval["low"], interval["mean"], interval["high"]) == (expected.low, expected.mean, expected.high)


def test_a_score_is_a_straight_line_through_0_and_100():
    interval = score(Interval(mean=0.0, low=-1.0, high=0.5, count=4), (-1.0, 1.0))
    assert (interval.mean, interval.low, interval.high) == (50.0, 0.0, 75.0)


def test_scores_are_shown_between_0_and_100():
    counts = {"returns": {"-1.0": 1, "3.0": 1}, "wins": 1, "draws": 0, "losses": 1, "illegal": 0, "replies": 2}
    got = figures(counts, MATCH, KUHN)["score"]
    assert (got["low"], got["mean"], got["high"]) == (0.0, 75.0, 100.0)


def test_half_widths_add_in_quadrature():
    parts = [
        (0.5, Interval(mean=10.0, low=7.0, high=13.0, count=5)),
        (0.5, Interval(mean=20.0, low=16.0, high=24.0, count=6)),
    ]
    got = mean_of_means(parts)
    assert (got.mean, got.count) == (15.0, 11)
    assert got.high - got.mean == pytest.approx(math.hypot(1.5, 2.0)) == pytest.approx(got.mean - got.low)


def counts(mean):
    return {"returns": {str(float(mean)): 10}, "wins": 0, "draws": 0, "losses": 10, "illegal": 0, "replies": 10}


def test_a_total_is_the_mean_over_games_of_the_mean_over_rows():
    other = MATCH.model_copy(update={"name": "k2", "options": {"style": "full"}})  # the same game in other words
    large = MATCH.model_copy(update={"name": "k3", "options": {"players": 3}})
    left_out = MATCH.model_copy(update={"name": "x", "in_totals": False})
    got = total_score(
        [
            (MATCH, counts(-2)),
            (other, counts(2)),
            (large, counts(2)),
            (left_out, counts(-2)),
            (COPLAY.model_copy(update={"normalise": None}), counts(0)),
        ],
    )
    assert got == {"mean": 75.0, "low": 75.0, "high": 75.0, "games": 2}
    assert total_score([(left_out, counts(0))]) is None


ROW_EACH = {
    "each": {"game": "3..5"},
    "name": "n{game}",
    "game": "ordinal_2x2",
    "role": "held_out",
    "kind": "match",
    "opponent": {"name": "random"},
    "normalise": [1, 4],
}


def rows(*written):
    return check_suite("x", {"rows": list(written)}).rows


def test_a_row_with_each_stands_for_one_row_per_value():
    by_hand = [{**ROW_EACH, "name": f"n{number}", "options": {"game": number}} for number in (3, 4, 5)]
    for row in by_hand:
        del row["each"]
    other = {**by_hand[0], "name": "other"}
    assert rows({**ROW_EACH, "options": {}}, other) == rows(*by_hand, other)
    assert rows(other, {**ROW_EACH, "each": {"game": [3, 4, 5]}}) == rows(other, *by_hand)


def test_values_are_of_any_plain_kind_and_other_options_stay():
    written = rows({**ROW_EACH, "each": {"game": ["win_win", 7]}, "options": {"pay": "response"}, "normalise": [0, 1]})
    assert [(row.name, row.options) for row in written] == [
        ("nwin_win", {"pay": "response", "game": "win_win"}),
        ("n7", {"pay": "response", "game": 7}),
    ]


def test_a_range_has_both_ends_and_a_range_of_one_is_one_row():
    assert [row.name for row in rows({**ROW_EACH, "each": {"game": "144..144"}})] == ["n144"]
    assert len(rows({**ROW_EACH, "each": {"game": "1..144"}})) == 144


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"each": 3}, "rows.0.each: must name one option with its values, got 3; write each: {game: 1..144}"),
        ({"each": {"game": [1], "pay": ["own"]}}, "must name one option"),
        (
            {"each": {"game": "5..3"}},
            "must be a list of different values, or whole numbers FIRST..LAST, at most 1000, got '5..3'",
        ),
        ({"each": {"game": "1..1001"}}, "at most 1000"),
        ({"each": {"game": []}}, "must be a list of different values"),
        ({"each": {"game": [1, "1"]}}, "must be a list of different values"),
        ({"each": {"game": 3}}, "must be a list of different values"),
        ({"name": "n"}, "the row's name, 'n', has no {game}"),
        ({"name": 3}, "has no {game}"),
        ({"options": {"game": 3}}, "the option 'game' is under options as well"),
        ({"each": {"game": [3, "x"]}}, "row 'nx': ordinal_2x2: game='x' is none of"),
        ({"kind": "solo"}, "rows.0: a row of kind 'solo' has no opponent"),
    ],
)
def test_what_is_wrong_with_each_is_said_in_one_line(changes, message):
    with pytest.raises(ConfigError) as caught:
        rows({**ROW_EACH, **changes})
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_names_that_become_equal_are_refused():
    with pytest.raises(ConfigError, match="row 'n4' is listed twice"):
        rows(ROW_EACH, {**{key: value for key, value in ROW_EACH.items() if key != "each"}, "name": "n4"})


def test_each_is_a_key_that_a_typing_error_finds():
    with pytest.raises(UnknownNameError, match=r"'eahc'\. Did you mean 'each'"):
        rows({**{key: value for key, value in ROW_EACH.items() if key != "each"}, "eahc": {"game": "1..3"}})
    with pytest.raises(ConfigError, match=r"rows\.1\.kind"):
        rows(ROW_EACH, {**ROW_EACH, "name": "m{game}", "kind": "matches"})


PUZZLE = {
    "role": "trained",
    "kind": "solo",
    "oracle": {"name": "constraint", "options": {"lost": "solution"}},
    "normalise": (0, 1),
}


def nim(sizes, games=5, **changes):
    options = {"pile_sizes": sizes, "is_misere": False}
    row = {
        "name": "n",
        "game": "nim",
        "options": options,
        "role": "trained",
        "kind": "match",
        "opponent": {"name": "random"},
    }
    return SuiteRow(**{**row, "oracle": {"name": "minimax"}, "games_per_seat": games, **changes})


def tallies_oracles(row, agent, opponent=None, oracle=None):
    game, judge = row.make_game(), oracle or row.oracle.spec.make()
    return {piece: play_piece(piece, row, game, agent, opponent, 0, judge) for piece in pieces_of(0, row, game)}


def measured(row, agent, opponent=None, seat=None, oracle=None):
    parts = [
        counts for piece, counts in tallies_oracles(row, agent, opponent, oracle).items() if seat in (None, piece.seat)
    ]
    return figures(add_tallies(parts), row, row.make_game())


class FixedWords(TextAgent):
    def __init__(self, *words):
        super().__init__("scripted")
        self.words = words

    def choose(self, state, seat, stream):
        return self.words[state.plies // state.game.num_seats % len(self.words)]


class Mute:
    name = "mute"

    def covers(self, game):
        return ""

    def judge(self, states, streams=None):
        return [None] * len(states)


def test_a_tally_worked_out_by_hand():
    # piles 1 and 2: only b1 wins, so a1 loses 2; the answer b1 leaves one stone, and taking it is all there is, so the game is won
    first, second = tallies_oracles(nim("1;2"), FixedWords("a1", "b1"), FixedWords("b1", "b1")).values()
    assert first["judged"] == {"turns": 10, "asked": 10, "games": [[2.0, 1, 2, 5]], "bound": 0.0}
    assert second["judged"] == {"turns": 5, "asked": 5, "games": [[0.0, 1, 1, 5]], "bound": 0.0}
    assert (first["wins"], first["returns"]) == (5, {"1.0": 5})
    total = figures(add_tallies([first, second]), nim("1;2"), nim("1;2").make_game())
    assert total["oracle"] == {
        "name": "minimax",
        "turns": 15,
        "asked": 15,
        "judged": 15,
        "judged_share": 1.0,
        "bound": 0.0,
    }
    assert total["regret"]["mean"] == pytest.approx(10 / 15) and total["optimal"]["mean"] == pytest.approx(10 / 15)
    # ratio of sums, games as clusters: residuals 2 - 2 * 2/3 and 0 - 2/3, five times each, and t of 9 degrees of freedom
    error = math.sqrt(10 / 9 * 5 * ((2 / 3) ** 2 + (2 / 3) ** 2)) / 15
    assert total["regret"]["high"] == pytest.approx(10 / 15 + 2.2621572 * error)
    assert total["success"]["mean"] == total["wins"] / 10


def test_pieces_add_up_to_the_match_that_regret_measures():
    row = nim("2;3", PIECE + 7)
    counts_by_piece = tallies_oracles(row, random(), random())
    stream = Stream.from_seed(0).child("suite").child("n")
    judge = Judge(oracle=minimax_oracle(), budget=None)
    report = play_matches(
        row.make_game(), random(), random(), games_per_seat=row.games_per_seat, stream=stream, judge=judge
    )
    for seat, record in enumerate(report.seats):
        got = figures(
            add_tallies(counts for piece, counts in counts_by_piece.items() if piece.seat == seat), row, row.make_game()
        )
        assert got["oracle"] == record.regret.facts
        for key, interval in record.regret.intervals.items():
            assert got[key] == pytest.approx({"mean": interval.mean, "low": interval.low, "high": interval.high})


def test_the_order_of_the_pieces_changes_nothing_not_even_the_last_bit():
    row = SuiteRow(name="u", game="urn", games_per_seat=3 * PIECE, **{**PUZZLE, "oracle": {"name": "posterior"}})
    parts = list(tallies_oracles(row, random()).values())
    sums = [add_tallies(order) for order in (parts, parts[::-1], [add_tallies(parts[:2]), parts[2]])]
    there_and_back = add_tallies(json.loads(json.dumps(parts)))
    assert len(parts) == 3 and sums[0]["judged"] == sums[1]["judged"] == sums[2]["judged"] == there_and_back["judged"]
    game = row.make_game()
    assert figures(sums[0], row, game)["regret"] == figures(sums[1], row, game)["regret"]
    assert sums[0]["judged"]["turns"] == sum(part["replies"] for part in parts)
    judged = [part["judged"] for part in parts]
    assert add_judged_turns(judged) == add_judged_turns(judged[::-1])


def test_nothing_judged_is_no_figure_and_not_0():
    row_figures = measured(nim("1;2"), random(), random(), oracle=Mute())
    assert "regret" not in row_figures and "optimal" not in row_figures
    assert (row_figures["oracle"]["judged"], row_figures["oracle"]["judged_share"]) == (0, 0.0) and row_figures[
        "oracle"
    ]["turns"] > 0


def test_success_is_the_most_that_is_paid_and_told_alone_even_without_an_oracle():
    row = SuiteRow(name="s", game="sudoku", games_per_seat=4, **{**PUZZLE, "oracle": None})
    counts = {"returns": {"0.0": 1, "0.5": 2, "1.0": 1}, "wins": 4, "draws": 0, "losses": 0, "illegal": 0, "replies": 9}
    row_figures = figures(counts, row, row.make_game())
    assert row_figures["success"]["mean"] == 0.25 and "oracle" not in row_figures and "wins" not in row_figures
    match = nim("1;2", oracle=None)
    assert "success" not in figures(counts, match, match.make_game())


def test_sums_of_nothing():
    assert add_judged_turns([]).regret("minimax").intervals == {}
