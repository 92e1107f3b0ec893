"""Suite files: the published ones say what the papers measure, and bad ones get one clear line."""

from pathlib import Path

import pytest
import yaml

from sparring.config.recipe import load_recipe
from sparring.core.errors import ConfigError, UnknownNameError
from sparring.measure.agent_spec import AgentSpec
from sparring.measure.initial_states import rules_of
from sparring.measure.oracle_choice import OracleSpec
from sparring.measure.suite import (
    check_suite,
    load_suite,
    suite_names,
    with_opponents,
    with_oracle,
    without_oracles,
)
from tests.cases import every_case

ROW = {"name": "k", "game": "kuhn_poker", "role": "trained", "kind": "match", "opponent": {"name": "random"}, "normalise": [-2, 2]}


def changed(**changes):
    row = {**ROW, **changes}
    return {"rows": [{key: value for key, value in row.items() if value is not ...}]}


def test_mars_measures_three_trained_and_three_held_out_games():
    name, suite = load_suite("mars")
    assert name == "mars"
    games = {role: {(row.game, row.options.get("size")) for row in suite.rows if row.role == role} for role in ("trained", "held_out")}
    assert games["trained"] == {("tic_tac_toe", None), ("kuhn_poker", None), ("hanabi", "mini")}
    assert games["held_out"] == {("connect_four", None), ("leduc_poker", None), ("hanabi", "simple")}
    searches = {(row.game, row.opponent.options["simulations"]) for row in suite.rows if row.opponent and row.opponent.name == "mcts"}
    assert searches == {(game, number) for game in ("tic_tac_toe", "connect_four") for number in (100, 1000)}
    assert all(
        (row.opponent.options["uct_c"], row.opponent.options["rollouts"]) == (2.0, 10)
        for row in suite.rows
        if row.opponent and row.opponent.name == "mcts"
    )
    assert {row.game for row in suite.rows if row.kind == "exact"} == {"kuhn_poker", "leduc_poker"}
    assert {row.game for row in suite.rows if row.opponent and row.opponent.name == "cfr"} == {"kuhn_poker", "leduc_poker"}
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


@pytest.mark.parametrize(("text", "message"), [ ("rows: [", "not valid YAML"), ("- 3", "must be a mapping"), (None, "cannot be read"), ])
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
        ({}, "rows: Field required"),
        ({**changed(), "sumary": ""}, "Did you mean 'summary'"),
        (changed(gaem="x"), "key of rows.0 in Suite 'x' 'gaem'. Did you mean 'game'"),
        (changed(opponent={"name": "random", "option": {}}), "Unknown option of players 'random' 'option'"),
        (changed(game="khun_poker"), "row 'k': Unknown game 'khun_poker'. Did you mean 'kuhn_poker'"),
        (changed(options={"playrs": 2}), "Did you mean 'players'"),
        (changed(illegal={"rule": "forfiet"}), "Did you mean 'forfeit'"),
        (changed(opponent={"name": "randm"}), "Did you mean 'random'"),
        (changed(opponent={"name": "mcts", "options": {"simulation": 3}}), "Did you mean 'simulations'"),
        (changed(role="heldout"), "rows.0.role"),
        (changed(kind="matches"), "rows.0.kind"),
        (changed(games_per_seat=1), "rows.0.games_per_seat"),
        (changed(normalise=[2, 2]), "low must be below high"),
        (changed(opponent=...), "has an opponent"),
        (changed(kind="coplay"), "has no opponent"),
        (changed(kind="exact", opponent=...), "an exact row has no score"),
        (changed(kind="coplay", opponent=...), "co-play needs a game whose seats share one payoff"),
        ({"rows": [ROW, ROW]}, "row 'k' is listed twice"),
        (changed(oracle={"name": "minmax"}), "row 'k': Unknown oracle 'minmax'. Did you mean 'minimax'"),
        (changed(oracle={"name": "cfr", "options": {"iteration": 3}}), "Did you mean 'iterations'"),
        (changed(oracle={"name": "cfr", "options": {"iterations": "x"}}), "iterations"),
        (changed(oracle={"name": "cfr", "option": {}}), "Unknown option of oracles 'cfr' 'option'"),
        (changed(oracle=3), "rows.0.oracle"),
        (changed(oracle="cfr iterations"), "'iterations' is no option"),
        (changed(oracle={"name": "minimax"}), "row 'k': oracle 'minimax' cannot judge 'kuhn_poker': "),
        (changed(oracle={"name": "cfr"}, kind="exact", opponent=..., normalise=...), "leave oracle out"),
        (changed(kind="solo", opponent=...), "solo needs a game of one seat, and 'kuhn_poker' has 2"),
        (changed(kind="solo", game="sudoku", normalise=...), "a row of kind 'solo' has no opponent; only a match"),
        (changed(game="sudoku", normalise=...), "'sudoku' has one seat and none for an opponent; write kind: solo"),
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
    played = with_opponents(check_suite("x", {"rows": rows}), {"random": AgentSpec("random", {})}, None, {"k-a": "brief", "k-random": "brief"})
    assert len({row.name for row in played.rows}) == len(played.rows) == 4
    assert played.rows[0].options["style"] == "full" and played.rows[0].games_per_seat == 100


def test_an_oracle_goes_to_the_rows_that_have_none_and_that_it_can_judge():
    rows = [
        {**ROW, "name": "own", "oracle": {"name": "cfr", "options": {"iterations": 3}}},
        {**ROW, "name": "hidden"},
        {**ROW, "name": "open", "game": "tic_tac_toe", "normalise": [-1, 1]},
        {**ROW, "name": "large", "game": "connect_four", "normalise": [-1, 1]},
        {**ROW, "name": "exact", "kind": "exact", "opponent": None, "normalise": None},
    ]
    suite = check_suite("x", {"rows": rows})
    judged, notes = with_oracle(suite, OracleSpec("minimax", {"max_states": 8000}))
    assert {row.name: row.oracle and row.oracle.name for row in judged.rows} == {"own": "cfr", "hidden": None, "open": "minimax", "large": None, "exact": None}
    assert judged.rows[2].oracle.options == {"max_states": 8000}
    assert list(notes) == ["hidden", "large"] and "something is hidden" in notes["hidden"]
    assert notes["large"] == "it has more than 8000 positions"
    assert not any(row.oracle for row in without_oracles(judged).rows)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (ROW, "--oracle minimax can judge none of the rows that have no oracle: kuhn_poker: something is hidden"),
        ({**ROW, "oracle": {"name": "cfr"}}, "all rows that are played have an oracle of their own; leave --oracle out"),
    ],
)
def test_an_oracle_that_has_nothing_to_judge_is_refused(row, message):
    with pytest.raises(ConfigError) as caught:
        with_oracle(check_suite("x", {"rows": [row]}), OracleSpec("minimax", {}))
    assert message in str(caught.value)
