"""Rewarding turns against rewarding outcomes, with the tiny model: runs of docs/reproduction/vpr.md.

    python benchmarks/vpr.py methods   verdicts, outcomes, values by playing on, both, at equal games
    python benchmarks/vpr.py general   Sudoku with thousands of puzzles: what is learnt for new ones

Each cell is one command, `sparring train RECIPE CHANGES seed=S threads=1`; what is done is not done
again. Seeds are outermost, so that what is broken off holds whole seeds.

Rows say which starts their figures are of. Figures while training (return, best moves) are of the
games trained on: `seen`, or `all` where training draws from every start there is. Figures of the
evaluation at the end (solved, best moves) are of puzzles that training never met: `unseen`; beside
them those of training's puzzles.
"""

import argparse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cells import cell, metrics, origin
from published import RESULTS, ROOT, record, settings

from sparring.report.svg import Series, line_chart

BEST_PLAY = "games.0.oracle={name: posterior, options: {worlds: 100}}"
GAMES = {  # cell -> recipe, changes
    "sudoku": ("vpr/sudoku-tiny", []),
    "minesweeper": ("vpr/minesweeper-tiny", []),
    "minesweeper-best": ("vpr/minesweeper-tiny", [BEST_PLAY]),  # judged by best play
    "tictactoe": ("vpr/tictactoe-tiny", []),
}
MEETS = {"sudoku": "seen", "minesweeper": "all", "minesweeper-best": "all", "tictactoe": "all"}
METHODS = {
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
SHORT = ["steps=600", "evaluation.every=300"]  # of the recipe's 900
GENERAL = {
    "vpr": ("vpr/sudoku-general-tiny", SHORT),
    "outcome": ("vpr/sudoku-general-tiny", [*METHODS["outcome"], *SHORT]),
}
BLANKS = (1, 2, 3, 4)
STEPS, WINDOW, GAMES_PER_STEP = 75, 15, 256  # steps of the methods, steps to a point of a curve


def mean(found):
    """Return the mean of a list."""
    return sum(found) / max(len(found), 1)


def training(lines):
    """Return figures of the games trained on: by window, over the run, and at its end."""
    points = []
    for start in range(0, len(lines), WINDOW):
        part = lines[start : start + WINDOW]
        returns = [
            mean([value for key, value in line.items() if key.startswith("return/")])
            for line in part
        ]
        optimal = [
            value for line in part for key, value in line.items() if key.startswith("optimal_rate/")
        ]
        points.append((start + len(part), mean(returns), mean(optimal)))
    found = {f"return after {step * GAMES_PER_STEP}": value for step, value, _ in points}
    found["return over the run"] = mean([value for _, value, _ in points])
    found["return, end"] = points[-1][1]
    if any(key.startswith("optimal_rate/") for line in lines for key in line):
        found["best moves, end"] = points[-1][2]  # as the run's own oracle judges
    return found


def measured(line, game, family):
    """Return figures of the evaluation in a line of metrics: games solved, best moves, illegal."""
    names = {"success": "solved", "optimal": "best moves", "illegal": "illegal"}
    prefix = f"{family}/{game}/random/solver/"
    return {
        name: line[prefix + part]
        for part, name in names.items()
        if line.get(prefix + part) is not None
    }


def by_seed(found):
    """Return {figure: {seed: value}} of a list of figures by seed."""
    return {name: {str(seed): one[name] for seed, one in enumerate(found)} for name in found[0]}


def cells_of(given, cells, run):
    """Return what the cells came to, {cell: [by seed]}, and where the runs come from; seeds are outermost."""
    wanted = [(*key, seed) for seed in range(given.seeds) for key in cells]
    with ThreadPoolExecutor(given.workers) as pool:
        kept = dict(zip(wanted, pool.map(run, wanted), strict=True))
    found = {key: [kept[*key, seed]["found"] for seed in range(given.seeds)] for key in cells}
    return found, origin(kept.values())


def methods(given):
    """Return the rows of the study of methods, and where its runs come from."""
    changes = [f"steps={given.steps}", f"evaluation.every={given.steps}"]
    one_seat = "evaluation.opponents=[{name: random, games_per_seat: 500}]"
    rival = "evaluation.opponents=[{name: random, games_per_seat: 2}]"  # returns are those wanted
    cells = [
        (game, method)
        for method in given.methods
        for game in given.games
        if (game, method) not in NEEDLESS
    ]

    def run(key):
        game, method, seed = key
        recipe, own = GAMES[game]
        more = [*own, *METHODS[method], *changes, rival if game == "tictactoe" else one_seat]
        more += given.changes
        folder = given.folder / f"{game}-{method}-{seed}"
        return cell(
            folder, recipe, [*more, f"seed={seed}", "threads=1"], lambda run: of_method(run, game)
        )

    found, source = cells_of(given, cells, run)
    rows = []
    for game, method in cells:
        own = {"game": game, "learns by": method, "games": given.steps * GAMES_PER_STEP}
        for starts, values in found[game, method][0].items():
            values = by_seed([one[starts] for one in found[game, method]])
            rows.append({**own, "starts": starts, "values": values})
    return rows, source


def of_method(run, game):
    """Return the figures of a run of the study of methods, by what their starts are."""
    lines, name, meets = metrics(run), game.removesuffix("-best"), MEETS[game]
    own = training(lines)
    if meets == "seen":
        unseen = measured(lines[-1], name, "match")
        return {"seen": {**own, **measured(lines[-1], name, "match_seen")}, "unseen": unseen}
    return {meets: {**own, **({} if game == "tictactoe" else measured(lines[-1], name, "match"))}}


def general(given):
    """Return the rows of Sudoku with thousands of puzzles, and where the runs come from."""

    def run(key):
        name, seed = key
        recipe, changes = GENERAL[name]
        folder = given.folder / f"general-{name}-{seed}"
        changes = [*changes, *given.changes]
        return cell(folder, recipe, [*changes, f"seed={seed}", "threads=1"], of_general)

    found, source = cells_of(given, [(name,) for name in GENERAL], run)
    rows = []
    for (name,), kept in found.items():
        for blanks in BLANKS:
            for starts in kept[0][str(blanks)]:
                values = by_seed([one[str(blanks)][starts] for one in kept])
                own = {"learns by": name, "empty cells": blanks, "games": kept[0]["games"]}
                rows.append({**own, "starts": starts, "values": values})
    return rows, source


def of_general(run):
    """Return by number of empty cells and by starts what a run solves at its evaluations."""
    lines = [line for line in metrics(run) if any(key.startswith("match/") for key in line)]
    found = {"games": lines[-1]["step"] * GAMES_PER_STEP}
    for blanks in BLANKS:
        found[str(blanks)] = {}
        for starts, family in (("unseen", "match"), ("seen", "match_seen")):
            curve = {
                f"solved after {line['step'] * GAMES_PER_STEP}": line[key]
                for line in lines
                for key in [f"{family}/sudoku{blanks}/random/solver/success"]
            }
            found[str(blanks)][starts] = {**curve, **measured(lines[-1], f"sudoku{blanks}", family)}
    return found


def draw(rows, game, seeds):
    """Draw the mean return of a game while training, by method."""
    series = []
    for row in rows:
        if row["game"] == game and row["starts"] == MEETS[game]:
            found = {
                int(name.rpartition(" ")[2]): mean(list(values.values()))
                for name, values in row["values"].items()
                if name.startswith("return after ")
            }
            series.append(Series(name=row["learns by"], points=sorted(found.items())))
    chart = line_chart(
        series,
        title=f"{game}: mean return while training, {MEETS[game]} starts",
        note=f"{seeds} seeds",
        x_label="games",
        standalone=True,
    )
    (ROOT / "docs" / "images" / f"vpr-methods-{game}.svg").write_text(chart + "\n")


def main(given):
    """Run the cells, write their rows, and draw the study of methods."""
    rows, source = {"methods": methods, "general": general}[given.study](given)
    path = record(f"vpr-{given.study}", rows, given, **source)
    if given.study == "methods" and path.parent == RESULTS:
        for game in given.games:
            draw(rows, game, given.seeds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", choices=("methods", "general"))
    parser.add_argument("--games", nargs="+", choices=GAMES, default=list(GAMES))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=STEPS, help="of the study of methods")
    parser.add_argument("--changes", nargs="*", default=[], help="further changes to every recipe")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "vpr")
    parser.add_argument("--workers", type=int, default=1, help="runs at a time, one thread each")
    main(settings(parser, "study"))
