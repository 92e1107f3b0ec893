"""Suites whose moves are judged by oracles: stored results, workers, and oracles for one row or all rows."""

import json

import pytest
import yaml

from sparring import __version__
from sparring.api import suite_evaluation as suite_module
from sparring.api.suite_evaluation import SuiteEvaluation
from sparring.api.suite_player import agent_player, row_key
from sparring.core.errors import ConfigError
from sparring.core.files import sha256_hex
from sparring.measure.agent_spec import parse_agent
from sparring.measure.oracle_choice import parse_oracle
from sparring.measure.suite import GAMES_PER_PIECE, SuiteRow
from sparring.report.match_tables import suite_table
from tests.api.builders import as_json, row_of

GAMES = 60  # more games than one piece of work holds (50)
PLAIN = {
    "name": "kuhn",
    "game": "kuhn_poker",
    "role": "trained",
    "kind": "match",
    "opponent": {"name": "random"},
    "normalise": [-2, 2],
}
NIM = {**PLAIN, "name": "nim", "game": "nim", "options": {"pile_sizes": "1;2;3"}, "normalise": [-1, 1]}
SUDOKU = {
    "name": "sudoku",
    "game": "sudoku",
    "options": {"blanks": 2},
    "role": "held_out",
    "kind": "solo",
    "oracle": {"name": "constraint"},
    "normalise": [0, 1],
}


def evaluation(folder, *rows, **settings):
    folder.mkdir(exist_ok=True)
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump({"rows": list(rows)}))
    return SuiteEvaluation(
        str(path), agent_player(parse_agent("random")), **{"games": GAMES, "folder": folder, **settings}
    )


def with_oracle(row):
    return {**row, "oracle": {"name": "minimax"}}


def test_the_report_judges_moves_per_seat_and_overall(tmp_path):
    report = evaluation(tmp_path, PLAIN, with_oracle(NIM), SUDOKU).run(workers=1)
    nim, sudoku = row_of(report, "nim"), row_of(report, "sudoku")
    assert nim["oracle"] == {"name": "minimax", "options": {}} and row_of(report, "kuhn")["oracle"] is None
    for figures in (nim["overall"], *nim["seats"], sudoku["overall"]):
        for key in ("success", "optimal", "regret"):
            assert figures[key]["low"] <= figures[key]["mean"] <= figures[key]["high"]
        assert figures["oracle"]["judged"] == figures["oracle"]["turns"] > 0
    assert nim["overall"]["oracle"]["turns"] == sum(seat["oracle"]["turns"] for seat in nim["seats"])
    assert nim["overall"]["success"]["mean"] == nim["overall"]["win"]["mean"]
    assert sudoku["seats"] == [] and sudoku["overall"]["games"] == GAMES
    assert 100 * sudoku["overall"]["success"]["mean"] == pytest.approx(sudoku["overall"]["score"]["mean"])
    assert json.loads((tmp_path / "evaluation-small.json").read_text())["report"] == as_json(report)
    table = suite_table(report["rows"])
    assert [list(column.cells) for column in table.columns][:2] == [
        ["nim", "", "", "sudoku (unseen)"],
        ["all", "first", "second", "-"],
    ]
    assert suite_table([row_of(report, "kuhn")]) is None


def test_stored_pieces_are_reused_and_only_missing_games_are_played(tmp_path):
    rows = with_oracle(NIM), SUDOKU
    fresh_report = as_json(evaluation(tmp_path / "fresh", *rows).run(workers=1))
    evaluation(tmp_path / "more", *rows, games=GAMES_PER_PIECE).run(workers=1)
    evaluation_of_stored = evaluation(tmp_path / "more", *rows)
    assert as_json(evaluation_of_stored.run(workers=1)) == fresh_report and evaluation_of_stored.num_played == 3 * (
        GAMES - GAMES_PER_PIECE
    )


def test_results_without_an_oracle_are_reused_by_rows_without_one(tmp_path):
    evaluation_without_oracle = evaluation(tmp_path, PLAIN, NIM)
    evaluation_without_oracle.run(workers=1)
    judged_evaluation = evaluation(tmp_path, PLAIN, with_oracle(NIM))
    report = judged_evaluation.run(workers=1)
    assert judged_evaluation.num_played == 2 * GAMES  # only the games of nim
    assert row_of(report, "nim")["overall"]["oracle"]["judged"] > 0
    evaluation_with_oracle_off = evaluation(tmp_path, PLAIN, with_oracle(NIM), use_oracle=False)
    plain_report = evaluation_with_oracle_off.run(workers=1)
    assert (
        evaluation_with_oracle_off.num_played == 0
        and row_of(plain_report, "nim")["oracle"] is None
        and "regret" not in row_of(plain_report, "nim")["overall"]
    )
    figures = {key: row_of(report, "nim")["overall"][key] for key in ("games", "wins", "return", "illegal", "score")}
    # judging does not change the games
    assert figures == {key: row_of(plain_report, "nim")["overall"][key] for key in figures}


def test_an_oracle_is_part_of_the_key_and_may_be_set_for_all_rows(tmp_path):
    row = SuiteRow(**PLAIN)
    settings = {
        "name": "kuhn",
        "game": "kuhn_poker",
        "options": {},
        "illegal": {},
        "kind": "match",
        "opponent": {"name": "random", "options": {}},
    }
    assert row_key(row, ["x"], 3) == sha256_hex(
        json.dumps([1, __version__, GAMES_PER_PIECE, settings, ["x"], 3], sort_keys=True).encode()
    )
    rows_with_cfr = [SuiteRow(**PLAIN, oracle={"name": "cfr", "options": {"iterations": number}}) for number in (3, 4)]
    assert len({row_key(suite_row, ["x"], 3) for suite_row in (row, *rows_with_cfr)}) == 3
    report = evaluation(tmp_path, PLAIN, NIM, SUDOKU, oracle=parse_oracle("minimax"), games=2).run(workers=1)
    assert [row["oracle"] and row["oracle"]["name"] for row in report["rows"]] == [None, "minimax", "constraint"]
    assert row_of(report, "kuhn")["notes"] == [
        f"Moves not judged: {parse_oracle('minimax').make().covers(row.make_game())}"
    ]
    assert row_of(report, "nim")["notes"] == []
    with pytest.raises(ConfigError, match="can judge none of the rows"):
        evaluation(tmp_path, PLAIN, oracle=parse_oracle("minimax"))


def test_two_workers_in_reverse_order_give_the_results_of_one(tmp_path):
    suite = evaluation(tmp_path, with_oracle(NIM), SUDOKU)
    settings = {
        "rows": [row.model_dump(mode="json") for row in suite.suite.rows],
        "seed": 0,
        "player": suite.player.data,
        "answers": "",
    }
    pieces = [piece for row in suite.pieces for piece in row]
    run_piece = suite_module.make_piece_runner(settings)
    runners = suite_module.make_piece_runner(settings), suite_module.make_piece_runner(settings)
    expected = {piece: run_piece(list(piece)) for piece in pieces}
    assert (
        len(pieces) == 6
        and {piece: runners[index % 2](list(piece)) for index, piece in enumerate(pieces[::-1])} == expected
    )
