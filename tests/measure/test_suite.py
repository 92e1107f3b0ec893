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
    GAMES_PER_PIECE,
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


def suite_with_row(**changes):
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


def test_vpr_measures_its_training_games_and_other_games_and_sizes():
    _, suite = load_suite("vpr")
    trained_rows = [row for row in suite.rows if row.role == "trained"]
    for row, environment in zip(trained_rows, ("tictactoe", "sudoku", "minesweeper"), strict=True):
        recipe = load_recipe(f"vpr/{environment}-tiny")
        (game,) = recipe["environments"]
        judge = {key: value for key, value in game["oracle"].items() if key != "name"}
        assert rules_of(row.game, row.options) == rules_of(game["name"], game.get("options", {}))
        assert (row.oracle.name, row.oracle.options) == (game["oracle"]["name"], judge)
        for bot in recipe.get("bots", {}).values():
            assert {"name": row.opponent.name, **row.opponent.options} == bot
    held_out = [row for row in suite.rows if row.role == "held_out"]
    assert {row.game for row in held_out} - {row.game for row in trained_rows} == {
        *("nim", "mastermind", "zebra", "sokoban", "battleship_hunt", "twenty_questions", "urn")
    }
    assert not any(
        (row.game, row.options) == (trained_row.game, trained_row.options)
        for row in held_out
        for trained_row in trained_rows
    )
    assert all(row.oracle is not None for row in suite.rows)


@pytest.mark.parametrize("name", suite_names())
def test_scores_0_and_100_are_the_smallest_and_the_largest_return(name):
    for row in load_suite(name)[1].rows:
        if row.kind != "exact":
            game = row.make_game()
            assert row.normalise == (game.min_utility, game.max_utility), row.name


def test_the_suite_in_the_documentation_is_valid():
    page = (Path(__file__).parents[2] / "docs" / "suites.md").read_text(encoding="utf-8")
    suite = check_suite("docs", yaml.safe_load(page.partition("```yaml\n")[2].partition("```")[0]))
    assert [(row.kind, row.oracle.name) for row in suite.rows] == [("match", "cfr"), ("solo", "constraint")]


def test_a_suite_can_be_a_file(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(suite_with_row()))
    name, suite = load_suite(str(path))
    assert name == "mine" and suite.rows[0].games_per_seat == 100


@pytest.mark.parametrize(
    ("text", "message"), [("rows: [", "not valid YAML"), ("- 3", "must be a mapping"), (None, "cannot be read")]
)
def test_an_invalid_file_gives_one_clear_line(tmp_path, text, message):
    path = tmp_path / "mine.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError) as error_info:
        load_suite(str(path))
    assert message in str(error_info.value) and "\n" not in str(error_info.value)


def test_an_unknown_suite_names_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'spiral'"):
        load_suite("spirla")


@every_case(
    ("data", "message"),
    [
        ({"rows": []}, "rows"),
        (suite_with_row(gaem="x"), "key of rows.0 in Suite 'x' 'gaem'. Did you mean 'game'"),
        (suite_with_row(opponent={"name": "random", "option": {}}), "Unknown option of players 'random' 'option'"),
        (suite_with_row(game="khun_poker"), "row 'k': Unknown game 'khun_poker'. Did you mean 'kuhn_poker'"),
        (suite_with_row(options={"playrs": 2}), "Did you mean 'players'"),
        (suite_with_row(illegal={"rule": "forfiet"}), "Did you mean 'forfeit'"),
        (suite_with_row(opponent={"name": "randm"}), "Did you mean 'random'"),
        (suite_with_row(opponent={"name": "mcts", "options": {"simulation": 3}}), "Did you mean 'simulations'"),
        (suite_with_row(role="heldout"), "rows.0.role"),
        (suite_with_row(games_per_seat=1), "rows.0.games_per_seat"),
        (suite_with_row(normalise=[2, 2]), "low must be below high"),
        (suite_with_row(opponent=...), "has an opponent"),
        (suite_with_row(kind="coplay"), "has no opponent"),
        (suite_with_row(kind="exact", opponent=...), "an exact row has no score"),
        (suite_with_row(kind="coplay", opponent=...), "co-play needs a game whose seats share one payoff"),
        ({"rows": [ROW, ROW]}, "row 'k' is listed twice"),
        (suite_with_row(oracle={"name": "minmax"}), "row 'k': Unknown oracle 'minmax'. Did you mean 'minimax'"),
        (suite_with_row(oracle={"name": "cfr", "options": {"iteration": 3}}), "Did you mean 'iterations'"),
        (suite_with_row(oracle="cfr iterations"), "'iterations' is not an option"),
        (suite_with_row(oracle={"name": "minimax"}), "row 'k': oracle 'minimax' cannot judge 'kuhn_poker': "),
        (suite_with_row(oracle={"name": "cfr"}, kind="exact", opponent=..., normalise=...), "leave oracle out"),
        (suite_with_row(kind="solo", opponent=...), "solo needs a game of one seat, and 'kuhn_poker' has 2"),
        (
            suite_with_row(kind="solo", game="sudoku", normalise=...),
            "a row of kind 'solo' has no opponent; only a match",
        ),
        (
            suite_with_row(game="sudoku", normalise=...),
            "'sudoku' has only one seat, and no seat for an opponent; write kind: solo",
        ),
    ],
)
def test_an_invalid_suite_gives_one_clear_line(data, message):
    with pytest.raises(ConfigError) as error_info:
        check_suite("x", data)
    assert message in str(error_info.value) and "\n" not in str(error_info.value)


def test_named_opponents_play_every_game_of_a_match_once_outside_the_totals():
    rows = [
        {**ROW, "name": "k-a"},
        {**ROW, "name": "k-b", "opponent": {"name": "cfr"}},
        {**ROW, "name": "e", "kind": "exact", "opponent": None, "normalise": None},
    ]
    suite = check_suite("x", {"rows": rows})
    styles = {"k-a": "full", "k-b": "brief", "e": "full"}
    extended_suite = with_opponents(suite, {"mcts": AgentSpec("mcts", {"simulations": 3})}, 7, styles)
    assert [(row.name, row.in_totals, row.options["style"]) for row in extended_suite.rows] == [
        ("k-a", True, "full"),
        ("k-mcts", False, "full"),
        ("k-b", True, "brief"),
        ("e", True, "full"),
    ]
    assert {row.games_per_seat for row in extended_suite.rows} == {7}
    assert extended_suite.rows[1].opponent.options == {"simulations": 3}


def test_a_style_of_the_suite_has_priority_and_names_stay_unique():
    rows = [{**ROW, "name": "k-a", "options": {"style": "full"}}, {**ROW, "name": "k-random"}]
    extended_suite = with_opponents(
        check_suite("x", {"rows": rows}),
        {"random": AgentSpec("random", {})},
        None,
        {"k-a": "brief", "k-random": "brief"},
    )
    assert len({row.name for row in extended_suite.rows}) == len(extended_suite.rows) == 4
    assert extended_suite.rows[0].options["style"] == "full" and extended_suite.rows[0].games_per_seat == 100


def test_an_oracle_is_added_to_suitable_rows_without_one():
    rows = [
        {**ROW, "name": "judged", "oracle": {"name": "cfr", "options": {"iterations": 3}}},
        {**ROW, "name": "hidden"},
        {**ROW, "name": "open", "game": "tic_tac_toe", "normalise": [-1, 1]},
        {**ROW, "name": "large", "game": "connect_four", "normalise": [-1, 1]},
        {**ROW, "name": "exact", "kind": "exact", "opponent": None, "normalise": None},
    ]
    suite = check_suite("x", {"rows": rows})
    with_oracles, notes = with_oracle(suite, OracleSpec("minimax", {"max_states": 8000}))
    assert {row.name: row.oracle and row.oracle.name for row in with_oracles.rows} == {
        "judged": "cfr",
        "hidden": None,
        "open": "minimax",
        "large": None,
        "exact": None,
    }
    assert with_oracles.rows[2].oracle.options == {"max_states": 8000}
    assert list(notes) == ["hidden", "large"] and "something is hidden" in notes["hidden"]
    assert notes["large"] == "it has more than 8000 positions"
    assert not any(row.oracle for row in without_oracles(with_oracles).rows)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (ROW, "--oracle minimax can judge none of the rows that have no oracle: kuhn_poker: something is hidden"),
        ({**ROW, "oracle": {"name": "cfr"}}, "all played rows already have an oracle; leave --oracle out"),
    ],
)
def test_an_oracle_that_has_nothing_to_judge_is_refused(row, message):
    with pytest.raises(ConfigError) as error_info:
        with_oracle(check_suite("x", {"rows": [row]}), OracleSpec("minimax", {}))
    assert message in str(error_info.value)


MATCH = SuiteRow(
    name="k",
    game="kuhn_poker",
    role="trained",
    kind="match",
    opponent={"name": "cfr"},
    games_per_seat=GAMES_PER_PIECE + 7,
    normalise=(-2, 2),
)
KUHN = MATCH.make_game()
COPLAY = SuiteRow(name="h", game="hanabi", role="trained", kind="coplay", games_per_seat=6, normalise=(0, 4))


def tallies(row, agent, opponent, seed=0):
    game = row.make_game()
    return {piece: play_piece(piece, row, game, agent, opponent, seed) for piece in pieces_of(0, row, game)}


def equals_interval(figure, interval):
    return figure == pytest.approx({"mean": interval.mean, "low": interval.low, "high": interval.high})


def test_pieces_contain_every_game_once():
    pieces = pieces_of(3, MATCH, MATCH.make_game())
    assert [(piece.row, piece.seat, piece.begin, piece.games) for piece in pieces] == [
        (3, s, b, n) for s in (0, 1) for b, n in ((0, GAMES_PER_PIECE), (GAMES_PER_PIECE, 7))
    ]
    assert len({piece.key for piece in pieces}) == 4
    assert [(p.seat, p.games) for p in pieces_of(0, COPLAY, COPLAY.make_game())] == [(0, 6)]


def test_figures_of_all_pieces_equal_the_match():
    counts_by_piece = tallies(MATCH, random(), cfr(iterations=10))
    stream = Stream.from_seed(0).child("suite").child("k")
    report = play_matches(
        MATCH.make_game(), random(), cfr(iterations=10), games_per_seat=MATCH.games_per_seat, stream=stream
    )
    for seat, record in [(None, report.overall), *enumerate(report.seats)]:
        summed_figures = figures(
            add_tallies(counts for piece, counts in counts_by_piece.items() if seat in (None, piece.seat)), MATCH, KUHN
        )
        assert (summed_figures["games"], summed_figures["wins"], summed_figures["draws"], summed_figures["losses"]) == (
            record.games,
            record.wins,
            record.draws,
            record.losses,
        )
        assert (
            equals_interval(summed_figures["return"], record.mean_return)
            and equals_interval(summed_figures["win"], record.win)
            and equals_interval(summed_figures["illegal"], record.illegal)
        )
        assert equals_interval(summed_figures["win_or_draw"], record.win_or_draw)


def test_another_seed_or_row_name_gives_other_games():
    expected_tallies = list(tallies(MATCH, random(), random()).values())
    assert list(tallies(MATCH, random(), random()).values()) == expected_tallies
    assert list(tallies(MATCH, random(), random(), seed=1).values()) != expected_tallies
    assert list(tallies(MATCH.model_copy(update={"name": "l"}), random(), random()).values()) != expected_tallies


def test_a_match_of_more_games_begins_with_the_same_games():
    game, longer_match = MATCH.make_game(), MATCH.model_copy(update={"games_per_seat": 3 * GAMES_PER_PIECE})
    piece = pieces_of(0, longer_match, game)[0]
    assert play_piece(piece, longer_match, game, random(), random(), 0) == play_piece(
        piece, MATCH, game, random(), random(), 0
    )


def test_in_coplay_the_agent_has_all_seats_and_wins_are_not_counted():
    (counts,) = tallies(COPLAY, random(), None).values()
    row_figures = figures(counts, COPLAY, COPLAY.make_game())
    assert "wins" not in row_figures and row_figures["games"] == 6
    assert counts["replies"] > 6 * 2  # both seats' replies
    assert row_figures["score"]["mean"] == pytest.approx(25 * row_figures["return"]["mean"])


def test_the_interval_of_illegal_replies_treats_games_as_clusters():
    counts = {"returns": {"1.0": 4}, "wins": 4, "draws": 0, "losses": 0, "illegal": 5, "replies": 20}
    tallies_of_pieces = [{**counts, "replied": [[0, 5, 2], [5, 5, 1]]}, {**counts, "replied": [[0, 5, 1]]}]
    total = add_tallies(tallies_of_pieces)
    assert total["replied"] == [[0, 5, 3], [5, 5, 1]] and add_tallies(tallies_of_pieces[::-1]) == total
    interval = figures(total, MATCH, KUHN)["illegal"]
    expected = illegal_share([(5, 5), (0, 5), (0, 5), (0, 5)])
    assert (interval["low"], interval["mean"], interval["high"]) == (expected.low, 0.25, expected.high)


def test_an_older_file_without_games_keeps_independent_intervals():
    counts = {"returns": {"1.0": 4}, "wins": 4, "draws": 0, "losses": 0, "illegal": 5, "replies": 20}
    total = add_tallies([counts, {**counts, "replied": [[5, 20, 1]]}])
    assert "replied" not in total
    interval, expected = figures(total, MATCH, KUHN)["illegal"], wilson_interval(10, 40)
    assert (interval["low"], interval["mean"], interval["high"]) == (expected.low, expected.mean, expected.high)


def test_a_score_is_linear_between_0_and_100():
    interval = score(Interval(mean=0.0, low=-1.0, high=0.5, count=4), (-1.0, 1.0))
    assert (interval.mean, interval.low, interval.high) == (50.0, 0.0, 75.0)


def test_reported_scores_are_clipped_to_0_and_100():
    counts = {"returns": {"-1.0": 1, "3.0": 1}, "wins": 1, "draws": 0, "losses": 1, "illegal": 0, "replies": 2}
    score = figures(counts, MATCH, KUHN)["score"]
    assert (score["low"], score["mean"], score["high"]) == (0.0, 75.0, 100.0)


def test_half_widths_add_in_quadrature():
    intervals = [
        (0.5, Interval(mean=10.0, low=7.0, high=13.0, count=5)),
        (0.5, Interval(mean=20.0, low=16.0, high=24.0, count=6)),
    ]
    mean_interval = mean_of_means(intervals)
    assert (mean_interval.mean, mean_interval.count) == (15.0, 11)
    assert (
        mean_interval.high - mean_interval.mean
        == pytest.approx(math.hypot(1.5, 2.0))
        == pytest.approx(mean_interval.mean - mean_interval.low)
    )


def counts(mean):
    return {"returns": {str(float(mean)): 10}, "wins": 0, "draws": 0, "losses": 10, "illegal": 0, "replies": 10}


def test_a_total_averages_rows_then_games():
    other_style = MATCH.model_copy(
        update={"name": "k2", "options": {"style": "full"}}
    )  # an equal game with a different prompt style
    row_of_3_players = MATCH.model_copy(update={"name": "k3", "options": {"players": 3}})
    excluded_row = MATCH.model_copy(update={"name": "x", "in_totals": False})
    total = total_score(
        [
            (MATCH, counts(-2)),
            (other_style, counts(2)),
            (row_of_3_players, counts(2)),
            (excluded_row, counts(-2)),
            (COPLAY.model_copy(update={"normalise": None}), counts(0)),
        ],
    )
    assert total == {"mean": 75.0, "low": 75.0, "high": 75.0, "games": 2}
    assert total_score([(excluded_row, counts(0))]) is None


ROW_WITH_EACH = {
    "each": {"game": "3..5"},
    "name": "n{game}",
    "game": "ordinal_2x2",
    "role": "held_out",
    "kind": "match",
    "opponent": {"name": "random"},
    "normalise": [1, 4],
}


def rows(*row_texts):
    return check_suite("x", {"rows": list(row_texts)}).rows


def test_a_row_with_each_expands_to_one_row_per_value():
    written_rows = [{**ROW_WITH_EACH, "name": f"n{number}", "options": {"game": number}} for number in (3, 4, 5)]
    for row in written_rows:
        del row["each"]
    other_row = {**written_rows[0], "name": "other"}
    assert rows({**ROW_WITH_EACH, "options": {}}, other_row) == rows(*written_rows, other_row)
    assert rows(other_row, {**ROW_WITH_EACH, "each": {"game": [3, 4, 5]}}) == rows(other_row, *written_rows)


def test_values_of_each_can_have_any_type_and_other_options_stay():
    expanded_rows = rows(
        {**ROW_WITH_EACH, "each": {"game": ["win_win", 7]}, "options": {"pay": "response"}, "normalise": [0, 1]}
    )
    assert [(row.name, row.options) for row in expanded_rows] == [
        ("nwin_win", {"pay": "response", "game": "win_win"}),
        ("n7", {"pay": "response", "game": 7}),
    ]


def test_a_range_includes_both_ends():
    assert [row.name for row in rows({**ROW_WITH_EACH, "each": {"game": "144..144"}})] == ["n144"]
    assert len(rows({**ROW_WITH_EACH, "each": {"game": "1..144"}})) == 144


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
        ({"options": {"game": 3}}, "the option 'game' is also under options"),
        ({"each": {"game": [3, "x"]}}, "row 'nx': ordinal_2x2: game='x' is none of"),
        ({"kind": "solo"}, "rows.0: a row of kind 'solo' has no opponent"),
    ],
)
def test_an_invalid_each_gives_one_clear_line(changes, message):
    with pytest.raises(ConfigError) as error_info:
        rows({**ROW_WITH_EACH, **changes})
    assert message in str(error_info.value) and "\n" not in str(error_info.value)


def test_names_that_become_equal_are_refused():
    with pytest.raises(ConfigError, match="row 'n4' is listed twice"):
        rows(ROW_WITH_EACH, {**{key: value for key, value in ROW_WITH_EACH.items() if key != "each"}, "name": "n4"})


def test_a_misspelt_each_suggests_the_key():
    with pytest.raises(UnknownNameError, match=r"'eahc'\. Did you mean 'each'"):
        rows({**{key: value for key, value in ROW_WITH_EACH.items() if key != "each"}, "eahc": {"game": "1..3"}})
    with pytest.raises(ConfigError, match=r"rows\.1\.kind"):
        rows(ROW_WITH_EACH, {**ROW_WITH_EACH, "name": "m{game}", "kind": "matches"})


PUZZLE = {
    "role": "trained",
    "kind": "solo",
    "oracle": {"name": "constraint", "options": {"lost": "solution"}},
    "normalise": (0, 1),
}


def nim_row(sizes, games=5, **changes):
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


def judged_tallies(row, agent, opponent=None, oracle=None):
    game, judge = row.make_game(), oracle or row.oracle.spec.make()
    return {piece: play_piece(piece, row, game, agent, opponent, 0, judge) for piece in pieces_of(0, row, game)}


def figures_of_row(row, agent, opponent=None, seat=None, oracle=None):
    tallies_of_pieces = [
        counts for piece, counts in judged_tallies(row, agent, opponent, oracle).items() if seat in (None, piece.seat)
    ]
    return figures(add_tallies(tallies_of_pieces), row, row.make_game())


class FixedWords(TextAgent):
    def __init__(self, *words):
        super().__init__("scripted")
        self.words = words

    def choose(self, state, seat, stream):
        return self.words[state.plies // state.game.num_seats % len(self.words)]


class AbstainingOracle:
    name = "mute"

    def covers(self, game):
        return ""

    def judge(self, states, streams=None):
        return [None] * len(states)


def test_a_tally_by_hand():
    # piles 1 and 2: only b1 wins, so a1 has regret 2; the reply b1 leaves one stone, and taking it wins
    tally_of_seat_0, tally_of_seat_1 = judged_tallies(
        nim_row("1;2"), FixedWords("a1", "b1"), FixedWords("b1", "b1")
    ).values()
    assert tally_of_seat_0["judged"] == {"turns": 10, "asked": 10, "games": [[2.0, 1, 2, 5]], "bound": 0.0}
    assert tally_of_seat_1["judged"] == {"turns": 5, "asked": 5, "games": [[0.0, 1, 1, 5]], "bound": 0.0}
    assert (tally_of_seat_0["wins"], tally_of_seat_0["returns"]) == (5, {"1.0": 5})
    total = figures(add_tallies([tally_of_seat_0, tally_of_seat_1]), nim_row("1;2"), nim_row("1;2").make_game())
    assert total["oracle"] == {
        "name": "minimax",
        "turns": 15,
        "asked": 15,
        "judged": 15,
        "judged_share": 1.0,
        "bound": 0.0,
    }
    assert total["regret"]["mean"] == pytest.approx(10 / 15) and total["optimal"]["mean"] == pytest.approx(10 / 15)
    # ratio of sums with games as clusters: residuals 2 - 2 * 2/3 and 0 - 2/3, five games each, t with 9 degrees of freedom
    error = math.sqrt(10 / 9 * 5 * ((2 / 3) ** 2 + (2 / 3) ** 2)) / 15
    assert total["regret"]["high"] == pytest.approx(10 / 15 + 2.2621572 * error)
    assert total["success"]["mean"] == total["wins"] / 10


def test_regret_of_all_pieces_equals_the_match():
    row = nim_row("2;3", GAMES_PER_PIECE + 7)
    counts_by_piece = judged_tallies(row, random(), random())
    stream = Stream.from_seed(0).child("suite").child("n")
    judge = Judge(oracle=minimax_oracle(), budget=None)
    report = play_matches(
        row.make_game(), random(), random(), games_per_seat=row.games_per_seat, stream=stream, judge=judge
    )
    for seat, record in enumerate(report.seats):
        summed_figures = figures(
            add_tallies(counts for piece, counts in counts_by_piece.items() if piece.seat == seat), row, row.make_game()
        )
        assert summed_figures["oracle"] == record.regret.facts
        for key, interval in record.regret.intervals.items():
            assert summed_figures[key] == pytest.approx(
                {"mean": interval.mean, "low": interval.low, "high": interval.high}
            )


def test_the_order_of_pieces_changes_no_bit_of_the_sums():
    row = SuiteRow(
        name="u", game="urn", games_per_seat=3 * GAMES_PER_PIECE, **{**PUZZLE, "oracle": {"name": "posterior"}}
    )
    tallies_of_pieces = list(judged_tallies(row, random()).values())
    sums = [
        add_tallies(order)
        for order in (
            tallies_of_pieces,
            tallies_of_pieces[::-1],
            [add_tallies(tallies_of_pieces[:2]), tallies_of_pieces[2]],
        )
    ]
    sum_from_json = add_tallies(json.loads(json.dumps(tallies_of_pieces)))
    assert (
        len(tallies_of_pieces) == 3
        and sums[0]["judged"] == sums[1]["judged"] == sums[2]["judged"] == sum_from_json["judged"]
    )
    game = row.make_game()
    assert figures(sums[0], row, game)["regret"] == figures(sums[1], row, game)["regret"]
    assert sums[0]["judged"]["turns"] == sum(part["replies"] for part in tallies_of_pieces)
    judged_counts = [part["judged"] for part in tallies_of_pieces]
    assert add_judged_turns(judged_counts) == add_judged_turns(judged_counts[::-1])


def test_without_judged_turns_there_is_no_figure():
    row_figures = figures_of_row(nim_row("1;2"), random(), random(), oracle=AbstainingOracle())
    assert "regret" not in row_figures and "optimal" not in row_figures
    assert (row_figures["oracle"]["judged"], row_figures["oracle"]["judged_share"]) == (0, 0.0) and row_figures[
        "oracle"
    ]["turns"] > 0


def test_success_is_the_largest_return_even_without_an_oracle():
    row = SuiteRow(name="s", game="sudoku", games_per_seat=4, **{**PUZZLE, "oracle": None})
    counts = {"returns": {"0.0": 1, "0.5": 2, "1.0": 1}, "wins": 4, "draws": 0, "losses": 0, "illegal": 0, "replies": 9}
    row_figures = figures(counts, row, row.make_game())
    assert row_figures["success"]["mean"] == 0.25 and "oracle" not in row_figures and "wins" not in row_figures
    match = nim_row("1;2", oracle=None)
    assert "success" not in figures(counts, match, match.make_game())
    game = row.make_game()
    game.max_utility = math.inf  # unknown
    assert "success" not in figures(counts, row, game)


def test_the_sum_of_no_tallies_has_no_figures():
    assert add_judged_turns([]).regret("minimax").intervals == {}
