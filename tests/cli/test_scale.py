"""sparring scale probe and plan, on a small run."""

import json
import sys

import pytest
from typer.testing import CliRunner

from sparring.cli import app, main

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
    assert all(row["limit"] and 0 <= row["outcome"]["busy"] <= 1 for row in rows)
    said = asked("plan", *SMALL, "--from", out, "--deaths", "2").stdout
    assert "Take scale.lag=" in said and "What limits it:" in said and "More workers would" in said


def test_a_plan_of_fresh_order_says_that_it_is_of_pinned_order(tmp_path):
    out = str(tmp_path / "scale.json")
    asked("probe", *SMALL, "--steps", "1", "--out", out)
    fresh = ["scale.order=fresh", "scale.lag=2", "scale.fleet=processes", "scale.workers=2"]
    assert "what follows is of pinned order" in asked("plan", *SMALL, *fresh, "--from", out).output
    assert "pinned order" not in asked("plan", *SMALL, "--from", out).output


def test_a_training_process_that_would_do_two_things_at_once_is_said(tmp_path):
    out = tmp_path / "scale.json"
    asked("probe", *SMALL, "--steps", "1", "--out", str(out))
    figures = json.loads(out.read_text()) | {"unit": 0.01, "learner": 0.5, "message": 0.1}
    out.write_text(json.dumps(figures))
    assert "Messages and learning together take the training process 1" in asked("plan", *SMALL, "--from", str(out)).stdout
    out.write_text(json.dumps(figures | {"message": 0.001}))
    assert "Messages and learning together" not in asked("plan", *SMALL, "--from", str(out)).stdout


def test_plan_probes_by_itself_where_it_is_given_no_times(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = asked("plan", *SMALL, "--lags", "0", "--workers", "2", "--json")
    assert found.exit_code == 0, found.output
    plan = json.loads(found.stdout)
    assert plan["workers"] == 2 and plan["lag"] == 0 and plan["memory"] > 0 and plan["alone"] > 0
    assert not list(tmp_path.iterdir())


def test_a_probe_is_a_table_and_a_file(tmp_path):
    out = tmp_path / "times.json"
    said = asked("probe", *SMALL, "--steps", "1", "--out", str(out)).stdout
    for name in ("in one process", "a unit of 4 plays", "learner, a step", "weights", "memory of a worker", f"Wrote {out}."):
        assert name in said
    assert json.loads(out.read_text())["version"] == 1


def test_a_wrong_file_is_one_line(tmp_path, monkeypatch, capfd):
    wrong = tmp_path / "wrong.json"
    wrong.write_text("{")
    monkeypatch.setattr(sys, "argv", ["sparring", "scale", "plan", *SMALL, "--from", str(wrong)])
    with pytest.raises(SystemExit) as exit_:
        main()
    out, said = capfd.readouterr()
    assert exit_.value.code == 2 and out == ""
    assert len(said.strip().splitlines()) == 1 and "sparring scale probe" in said
    wrong.write_text('{"version": 2}')
    assert "sparring scale probe" in str(asked("plan", *SMALL, "--from", str(wrong)).exception)


def test_lags_that_are_none_are_refused_before_anything_runs(tmp_path):
    found = asked("plan", *SMALL, "--lags", "1,x")
    assert found.exit_code != 0 and "write numbers from 0 to 64" in str(found.exception)
