"""Rewarding turns against rewarding outcomes, with the tiny model, at equal games: the runs behind docs/reproduction/vpr.md.

    python benchmarks/vpr.py methods   VPR, outcome, rollout-based reward and both together, on every kind of game
    python benchmarks/vpr.py noise     VPR on Sudoku with the oracle's verdicts flipped with probability 0 to 0.7

Each cell is one command, `sparring train vpr/GAME-tiny [CHANGES] seed=S threads=1`. Runs go two at a time; what is done is not done again.
Success (share of the games that pay their most), the share of best actions and the return are those of the games trained on, which
are fresh every step: means over windows of steps, then over seeds with Student's 95 % intervals. "games to its end" is how many games a
method needs until its success stays, in the mean over seeds, at what the outcome reward has at its end.
"""

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import ROOT, record

from sparring.ops.statistics import mean_interval
from sparring.report.svg import Series, line_chart

SPARRING = str(Path(sys.executable).parent / "sparring")
GAMES = {  # cell -> recipe, changes
    "sudoku": ("vpr/sudoku-tiny", []),
    "minesweeper": ("vpr/minesweeper-tiny", []),
    "minesweeper-best": ("vpr/minesweeper-tiny", ["games.0.oracle={name: posterior, options: {worlds: 100}}"]),  # judged by best play
    "tictactoe": ("vpr/tictactoe-tiny", []),
}
METHODS = {
    "vpr": [],
    "outcome": ["rewards=[]", "reorder_outcomes=false", "credit={name: grpo}"],
    "playouts": ["rewards=[{name: playout_value}]", "credit={name: vpr, process: playout_value}", "rollout.playouts=1"],
    "vpr-to-go": ["credit={name: vpr, gamma: 1.0}"],  # verdicts summed over the turns that are left
    "vpr-outcome": ["credit={name: vpr, outcome: 1.0}"],
}
FLIPS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7)
WINDOW = 20  # steps averaged for a point of a curve


def noise(flip):
    """Return the changes that make the Sudoku oracle err per turn."""
    inner = f"name: noisy, oracle: constraint, options: {{lost: solution}}, flip: {flip:g}, per: turn"
    return [f"games.0.oracle={{{inner}}}"] if flip else []


def train(folder, game, name, changes, seed):
    """Train one cell, unless it is done; return its metrics by step."""
    run = folder / f"{game}-{name}-{seed}"
    if not (run / "report.html").exists():
        recipe, own = GAMES[game]
        command = [SPARRING, "train", recipe, *own, *changes, f"seed={seed}", "threads=1", "--run", str(run), "--overwrite"]
        subprocess.run(command, check=True, capture_output=True)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line.get("metrics", line) for line in lines]


def curve(lines):
    """Return (step, mean return, share of best actions) per window."""
    points = []
    for start in range(0, len(lines), WINDOW):
        part = lines[start : start + WINDOW]
        returns = [[value for key, value in line.items() if key.startswith("return/")] for line in part]
        optimal = [value for line in part for key, value in line.items() if key.startswith("optimal_rate/")]
        points.append((start + len(part), mean([mean(values) for values in returns if values]), mean(optimal)))
    return points


def mean(values):
    """Return the mean of a list."""
    return sum(values) / max(len(values), 1)


def shown(values, digits=3):
    """Return a mean over seeds and its interval as text."""
    found = mean_interval(values)
    return f"{found.mean:.{digits}f} [{found.low:.{digits}f}, {found.high:.{digits}f}]"


def gains(curves, others):
    """Return by seed how much larger the mean return over all windows is than another method's with the same seed."""
    return [mean([point[1] for point in own]) - mean([point[1] for point in other]) for own, other in zip(curves, others, strict=True)]


def games_until(curves, level, games_per_step):
    """Return after how many games the mean over seeds stays at or above a level, or "never"."""
    means = [(points[0][0], mean([point[1] for point in points])) for points in zip(*curves, strict=True)]
    reached = None
    for step, value in means:
        if value < level:
            reached = None
        elif reached is None:
            reached = step * games_per_step
    return "never" if reached is None else reached


def main(given):
    """Run the cells and write table, figures and charts."""
    cells = {
        "methods": [(game, name, METHODS[name]) for game in given.games for name in given.methods],
        "noise": [("sudoku", f"flip{flip:g}" if flip else "vpr", noise(flip)) for flip in FLIPS]
        + [("sudoku", "outcome", METHODS["outcome"])],
    }[given.study]
    wanted = [(*cell, seed) for seed in range(given.seeds) for cell in cells]
    with ThreadPoolExecutor(given.workers) as pool:
        found = list(pool.map(lambda key: train(given.folder, key[0], key[1], [*key[2], *given.changes], key[3]), wanted))
    curves = {}
    for (game, name, _, _), lines in zip(wanted, found, strict=True):
        curves.setdefault((game, name), []).append(curve(lines))
    rows = []
    for (game, name), lines in curves.items():
        ahead = gains(lines, curves[game, "outcome"]) if (game, "outcome") in curves else []
        steps = lines[0][-1][0]
        size = given.games_per_step
        outcome = curves.get((game, "outcome"))
        level = mean([points[-1][1] for points in outcome]) if outcome else float("nan")
        rows.append(
            {
                "game": game,
                "method": name,
                "games": steps * size,
                "return at half": shown([points[len(points) // 2 - 1][1] for points in lines]),
                "return at the end": shown([points[-1][1] for points in lines]),
                "best actions at the end": shown([points[-1][2] for points in lines]),  # judged by the run's own oracle
                "over the run, less outcome's": shown(ahead) if ahead else "-",
                "games to outcome's end": games_until(lines, level, size) if outcome else "-",
            }
        )
    record(f"vpr-{given.study}", rows)
    for game in {game for game, _ in curves}:
        series = [
            Series(name=name, points=[(p[0][0] * given.games_per_step, mean([one[1] for one in p])) for p in zip(*lines, strict=True)])
            for (own, name), lines in curves.items()
            if own == game
        ]
        chart = line_chart(
            series, title=f"{game}: mean return while training", note=f"{given.seeds} seeds", x_label="games", standalone=True
        )
        (ROOT / "docs" / "images" / f"vpr-{given.study}-{game}.svg").write_text(chart + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=("methods", "noise"))
    parser.add_argument("--games", nargs="+", choices=GAMES, default=list(GAMES))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--games-per-step", type=int, default=256)
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "vpr")
    parser.add_argument("--workers", type=int, default=2, help="runs at a time, one thread each")
    parser.add_argument("--changes", nargs="*", default=[], help="changes to every recipe, e.g. steps=300")
    main(parser.parse_args())
