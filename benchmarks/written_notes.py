"""What SmolLM2 learns of an opponent within an episode, with notes that it writes: mage/rock-smol.

    python benchmarks/written_notes.py                         all arms, trained and measured: hours
    python benchmarks/written_notes.py --arms start "warm-up"  some of them, to runs/results

A run of `--folder` that is there is not trained again. Each row names the command that trained its
run, and its commit.
"""

import argparse
import json
from pathlib import Path

from arms import STILL, row, sparring, trained
from published import record, settings

RECIPE = "mage/rock-smol"
ARMS = {
    "start": [*STILL, "warmup.updates=0", "evaluation.every=1000"],
    "warm-up": [*STILL, "evaluation.every=1000"],
    "trained": [],
}


def measured(arm, run, games):
    """Return a row for each role and pool of opponents: points by attempt, and what is gained."""
    how = ["--adaptation", "--no-exact", "--oracle", "none", "--games", str(games), "--json"]
    rows = []
    for one in json.loads(sparring("evaluate", str(run), *how))["adaptation"]:
        figures = {f"attempt {number}": found for number, found in enumerate(one["attempts"], 1)}
        figures["gain"] = one["gain"]
        for number, found in enumerate(one.get("closed", ()), 1):
            figures[f"share of the headroom, attempt {number}"] = found
        labels = {
            "arm": arm,
            "role": one["role"],
            "opponents": "met in training" if one["trained"] else "held out",
            "opponent": one["opponent"] or "all",
            "starts": one["starts"],
            "trials": one["attempts"][0]["trials"],
            "forfeits": one["forfeits"],
            "best": one["best"],
            "fixed": one["fixed"],
            "ceiling": one.get("ceiling", []),
        }
        rows.append(row(labels, figures, run))
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--games", type=int, default=60, help="trials of a role and an opponent")
    parser.add_argument("--folder", type=Path, default=Path("runs/notes"), help="of the runs")
    given = settings(parser)
    runs = {
        arm: trained(RECIPE, arm, ["threads=2", "seed=0", *ARMS[arm]], given.folder)
        for arm in given.arms
    }
    found = (measured(arm, run, given.games) for arm, run in runs.items())
    record("mage-smol", [one for rows in found for one in rows], given)
