"""sparring scale probe and plan, on a small run."""

import json

from typer.testing import CliRunner

from sparring.cli import app

SMALL = ["kuhn-tiny", "warmup.updates=1", "rollout.games_per_step=16", "model.hidden_size=8", "model.layers=1", "model.heads=1", "scale.unit_games=4"]


def asked(*words):
    return CliRunner().invoke(app, ["scale", *words])


def test_probe_measures_and_plan_goes_on_from_its_file(tmp_path):
    out = str(tmp_path / "scale.json")
    found = asked("probe", *SMALL, "--steps", "1", "--out", out, "--json")
    assert found.exit_code == 0, found.output
    figures = json.loads(found.stdout)
    assert (figures["plays"], figures["units"], figures["unit_games"]) == (16, 4, 4)
    assert figures["unit"] > 0 and figures["learner"] > 0 and figures["message"] > 0
    planned = asked("plan", *SMALL, "--from", out, "--workers", "3", "--lags", "1,2", "--json")
    rows = json.loads(planned.stdout)["rows"]
    assert [row["lag"] for row in rows] == [0, 1, 2]
    said = asked("plan", *SMALL, "--from", out).stdout
    assert "Take scale.lag=" in said and "What limits it is" in said


def test_lags_that_are_none_are_refused_before_anything_runs(tmp_path):
    found = asked("plan", *SMALL, "--lags", "1,x")
    assert found.exit_code != 0 and "write numbers from 0 to 64" in str(found.exception)
