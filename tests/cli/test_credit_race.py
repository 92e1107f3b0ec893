"""sparring credit race, as people use it."""

import json

import pytest
from typer.testing import CliRunner

from sparring import cli
from sparring.errors import SparringError

FEW = ("steps=2", "rollout.games_per_step=8", "rollout.group_size=4", "evaluation.every=1", "model.hidden_size=8", "model.heads=1")


def call(*arguments):
    return CliRunner().invoke(cli.app, ["credit", *map(str, arguments)])


def test_a_race_with_the_lab_beside_it_and_its_page(tmp_path):
    lab = call("compare", "--environment", "kuhn_poker", "--episodes", 320, "--batch", 32, "--no-time", "--estimators", "mars,grpo,rae", "--json")
    (tmp_path / "lab.json").write_text(lab.stdout)
    options = ["--estimators", "mars,grpo,rae,ppr", "--seeds", 2, "--folder", tmp_path / "runs", "--workers", 1]
    page = ["--lab", tmp_path / "lab.json", "--page", tmp_path / "race.md"]
    outcome = call("race", *FEW, *options, *page)
    assert outcome.exit_code == 0, outcome.output
    assert "refused" not in outcome.stdout and "mars" in outcome.stdout and "ppr" in outcome.stdout
    text = (tmp_path / "race.md").read_text()
    assert f"--estimators mars,grpo,rae,ppr --seeds 2 --lab {tmp_path / 'lab.json'}" in text
    assert "Truth and success" in text
    assert (tmp_path / "images" / "credit-race-lab.svg").exists()
    rows = json.loads(call("race", *FEW, *options, "--json").stdout)["rows"]  # read, not run again
    assert {row["estimator"] for row in rows} >= {"mars", "grpo", "rae", "ppr"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--estimators", "mras"], "Did you mean 'mars'"),
        (["--recipe", "kuhn-tny"], "Did you mean 'kuhn-tiny'"),
        (["--lab", "nowhere.json"], "sparring credit compare"),
        (["step=3"], "Did you mean 'steps'"),
    ],
)
def test_bad_input_is_a_clear_error(tmp_path, arguments, message):
    error = call("race", *arguments, "--folder", tmp_path / "runs").exception
    assert isinstance(error, SparringError), error
    assert message in str(error)
    assert not (tmp_path / "runs").exists()
