"""examples/matching.py: at most 40 lines; it keeps the contract, trains, is measured and is played in the terminal."""

import json
import os
from pathlib import Path

from sparring.testing import check_environment, check_picture

EXAMPLES = Path(__file__).parents[3] / "examples"
QUICK = ["steps=2", "rollout.games_per_step=16", "model.hidden_size=16", "model.layers=1", "threads=1"]


def test_it_keeps_the_contract_in_forty_lines_and_so_does_its_picture(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from matching import matching

    check_environment(matching)
    assert len((EXAMPLES / "matching.py").read_text().splitlines()) <= 40
    from matching_drawn import Drawn, matching_drawn

    check_environment(matching_drawn)
    assert check_picture(matching_drawn) > 0
    play = Drawn().reset(None)
    assert play.draw(0).count(">?<") == 2
    play.step({0: "heads", 1: "tails"})
    assert ">heads<" in play.draw(0) and play.described(0) == "left said heads, right said tails."


def test_it_trains_is_measured_and_is_played(tmp_path, sparring):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(EXAMPLES), os.environ.get("PYTHONPATH", "")])}

    folder = str(tmp_path / "run")
    _, measured, played, shown, _, _ = sparring(
        ["train", "kuhn-tiny", *QUICK, "store.every=1", "environments=[{name: matching.matching}]", "--run", folder],
        ["evaluate", folder, "--opponent", "random", "--games", "6", "--json"],
        (["play", folder, "--seed", "1"], "heads\nn\n"),
        ["show", folder],
        ["report", folder],
        ["export", folder, str(tmp_path / "exported")],
        cwd=tmp_path,
        environment=environment,
    )
    assert {row["role"] for row in json.loads(measured)["matches"]} == {"left", "right"}
    assert "Legal actions: heads, tails" in played and "You " in played.partition("The end.")[2] and "heads" in played
    assert "left (learner)" in shown
    assert (tmp_path / "run" / "report.html").exists() and (tmp_path / "exported" / "config.json").exists()
