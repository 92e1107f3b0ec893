"""Which oracle measures a game: asked for, the run's own, or the first exact one, and why there is none."""

import pytest

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, UnknownNameError
from sparring.environments.catalogue import make_game
from sparring.measure import oracle_choice
from sparring.measure.oracle_choice import OracleSpec, chosen_oracle, oracles_for, parse_oracle

CHOSEN = [
    ("tic_tac_toe", {}, "minimax"),
    ("nim", {}, "minimax"),
    ("sudoku", {}, "constraint"),
    ("minesweeper", {}, "posterior"),
    ("kuhn_poker", {}, "cfr"),
    ("dag_search", {}, "planning"),
]


@pytest.mark.parametrize(("name", "options", "oracle"), CHOSEN)
def test_the_first_exact_oracle_is_chosen(name, options, oracle):
    found, note = chosen_oracle(make_game(name, options=options))
    assert (found.name, note) == (oracle, "")
    assert found.covers(make_game(name, options=options)) == ""


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("tiny_hanabi", "cfr: its average policy is an equilibrium only for one seat or two opposed ones"),
        ("liars_dice", "cfr: its tree has over max_histories"),
    ],
)
def test_where_none_can_judge_the_note_says_why(monkeypatch, name, why):
    monkeypatch.setattr(oracle_choice, "HISTORIES", 100)
    found, note = chosen_oracle(make_game(name))
    assert found is None
    assert why in note and "minimax: something is hidden" in note and "--oracle" in note


def test_a_game_too_large_to_solve_is_left_to_others(monkeypatch):
    monkeypatch.setattr(oracle_choice, "POSITIONS", 50)
    monkeypatch.setattr(oracle_choice, "HISTORIES", 50)
    found, note = chosen_oracle(make_game("tic_tac_toe"))
    assert found is None and "minimax: it has more than 50 positions" in note


def test_the_runs_own_oracle_wins_without_its_faults():
    mcts = OracleSpec("mcts", {"simulations": 7}).make()
    game = make_game("tic_tac_toe")
    assert chosen_oracle(game, mcts) == (mcts, "")
    noisy = registry.bind("oracles", "noisy", {"oracle": "minimax", "flip": 0.3})()
    assert oracles_for([game], None, {"tic_tac_toe": noisy})[0]["tic_tac_toe"] is noisy.within


def test_an_oracle_asked_for_judges_what_it_can():
    games = [make_game("tic_tac_toe"), make_game("kuhn_poker")]
    found, notes = oracles_for(games, parse_oracle("minimax"), {"tic_tac_toe": OracleSpec("mcts", {}).make()})
    assert found["tic_tac_toe"].name == "minimax" and "kuhn_poker" not in found
    assert len(notes) == 1 and "kuhn_poker: no regret, as minimax cannot judge it: something is hidden" in notes[0]
    with pytest.raises(ConfigError, match=r"--oracle minimax can judge none of the games: kuhn_poker: something is hidden") as error:
        oracles_for(games[1:], parse_oracle("minimax"), {})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("minmax", UnknownNameError, "Did you mean 'minimax'"),
        ("cfr iteration=3", UnknownNameError, "Did you mean 'iterations'"),
        ("cfr iterations=-3", ConfigError, "iterations"),
        ("cfr iterations", ConfigError, "write key=value"),
        ('cfr "', ConfigError, "Oracle 'cfr \"' cannot be read"),
    ],
)
def test_bad_oracles_get_one_clear_line(text, error, message):
    with pytest.raises(error) as found:
        parse_oracle(text)
    assert message in str(found.value) and "\n" not in str(found.value)


def test_options_are_read_as_written():
    assert parse_oracle("cfr iterations=1000 variant=cfr") == OracleSpec("cfr", {"iterations": 1000, "variant": "cfr"})
