"""Rewards for turns compared with rewards for outcomes, with the tiny model and equally many games.

The methods are verdicts, outcomes, values by playouts, and combinations. Figures during training
(return, best moves) have `starts` "seen", or "all" if training draws from all initial states.
Figures of the final evaluation (solved, best moves) have "unseen" for puzzles that do not occur in
training; those of training puzzles are also stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sparring.api.cells import Cell, CellRecords, Row, RunCommand, by_seed, metrics, training_cell
from studies.common.study import Setting, Study

Line = Mapping[str, Any]
BEST_PLAY = "environments.0.oracle={name: posterior, options: {worlds: 100}}"
GAMES: dict[str, tuple[str, list[str]]] = {  # game -> recipe, changes
    "sudoku": ("vpr/sudoku-tiny", []),
    "minesweeper": ("vpr/minesweeper-tiny", []),
    "minesweeper-best": ("vpr/minesweeper-tiny", [BEST_PLAY]),  # judged by best play
    "tictactoe": ("vpr/tictactoe-tiny", []),
}
MEETS = {"sudoku": "seen", "minesweeper": "all", "minesweeper-best": "all", "tictactoe": "all"}
METHODS: dict[str, list[str]] = {
    "vpr": [],
    "outcome": ["rewards=[]", "reorder_outcomes=false", "credit={name: grpo}"],
    "vpr-outcome": ["credit={name: vpr, outcome: 1.0}"],
    "playouts": [
        "rewards=[{name: playout_value}]",
        "credit={name: vpr, process: playout_value}",
        "rollout.playouts=1",
    ],
}
NEEDLESS = {("minesweeper-best", "outcome"), ("minesweeper-best", "playouts")}  # ask no oracle
ONE_SEAT = "evaluation.opponents=[{name: random, games_per_seat: 500}]"
RIVAL = "evaluation.opponents=[{name: random, games_per_seat: 2}]"  # returns are those wanted
WINDOW, GAMES_PER_STEP = 15, 256  # steps per point of a curve; games per step


def pairs(setting: Setting) -> list[tuple[str, str]]:
    """Return (game, method) of every arm."""
    result = [(game, method) for method in setting["methods"] for game in setting["games"]]
    return [pair for pair in result if pair not in NEEDLESS]


def cells(setting: Setting) -> list[Cell]:
    """Return the cells, ordered by seed."""
    return [
        cell((*pair, seed), setting) for seed in range(setting["seeds"]) for pair in pairs(setting)
    ]


def cell(key: tuple[str, str, int], setting: Setting) -> Cell:
    """Return the cell of (game, method, seed)."""
    game, method, seed = key
    recipe, game_changes = GAMES[game]
    steps = [f"steps={setting['steps']}", f"evaluation.every={setting['steps']}"]
    more = [*game_changes, *METHODS[method], *steps, RIVAL if game == "tictactoe" else ONE_SEAT]
    overrides = [*more, *setting["changes"], f"seed={seed}", "threads=1"]
    return training_cell(
        key, f"{game}-{method}-{seed}", recipe, overrides, partial(run_figures, game=game)
    )


def run_figures(
    run: Path, stdout: str, run_command: RunCommand, *, game: str
) -> dict[str, dict[str, float]]:
    """Return the figures of a run, by ``starts``."""
    return of_lines(metrics(run), game)


def of_lines(lines: Sequence[Line], game: str) -> dict[str, dict[str, float]]:
    """Return the figures of a run's metrics, by ``starts``."""
    name, meets, training = game.removesuffix("-best"), MEETS[game], while_training(lines)
    if meets == "seen":
        unseen = evaluated(lines[-1], name, "match")
        return {"seen": {**training, **evaluated(lines[-1], name, "match_seen")}, "unseen": unseen}
    return {
        meets: {**training, **({} if game == "tictactoe" else evaluated(lines[-1], name, "match"))}
    }


def while_training(lines: Sequence[Line]) -> dict[str, float]:
    """Return figures of the training games: by window, over the run, and at its end."""
    points = []
    for start in range(0, len(lines), WINDOW):
        part = lines[start : start + WINDOW]
        returned = mean([mean(values(line, "return/")) for line in part])
        optimal = mean([value for line in part for value in values(line, "optimal_rate/")])
        points.append((start + len(part), returned, optimal))
    figures = {f"return after {step * GAMES_PER_STEP}": value for step, value, _ in points}
    figures["return over the run"] = mean([value for _, value, _ in points])
    figures["return, end"] = points[-1][1]
    if any(values(line, "optimal_rate/") for line in lines):
        figures["best moves, end"] = points[-1][2]  # as the run's own oracle judges
    return figures


def values(line: Line, prefix: str) -> list[float]:
    """Return the metrics of a line whose names begin with a prefix."""
    return [value for key, value in line.items() if key.startswith(prefix)]


def mean(numbers: Sequence[float]) -> float:
    """Return the mean of numbers; 0 if there are none."""
    return sum(numbers) / max(len(numbers), 1)


def evaluated(line: Line, game: str, family: str) -> dict[str, float]:
    """Return figures of the evaluation in a line of metrics: games solved, best moves, illegal."""
    names = {"success": "solved", "optimal": "best moves", "illegal": "illegal"}
    prefix = f"{family}/{game}/random/solver/"
    return {
        name: line[prefix + part]
        for part, name in names.items()
        if line.get(prefix + part) is not None
    }


def rows(setting: Setting, records: CellRecords) -> list[Row]:
    """Return one row per game, method and kind of starts, with the value of each seed."""
    result = []
    for game, method in pairs(setting):
        ran = [records[game, method, seed]["found"] for seed in range(setting["seeds"])]
        labels = {"game": game, "learns by": method, "games": setting["steps"] * GAMES_PER_STEP}
        for starts in ran[0]:
            values = by_seed([record[starts] for record in ran])
            result.append({**labels, "starts": starts, "values": values})
    return result


STUDY = Study(
    summary="turn rewards compared with outcome rewards, with the tiny model",
    page="studies/vpr_methods/page.md",
    hours=0.9,
    setting={
        "games": list(GAMES),
        "methods": list(METHODS),
        "seeds": 3,
        "steps": 75,
        "changes": [],
    },
    quick={
        "games": ["sudoku"],
        "methods": ["vpr", "outcome"],
        "seeds": 1,
        "steps": 2,
        "changes": ["warmup.updates=2", "evaluation.opponents.0.games_per_seat=2"],
    },
    cells=cells,
    rows=rows,
)
