"""The share of a step that judging takes while a play waits for it, in the study `vpr-released`.

    sparring reproduce vpr-released          # first: its runs are kept
    python benchmarks/judging.py

Of each kept run that judges four replies to a prompt the first 40 steps after the warm-up: seconds
of the oracle over seconds of the round, median and largest; then the median over seeds.
"""

import argparse
import statistics
from pathlib import Path

from published import record, settings

from sparring.experiments.study import load
from sparring.run.events import read_figures

STUDY = load("vpr-released")
STEPS, AIM = 40, 0.25


def shares(run):
    """Return judging's share of each of a run's first steps."""
    lines = read_figures(run / "timing.jsonl")[:STEPS]
    return [line["seconds/oracle"] / line["seconds/round"] for line in lines]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("runs/reproduce/vpr-released"))
    given = settings(parser)
    rows = []
    for game in STUDY.setting["games"]:
        runs = [
            given.folder / f"{game}-released-{seed}" / "run"
            for seed in range(STUDY.setting["seeds"])
        ]
        found = [shares(run) for run in runs]
        middle = statistics.median(statistics.median(own) for own in found)
        worst = max(max(own) for own in found)
        met = "yes" if middle <= AIM else "no"
        row = {"what": f"vpr/{game}-tiny-released", "value": middle, "unit": "share"}
        rows.append({**row, "worst_share": worst, "aim": AIM, "met": met})
    record("judging", rows, given)
