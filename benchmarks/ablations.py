"""MARS's ablations with the tiny model on three games: every variant over some seeds, scored alike.

Each cell is one command, `sparring train mars/ablations/VARIANT seed=S`, then `sparring evaluate RUN --suite ablations.yaml`.
Runs go two at a time with one thread each; what is done is not done again. Prints means over seeds with Student's 95 %
intervals, and writes results/ablations.json.
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
VARIANTS = ("untrained", "full", "no-turn-level", "no-agent-specific", "fixed-opponent", "rae", "grpo")
UNTRAINED = ["steps=1", "learner.learning_rate=0.0", "warmup.updates=0"]
SUITE = str(ROOT / "benchmarks" / "ablations.yaml")


def cell(variant, seed, folder, more):
    """Train and score one run; return its mean return by row of the suite, NashConv of exact rows, and the mean score."""
    run = folder / f"{variant}-{seed}"
    if not (run / "report.html").exists():
        recipe = f"mars/ablations/{'full' if variant == 'untrained' else variant}"
        changes = [f"seed={seed}", "threads=1", *(UNTRAINED if variant == "untrained" else more)]
        subprocess.run([SPARRING, "train", recipe, *changes, "--run", str(run), "--overwrite"], check=True, capture_output=True)
    command = [SPARRING, "evaluate", str(run), "--suite", SUITE, "--workers", "1", "--json"]
    rows = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["rows"]
    scores = [row["overall"]["score"]["mean"] for row in rows if row["kind"] != "exact"]
    return {**{row["name"]: figure(row) for row in rows}, "mean score": sum(scores) / len(scores)}


def figure(row):
    """Return the number that a row is about."""
    if row["kind"] == "exact":
        return next(value for name, value in row["figures"].items() if name.startswith("nash_conv"))
    return row["overall"]["return"]["mean"]


def table(cells, seeds):
    """Return one row per variant, with an interval over seeds for each row of the suite."""
    rows = []
    for variant in VARIANTS:
        figures = [cells[variant, seed] for seed in range(seeds)]
        spreads = {name: mean_interval([one[name] for one in figures]) for name in figures[0]}
        rows.append({"variant": variant, **{name: f"{s.mean:.2f} [{s.low:.2f}, {s.high:.2f}]" for name, s in spreads.items()}})
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "ablations")
    parser.add_argument("changes", nargs="*", help="changes to every recipe, e.g. steps=300")
    given = parser.parse_args()
    wanted = [(variant, seed) for seed in range(given.seeds) for variant in VARIANTS]
    with ThreadPoolExecutor(2) as pool:
        outcomes = pool.map(lambda key: cell(*key, given.folder, given.changes), wanted)
        cells = dict(zip(wanted, outcomes, strict=True))
    record("ablations", table(cells, given.seeds))
