"""The gradients of all advantage estimators compared with the exact gradient, in nine games."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sparring.api.cells import Cell, CellRecords, Row, RunCommand
from sparring.core.files import parse_json
from studies.common.study import Setting, Study

GAMES = (  # tic-tac-toe: a quiet middle game, a position to win at once, and one to block
    *("kuhn_poker", "leduc_poker", "tic_tac_toe start='a1 b2 c3 a3'"),
    *("tic_tac_toe start='a1 b1 a2 b2'", "tic_tac_toe start='b2 a1 a3 c1'"),
    *("signalling", "tiny_hanabi", "repeated_dilemma", "needle_chain"),
)
KEYS = (
    *("bias", "bias_scaled", "cosine", "variance", "variance_scaled", "batch_cosine"),
    *("right_sign", "zeros", "effective", "seconds"),
)


def cells(setting: Setting) -> list[Cell]:
    """Return the cells: one comparison of all estimators per game."""
    return [comparison_cell(game, setting) for game in setting["games"]]


def comparison_cell(game: str, setting: Setting) -> Cell:
    """Return the cell of the estimators in a game."""
    episode_option = ["--episodes", str(setting["episodes"])] if "episodes" in setting else []
    options = [
        "--policy",
        "random",
        "--estimators",
        setting["estimators"],
        *episode_option,
        "--json",
    ]
    return Cell(
        key=(game,),
        folder=re.sub(r"[^A-Za-z0-9_]+", "-", f"lab {game}").strip("-"),
        command=("sparring", "credit", "compare", "--environment", game, *options),
        path_words=(),
        measure=read_comparison,
    )


def read_comparison(folder: Path, stdout: str, run_command: RunCommand) -> Any:
    """Return the comparison of a cell, without the figures of single seats."""
    document = parse_json(stdout)
    (report,) = document["games"]
    rows = [{key: row[key] for key in row if key != "seats"} for row in report["rows"]]
    return {"settings": document["settings"], "game": {**report, "rows": rows}}


def rows(setting: Setting, records: CellRecords) -> list[Row]:
    """Return the rows of all games, each with its game."""
    games = [records[game,]["found"]["game"] for game in setting["games"]]
    return [row(report["game"], entry) for report in games for entry in report["rows"]]


def row(game: str, entry: Mapping[str, Any]) -> Row:
    """Return the row of an estimator in a game: its figures, or the reason why it has none."""
    labels = {"game": game, "estimator": entry["estimator"], "starts": "all"}
    if "refused" in entry:
        return {**labels, "refused": entry["refused"]}
    values, intervals = {}, {}
    for key in KEYS:
        figure = entry[key] if isinstance(entry[key], dict) else {"mean": entry[key]}
        if figure["mean"] is not None:
            values[key] = {"0": figure["mean"]}
        if figure.get("low") is not None:
            intervals[key] = [figure["low"], figure["high"]]
    return {**labels, "values": values, "intervals": intervals}


def fields(setting: Setting, records: CellRecords) -> dict[str, Any]:
    """Return the settings of the comparisons, and the description of each game."""
    measured_games = [records[game,]["found"] for game in setting["games"]]
    reports = [result["game"] for result in measured_games]
    games = [{key: report[key] for key in report if key != "rows"} for report in reports]
    return {"setting": measured_games[0]["settings"], "games": games}


STUDY = Study(
    summary="every estimator of advantages compared with exact policy gradients, nine games",
    page="studies/credit_lab/page.md",
    hours=0.1,
    setting={"games": list(GAMES), "estimators": "all"},
    quick={"games": ["kuhn_poker"], "estimators": "rloo,grpo", "episodes": 640},
    cells=cells,
    rows=rows,
    fields=fields,
)
