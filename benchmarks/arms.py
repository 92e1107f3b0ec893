"""Arms of a comparison that are trained by the command line, one run folder each."""

import json
import shlex
import subprocess
import sys

from published import portable

# one step that moves nothing, for its checkpoint
STILL = ["steps=1", "learner.learning_rate=1e-9"]


def sparring(*words):
    """Run a command of the package and return what it printed."""
    command = [sys.executable, "-c", "import sparring.cli; sparring.cli.main()", *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def trained(recipe, arm, changes, folder):
    """Return the run folder of an arm, which is trained unless it is there.

    Args:
        recipe: what all arms train.
        arm: its name; the run folder's too.
        changes: ``KEY=VALUE`` words that the arm has beside the recipe.
        folder: of all run folders.
    """
    run = folder / arm.replace(" ", "-").lower()
    if not (run / "checkpoints").exists():
        sparring("train", recipe, *changes, "--run", str(run))
    return run


def row(labels, figures, run):
    """Return a row of a results file about one run.

    Args:
        labels: of the row.
        figures: ``mean``, ``low`` and ``high`` of each figure, by its name.
        run: the run folder.
    """
    return {
        **labels,
        "values": {name: {"0": value["mean"]} for name, value in figures.items()},
        "intervals": {name: [value["low"], value["high"]] for name, value in figures.items()},
        **source(run),
    }


def source(run):
    """Return how a run was trained: its command without places of this machine, and its commit."""
    first = json.loads((run / "provenance.json").read_text(encoding="utf-8"))["starts"][0]
    words = [word for word in shlex.split(first["command"]) if word != "--overwrite"]
    kept = portable(["--folder" if word == "--run" else word for word in words])
    return {"trained by": shlex.join(kept), "trained at": first["commit"][:8]}
