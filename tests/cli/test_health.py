"""Health rules on the command line."""

import json

import pytest

from sparring.core.errors import RunError, UnknownNameError
from sparring.run.events import METRICS, read_lines
from tests.cli.builders import call, succeed

RECIPE = """
extends: kuhn-tiny
steps: 4
threads: 1
rollout: {games_per_step: 16}
model: {hidden_size: 16, layers: 1}
evaluation: {every: 4, exact: false, opponents: []}
health:
  stop: true
  rules: [{metric: legal_rate/GAME, below: 2.0, for_steps: 2}]
"""


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE)
    return path


def test_a_health_rule_stops_the_run_and_resume_goes_on(tmp_path, recipe):
    run = tmp_path / "run"
    outcome = succeed("train", recipe, "--run", run)
    words = "legal_rate/kuhn_poker is "
    assert (
        f"A health rule stopped the run: {words}" in outcome.stdout
        and "Usual remedy: start from legal play" in outcome.stdout
    )
    assert f"Stopped after step 2 and saved. Continue with: sparring train --run {run} --resume" in outcome.stdout
    assert outcome.stderr.count(f"warning: {words}") == 1
    assert f"<li>step 2: {words}" in (run / "report.html").read_text()
    outcome = call("train", "--run", run, "--resume", "--json")
    summary = json.loads(outcome.stdout.splitlines()[-1])
    assert (summary["steps"], summary["finished"], summary["stopped_by"]) == (4, True, "")
    assert "warning" not in outcome.stderr
    assert [line["step"] for line in read_lines(run / METRICS)] == [1, 2, 3, 4]


def test_json_names_the_rule_that_stopped_and_unknown_metrics_are_refused(tmp_path, recipe):
    summary = json.loads(call("train", recipe, "--run", tmp_path / "run", "--json").stdout.splitlines()[-1])
    assert (summary["steps"], summary["finished"]) == (2, False)
    assert summary["stopped_by"].startswith("legal_rate/kuhn_poker is ")
    recipe.write_text(RECIPE.replace("legal_rate/GAME", "legal_rates"))
    error = call("train", recipe, "--run", tmp_path / "other").exception
    assert isinstance(error, UnknownNameError) and "Did you mean 'legal_rate'" in str(error)
    assert not (tmp_path / "other").exists()


def test_resume_may_change_health_stop_but_no_training_option(tmp_path, recipe):
    call("train", recipe, "--run", tmp_path / "run")
    assert isinstance(call("train", "seed=1", "--run", tmp_path / "run", "--resume").exception, RunError)
    succeed("train", "health.stop=false", "--run", tmp_path / "run", "--resume")
