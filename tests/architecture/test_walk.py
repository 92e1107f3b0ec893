"""A training run stays within few files: one step of kuhn-tiny is followed, and the files counted."""

import json
import os
import subprocess
import sys

import pytest

MOST_IN_A_STEP, MOST_IN_A_RUN, MOST_IMPORTED = 60, 180, 250
FOLLOW = """
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
def test_a_run_and_a_step_enter_few_files(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FOLLOW],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    entered = json.loads(done.stdout.splitlines()[-1])
    assert "run/step.py" in entered["step"] and "methods/credit/mars.py" in entered["step"]
    assert len(entered["step"]) <= MOST_IN_A_STEP, f"{len(entered['step'])} files in a step: {entered['step']}"
    assert len(entered["run"]) <= MOST_IN_A_RUN, f"{len(entered['run'])} files in a run: {entered['run']}"
    assert len(entered["imported"]) <= MOST_IMPORTED, f"{len(entered['imported'])} modules imported by `sparring train`"
