"""The share of a step in which episodes wait for the oracle, in the study `vpr-released`.

    sparring reproduce vpr-released          # first: the script reads its runs
    python benchmarks/judging.py

The runs judge four replies to each prompt. For the first 40 steps after the warm-up of each run,
the script computes the seconds of the oracle divided by the seconds of the round, and their median
and largest value; then the medians over seeds.
"""

import argparse
import statistics
from pathlib import Path

from common import quick_run
from oracles import MAX_JUDGING_SHARE, judged_share, row
from published import TRIALS, record, settings

from sparring.run.events import TIMING, read_figures
from studies.common.study import load
from studies.vpr_released.study import recipe_of

STUDY = load("vpr-released")
STEPS = 40


def judging_shares_of_run(run):
    """Return the share of judging in each of the first steps of a run."""
    return [judged_share(line) for line in read_figures(run / TIMING)[:STEPS]]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("runs/reproduce/vpr-released"))
    options, rows = settings(parser, quick={"folder": TRIALS.parent / "quick" / "judging"}), []
    games, seeds = STUDY.setting["games"], STUDY.setting["seeds"]
    if options.quick:
        games, seeds = games[:1], 1
        quick_run(recipe_of(games[0]), options.folder / f"{games[0]}-released-0" / "run")
    for game in games:
        runs = [options.folder / f"{game}-released-{seed}" / "run" for seed in range(seeds)]
        shares_of_runs = [judging_shares_of_run(run) for run in runs]
        middle = statistics.median(statistics.median(run_shares) for run_shares in shares_of_runs)
        worst = max(max(run_shares) for run_shares in shares_of_runs)
        name = recipe_of(game)
        rows.append(row(name, middle, "share", MAX_JUDGING_SHARE, worst_share=worst))
    record("judging", rows, options)
