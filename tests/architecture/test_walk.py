"""A training run executes few files: a step of kuhn-tiny is traced, and its files are counted."""

import json
import os
import subprocess
import sys

import pytest

MAX_FILES_OF_A_STEP, MAX_FILES_OF_A_RUN, MAX_FILES_IMPORTED = 60, 180, 250
TRACE_PROGRAM = """
import json, os, sys, threading
from sparring.cli import main
import sparring.cli.train
imported = [name for name in sys.modules if name.split(".")[0] == "sparring"]
import sparring.run.loop as loop

run, steps, number = set(), {}, 0
def follow(frame, event, argument):
    name = frame.f_code.co_filename
    if event == "call" and f"{os.sep}sparring{os.sep}" in name:
        run.add(name)
        steps.setdefault(number, set()).add(name)
def counted(*arguments, inner=loop.play_round, **options):
    global number
    number += 1
    return inner(*arguments, **options)
loop.play_round = counted
threading.setprofile(follow)
sys.setprofile(follow)
sys.argv = ["sparring", "train", "kuhn-tiny", "steps=3", "rollout.games_per_step=16", "warmup.updates=2", "evaluation.every=3", "threads=1", "--run", "run"]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
sys.setprofile(None)
short = lambda names: sorted(name.rpartition(f"{os.sep}sparring{os.sep}")[2] for name in names)
print(json.dumps({"imported": imported, "run": short(run), "step": short(steps[2])}))
"""


@pytest.mark.slow
@pytest.mark.always
def test_a_run_and_a_step_execute_few_files(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", TRACE_PROGRAM],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    entered = json.loads(done.stdout.splitlines()[-1])
    assert "run/step.py" in entered["step"] and "methods/credit/mars.py" in entered["step"]
    assert len(entered["step"]) <= MAX_FILES_OF_A_STEP, f"{len(entered['step'])} files in a step: {entered['step']}"
    assert len(entered["run"]) <= MAX_FILES_OF_A_RUN, f"{len(entered['run'])} files in a run: {entered['run']}"
    assert len(entered["imported"]) <= MAX_FILES_IMPORTED, (
        f"{len(entered['imported'])} modules imported by `sparring train`"
    )
