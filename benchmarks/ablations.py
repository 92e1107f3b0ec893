"""MARS's ablations with the tiny model: every variant, trained on one game and on three, over three seeds, scored alike.

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
VARIANTS = ("full", "no-turn-level", "no-agent-specific", "fixed-opponent", "rae", "grpo")
ONE_GAME = "games=[{name: tic_tac_toe, illegal: {rule: forfeit, penalty: 0.5}}]"
ONE_WORDS = "model.more_words_of=[kuhn_poker, hanabi, connect_four, leduc_poker]"
SCOPES = {"one": [ONE_GAME, ONE_WORDS], "three": []}
UNTRAINED = ["steps=1", "learner.learning_rate=0.0"]
SUITE = str(ROOT / "benchmarks" / "ablations.yaml")


def cell(variant, scope, seed, folder, more):
    """Train and score one run; return mean return (exact rows: NashConv) by row."""
    run = folder / f"{variant}-{scope}-{seed}"
    trained = "full" if variant == "untrained" else variant
    if not (run / "report.html").exists():
        changes = [*SCOPES[scope], f"seed={seed}", "threads=1", *(UNTRAINED if variant == "untrained" else more)]
        command = [SPARRING, "train", f"mars/ablations/{trained}", *changes, "--run", str(run), "--overwrite"]
        subprocess.run(command, check=True, capture_output=True)
    command = [SPARRING, "evaluate", str(run), "--suite", SUITE, "--workers", "1", "--json"]
    rows = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["rows"]
    return {row["name"]: figure(row) for row in rows}


def figure(row):
    """Return the number that a row is about, or None where it was not measured."""
    if not row["measured"]:
        return None
    if row["kind"] == "exact":
        return next(value for name, value in row["figures"].items() if name.startswith("nash_conv"))
    return row["overall"]["return"]["mean"]


def table(cells, seeds):
    """Return one row per variant and scope, with an interval over seeds for each row of the suite."""
    rows = []
    for variant, scope in dict.fromkeys((variant, scope) for variant, scope, _ in cells):
        figures = [cells[variant, scope, seed] for seed in range(seeds)]
        row = {"variant": variant, "games": scope}
        for name in figures[0]:
            values = [one[name] for one in figures if one[name] is not None]
            spread = mean_interval(values) if len(values) > 1 else None
            row[name] = f"{spread.mean:.2f} [{spread.low:.2f}, {spread.high:.2f}]" if spread else "-"
        rows.append(row)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "ablations")
    parser.add_argument("changes", nargs="*", help="changes to every recipe, e.g. steps=300")
    given = parser.parse_args()
    wanted = [(v, s, seed) for s in ("three", "one") for v in ("untrained", *VARIANTS) for seed in range(given.seeds)]
    with ThreadPoolExecutor(2) as pool:
        outcomes = pool.map(lambda key: cell(*key, given.folder, given.changes), wanted)
        cells = dict(zip(wanted, outcomes, strict=True))
    record("ablations", table(cells, given.seeds))
