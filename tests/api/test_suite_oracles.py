"""Suites with oracles measured: workers, what is kept and extended, files from before, an oracle for all rows or for none."""

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
from sparring.measure.suite import PIECE, SuiteRow
from sparring.report.match_tables import suite_table
from tests.api.builders import of, plain

GAMES = 60  # more than a piece
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


def judged(row):
    return {**row, "oracle": {"name": "minimax"}}


def test_the_report_says_per_seat_and_overall_how_moves_were_judged(tmp_path):
    report = evaluation(tmp_path, PLAIN, judged(NIM), SUDOKU).run(workers=1)
    nim, sudoku = of(report, "nim"), of(report, "sudoku")
    assert nim["oracle"] == {"name": "minimax", "options": {}} and of(report, "kuhn")["oracle"] is None
    for figures in (nim["overall"], *nim["seats"], sudoku["overall"]):
        for key in ("success", "optimal", "regret"):
            assert figures[key]["low"] <= figures[key]["mean"] <= figures[key]["high"]
        assert figures["oracle"]["judged"] == figures["oracle"]["turns"] > 0
    assert nim["overall"]["oracle"]["turns"] == sum(seat["oracle"]["turns"] for seat in nim["seats"])
    assert nim["overall"]["success"]["mean"] == nim["overall"]["win"]["mean"]
    assert sudoku["seats"] == [] and sudoku["overall"]["games"] == GAMES
    assert 100 * sudoku["overall"]["success"]["mean"] == pytest.approx(sudoku["overall"]["score"]["mean"])
    assert json.loads((tmp_path / "evaluation-small.json").read_text())["report"] == plain(report)
    table = suite_table(report["rows"])
    assert [list(column.cells) for column in table.columns][:2] == [
        ["nim", "", "", "sudoku (unseen)"],
        ["all", "first", "second", "-"],
    ]
    assert suite_table([of(report, "kuhn")]) is None


def test_kept_pieces_are_extended(tmp_path):
    rows = judged(NIM), SUDOKU
    fresh = plain(evaluation(tmp_path / "fresh", *rows).run(workers=1))
    evaluation(tmp_path / "more", *rows, games=PIECE).run(workers=1)
    more = evaluation(tmp_path / "more", *rows)
    assert plain(more.run(workers=1)) == fresh and more.num_played == 3 * (GAMES - PIECE)


def test_what_was_kept_without_an_oracle_stays_good_for_rows_without_one(tmp_path):
    before = evaluation(tmp_path, PLAIN, NIM)
    before.run(workers=1)
    again = evaluation(tmp_path, PLAIN, judged(NIM))
    report = again.run(workers=1)
    assert again.num_played == 2 * GAMES  # nim alone
    assert of(report, "nim")["overall"]["oracle"]["judged"] > 0
    back = evaluation(tmp_path, PLAIN, judged(NIM), judged=False)
    plain_report = back.run(workers=1)
    assert (
        back.num_played == 0
        and of(plain_report, "nim")["oracle"] is None
        and "regret" not in of(plain_report, "nim")["overall"]
    )
    same = {key: of(report, "nim")["overall"][key] for key in ("games", "wins", "return", "illegal", "score")}
    assert same == {
        key: of(plain_report, "nim")["overall"][key] for key in same
    }  # to judge the games changes none of them


def test_oracles_are_of_rows_or_of_all_and_keys_of_before_hold(tmp_path):
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
        json.dumps([1, __version__, PIECE, settings, ["x"], 3], sort_keys=True).encode()
    )
    cfr = [SuiteRow(**PLAIN, oracle={"name": "cfr", "options": {"iterations": number}}) for number in (3, 4)]
    assert len({row_key(other, ["x"], 3) for other in (row, *cfr)}) == 3
    report = evaluation(tmp_path, PLAIN, NIM, SUDOKU, oracle=parse_oracle("minimax"), games=2).run(workers=1)
    assert [row["oracle"] and row["oracle"]["name"] for row in report["rows"]] == [None, "minimax", "constraint"]
    assert of(report, "kuhn")["notes"] == [
        f"Moves not judged: {parse_oracle('minimax').make().covers(row.make_game())}"
    ]
    assert of(report, "nim")["notes"] == []
    with pytest.raises(ConfigError, match="can judge none of the rows"):
        evaluation(tmp_path, PLAIN, oracle=parse_oracle("minimax"))


def test_two_that_play_in_turns_and_backwards_say_what_one_says(tmp_path):
    suite = evaluation(tmp_path, judged(NIM), SUDOKU)
    settings = {
        "rows": [row.model_dump(mode="json") for row in suite.suite.rows],
        "seed": 0,
        "player": suite.player.data,
        "answers": "",
    }
    pieces = [piece for row in suite.pieces for piece in row]
    alone = suite_module.make_piece_runner(settings)
    two = suite_module.make_piece_runner(settings), suite_module.make_piece_runner(settings)
    expected = {piece: alone(list(piece)) for piece in pieces}
    assert len(pieces) == 6 and {piece: two[at % 2](list(piece)) for at, piece in enumerate(pieces[::-1])} == expected
