"""What SmolLM2 learns of three puzzles, and what that does to word problems: suite vpr-transfer.

    python benchmarks/transfer.py                         all arms, trained and measured: hours
    python benchmarks/transfer.py --arms start "warm-up"  some of them, written to runs/results

A run of `--folder` that is there is not trained again, and games already played are not played
again. Each row names the command that trained its run, and its commit.
"""

import argparse
import json
from pathlib import Path

from arms import STILL, row, sparring, trained
from published import record, settings

RECIPE, SUITE, TEMPERATURE = "vpr/puzzles-smol", "vpr-transfer", "0.5"
ARMS = {
    "start": [*STILL, "warmup.updates=0"],
    "warm-up": STILL,
    "VPR as released": [],
}


def measured(arm, run):
    """Return the rows of a run: what it solves of each game, legal replies and best moves."""
    how = ["--suite", SUITE, "--temperature", TEMPERATURE, "--workers", "1", "--json"]
    said = sparring("evaluate", str(run), *how)
    rows = []
    for one in json.loads(said)["rows"]:
        if not one["measured"]:
            continue
        found = one["overall"]
        figures = {"solved": found["success"], "illegal": found["illegal"]}
        if "optimal" in found:
            figures["best moves"] = found["optimal"]
        labels = {
            "arm": arm,
            "row": one["name"],
            "game": one["game"],
            "starts": one["starts"],
            "games": found["games"],
        }
        rows.append(row(labels, figures, run))
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--folder", type=Path, default=Path("runs/transfer"), help="of the runs")
    given = settings(parser)
    runs = {
        arm: trained(RECIPE, arm, ["threads=1", "seed=0", *ARMS[arm]], given.folder)
        for arm in given.arms
    }
    record("vpr-transfer", [one for arm in runs for one in measured(arm, runs[arm])], given)
