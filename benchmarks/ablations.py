"""MARS's ablations with the tiny model: every variant, trained on one game and on three, over some seeds, scored alike.

Each cell is one command, `sparring train mars/ablations/VARIANT seed=S` (three games) or `mars/ablations/tictactoe/VARIANT` (one),
then `sparring evaluate RUN --suite ablations.yaml`. "untrained" is the start of them all: the warm-up in the words of all six games,
and nothing after it. Runs go two at a time with one thread each; what is done is not done again. Prints means over seeds with
Student's 95 % intervals, and writes results/ablations.json; `--variants full` does one ablation over all seeds and both
training sets, into results/ablations-full.json.
"""

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import ROOT, record

from sparring.ops.statistics import mean_interval

SPARRING = str(Path(sys.executable).parent / "sparring")
VARIANTS = ("full", "no-turn-level", "no-agent-specific", "fixed-opponent", "rae", "grpo")
FOLDERS = {"three games": "mars/ablations/", "tic-tac-toe": "mars/ablations/tictactoe/"}
UNTRAINED = ("none", "untrained")
SUITE = str(ROOT / "benchmarks" / "ablations.yaml")


def cell(trained_on, variant, seed, folder, more):
    """Train and score one run; return its figure by row of the suite, and the mean scores of trained-on and held-out games."""
    run = folder / f"{trained_on.replace(' ', '-')}-{variant}-{seed}"
    if not (run / "report.html").exists():
        recipe = "mars/ablations/full" if variant == "untrained" else FOLDERS[trained_on] + variant
        changes = [f"seed={seed}", "threads=1", *(["steps=1", "learner.learning_rate=0.0"] if variant == "untrained" else more)]
        subprocess.run([SPARRING, "train", recipe, *changes, "--run", str(run), "--overwrite"], check=True, capture_output=True)
    command = [SPARRING, "evaluate", str(run), "--suite", SUITE, "--workers", "1", "--json"]
    rows = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["rows"]
    scores = {row["name"]: row["overall"]["score"]["mean"] for row in rows if row["kind"] != "exact"}
    held_out = [score for name, score in scores.items() if name in ("connect_four", "leduc_poker", "hanabi_simple")]
    trained = [score for name, score in scores.items() if name in ("tic_tac_toe", "kuhn_poker", "hanabi_mini")]
    means = {"three games": sum(trained) / len(trained), "held out": sum(held_out) / len(held_out)}
    return {**{row["name"]: figure(row) for row in rows}, **means}


def figure(row):
    """Return the number that a row is about."""
    if row["kind"] == "exact":
        return next(value for name, value in row["figures"].items() if name.startswith("nash_conv"))
    return row["overall"]["return"]["mean"]


def table(cells, keys, seeds):
    """Return one row per training set and variant, with an interval over seeds for each row of the suite."""
    rows = []
    for trained_on, variant in keys:
        figures = [cells[trained_on, variant, seed] for seed in range(seeds)]
        spreads = {name: mean_interval([one[name] for one in figures]) for name in figures[0]}
        shown = {name: f"{s.mean:.2f} [{s.low:.2f}, {s.high:.2f}]" for name, s in spreads.items()}
        rows.append({"trained on": trained_on, "variant": variant, **shown})
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=VARIANTS, help="only these")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "ablations")
    parser.add_argument("--workers", type=int, default=2, help="runs at a time, one thread each")
    parser.add_argument("changes", nargs="*", help="changes to every recipe, e.g. steps=300")
    given = parser.parse_args()
    keys = [UNTRAINED, *((trained_on, variant) for trained_on in FOLDERS for variant in given.variants)]
    wanted = [(*key, seed) for seed in range(given.seeds) for key in keys]
    with ThreadPoolExecutor(given.workers) as pool:
        outcomes = pool.map(lambda key: cell(*key, given.folder, given.changes), wanted)
        cells = dict(zip(wanted, outcomes, strict=True))
    record("-".join(["ablations", *(given.variants if given.variants is not VARIANTS else ())]), table(cells, keys, given.seeds))
