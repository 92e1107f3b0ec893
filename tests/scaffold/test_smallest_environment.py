"""examples/matching.py: at most 40 lines; it keeps the contract, trains, is measured and is played in the terminal."""

import json
import os
import subprocess
import sys
from pathlib import Path

from sparring.testing import check_environment

EXAMPLES = Path(__file__).parents[2] / "examples"
RUN = [sys.executable, "-c", "from sparring.cli import main; main()"]
QUICK = ["steps=2", "rollout.games_per_step=16", "model.hidden_size=16", "model.layers=1", "threads=1"]


def test_it_keeps_the_contract_in_forty_lines(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from matching import matching

    check_environment(matching)
    assert len((EXAMPLES / "matching.py").read_text().splitlines()) <= 40


def test_it_trains_is_measured_and_is_played(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(EXAMPLES), os.environ.get("PYTHONPATH", "")])}

    def run(*words, typed=""):
        done = subprocess.run([*RUN, *words], env=environment, input=typed, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    folder = str(tmp_path / "run")
    run("train", "kuhn-tiny", *QUICK, "store.every=1", "environments=[{name: matching.matching}]", "--run", folder)
    found = json.loads(run("evaluate", folder, "--opponent", "random", "--games", "6", "--json"))
    assert {row["role"] for row in found["matches"]} == {"left", "right"}
    said = run("play", folder, "--seed", "1", typed="heads\nn\n")
    assert "Legal actions: heads, tails" in said and "You " in said.partition("The end.")[2] and "heads" in said
    assert "left (learner)" in run("show", folder)
    run("report", folder)
    run("export", folder, str(tmp_path / "exported"))
