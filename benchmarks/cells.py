"""Training runs of a study: each is one command, run once and kept with its source.

Beside a run lies `cell.json`: the command, the commit of the code, the date, seconds, and what was
measured. A cell whose command is not the one asked for is trained again, so that cells of another
setting never mix with a study's. Those of several commits are refused when results are written.
"""

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import yaml
from published import ROOT, commit

SPARRING = str(Path(sys.executable).parent / "sparring")


def cell(run, recipe, changes, measure):
    """Train and measure one run, unless that is done; return the content of its `cell.json`.

    Args:
        run: the run's folder.
        recipe: a recipe's name.
        changes: changes to it, e.g. ["seed=0", "threads=1"].
        measure: function of the run's folder that returns what JSON can hold.
    """
    words = ["train", recipe, *changes]
    kept, command = run / "cell.json", shlex.join(["sparring", *words])
    if kept.exists():
        found = json.loads(kept.read_text(encoding="utf-8"))
        if found["command"] == command:
            return found
    at, began = commit(ROOT), time.perf_counter()
    sparring(*words, "--run", str(run), "--overwrite")
    seconds = time.perf_counter() - began
    found = {"command": command, "commit": at, "date": time.strftime("%Y-%m-%d")}
    found |= {"seconds": round(seconds, 1), "found": measure(run)}
    kept.write_text(json.dumps(found) + "\n", encoding="utf-8")
    print(f"{run.name}: {seconds:.0f} s", flush=True)
    return found


def sparring(*words):
    """Run the command line with one thread and return what it printed.

    Raises:
        SystemExit: it failed; its last words are told.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([SPARRING, *words], capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"`{shlex.join(['sparring', *words])}` failed: {done.stderr.strip()[-2000:]}")
    return done.stdout


def metrics(run):
    """Return a run's metrics by step.

    Raises:
        SystemExit: the run was stopped before its last step, by a signal or a health rule.
    """
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    config = run / "config.yaml"
    steps = yaml.safe_load(config.read_text(encoding="utf-8"))["steps"] if config.exists() else None
    done = found[-1]["step"] if found else 0
    if steps is not None and done != steps:
        sys.exit(f"{run} was stopped after {done} of {steps} steps; run this again.")
    return found


def origin(cells):
    """Return the fields of a results file that come from kept cells: their commit and last date.

    Raises:
        SystemExit: they come from several commits.
    """
    commits = sorted({cell["commit"] for cell in cells})
    if len(commits) > 1:
        sys.exit(
            f"The runs come from {len(commits)} commits: {', '.join(commits)}. Keep those of one in "
            "--folder and run this again; a clone that nobody changes stays at one."
        )
    return {"commit": commits[0], "date": max(cell["date"] for cell in cells)}
