"""Training of SmolLM2 on three puzzles, and its transfer to word problems (suite vpr-transfer).

    python benchmarks/transfer.py                         train and measure all arms; takes hours
    python benchmarks/transfer.py --arms start "warm-up"  some arms; writes to runs/results

A run that exists in `--folder` is not trained again, and stored games are not played again. Each
row names the command and the commit of its training.
"""

import argparse
import json
import shlex
import subprocess
import sys
from pathlib import Path

from published import TRIALS, record, settings, without_local_paths

# one step that changes no weights; it only writes a checkpoint
NO_TRAINING = ["steps=1", "learner.learning_rate=1e-9"]
RECIPE, SUITE, TEMPERATURE = "vpr/puzzles-smol", "vpr-transfer", "0.5"
QUICK = [
    *("environments.0.options.puzzles=1000", "rollout.games_per_step=3"),
    "rollout.max_new_tokens=4",
]
ARMS = {
    "start": [*NO_TRAINING, "warmup.updates=0"],
    "warm-up": NO_TRAINING,
    "VPR as released": [],
}


def sparring(*words):
    """Run a command of the package and return its standard output."""
    command = [sys.executable, "-c", "import sparring.cli; sparring.cli.main()", *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def train_arm(arm, folder, changes):
    """Return the run folder of an arm; train the arm if the folder does not exist."""
    run = folder / arm.replace(" ", "-").lower()
    if not (run / "checkpoints").exists():
        sparring("train", RECIPE, "threads=1", "seed=0", *ARMS[arm], *changes, "--run", str(run))
    return run


def result_row(labels, figures, run):
    """Return a row of a results file about one run.

    Args:
        labels: labels of the row.
        figures: ``mean``, ``low`` and ``high`` of each figure, by its name.
        run: the run folder.
    """
    return {
        **labels,
        "values": {name: {"0": value["mean"]} for name, value in figures.items()},
        "intervals": {name: [value["low"], value["high"]] for name, value in figures.items()},
        **source_of_run(run),
    }


def source_of_run(run):
    """Return the command that trained a run, without paths of this machine, and its commit."""
    first = json.loads((run / "provenance.json").read_text(encoding="utf-8"))["starts"][0]
    words = [word for word in shlex.split(first["command"]) if word != "--overwrite"]
    words_to_type = without_local_paths(["--folder" if word == "--run" else word for word in words])
    return {"trained by": shlex.join(words_to_type), "trained at": first["commit"][:8]}


def measure_run(arm, run, more):
    """Return the rows of a run: for each game the share solved, illegal replies and best moves."""
    how = ["--suite", SUITE, "--temperature", TEMPERATURE, "--workers", "1", "--json"]
    stdout = sparring("evaluate", str(run), *how, *more)
    rows = []
    for entry in json.loads(stdout)["rows"]:
        if not entry["measured"]:
            continue
        overall = entry["overall"]
        figures = {"solved": overall["success"], "illegal": overall["illegal"]}
        if "optimal" in overall:
            figures["best moves"] = overall["optimal"]
        labels = {
            "arm": arm,
            "row": entry["name"],
            "game": entry["game"],
            "starts": entry["starts"],
            "games": overall["games"],
        }
        rows.append(result_row(labels, figures, run))
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--folder", type=Path, default=Path("runs/transfer"), help="of the runs")
    small = {"arms": ["start"], "folder": TRIALS.parent / "quick" / "transfer"}
    options = settings(parser, quick=small)
    changes, more = (QUICK, ["--games", "2"]) if options.quick else ([], [])
    runs = {arm: train_arm(arm, options.folder, changes) for arm in options.arms}
    record(
        "vpr-transfer",
        [entry for arm in runs for entry in measure_run(arm, runs[arm], more)],
        options,
    )
