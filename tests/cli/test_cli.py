"""The command line as users call it, through the application of the installed entry point."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import yaml
from transformers import AutoModelForCausalLM, AutoTokenizer

from sparring import cli
from sparring.config import resolve
from sparring.core.errors import SparringError
from tests.cli.builders import assert_refused, call, succeed

QUICK = ["steps=3", "rollout.games_per_step=16", "model.hidden_size=16", "model.layers=1", "evaluation.every=2"]
QUICK += ["checkpoint.every=2", "threads=1"]


@pytest.fixture(scope="module")
def run_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "run"
    succeed("train", "kuhn-tiny", *QUICK, "--run", path, "--json")
    return path


def test_training_prints_json_and_an_error_exits_with_two(tmp_path, monkeypatch, capsys):
    outcome = call("train", "demo", *QUICK, "--run", tmp_path / "run", "--json")
    summary = json.loads(outcome.stdout.splitlines()[-1])
    assert summary["finished"] and summary["steps"] == 3
    assert 0 <= summary["metrics"]["nash_conv/kuhn_poker"] < 4
    assert summary["measured"] == "EMA weights"
    monkeypatch.setattr(sys, "argv", ["sparring", "train", "khun-tiny"])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    assert exit_.value.code == 2
    assert capsys.readouterr().err.startswith("error: Unknown recipe 'khun-tiny'.")


def test_the_configuration_of_a_run_folder_trains_an_equal_run(run_path, tmp_path):
    for name in ("config.yaml", "metrics.jsonl", "timing.jsonl", "tensorboard", "checkpoints", "report.html"):
        assert (run_path / name).exists(), name
    succeed("train", run_path / "config.yaml", "--run", tmp_path / "again")
    assert (tmp_path / "again" / "metrics.jsonl").read_bytes() == (run_path / "metrics.jsonl").read_bytes()


def test_dry_run_prints_the_plan_and_writes_no_file(tmp_path):
    outcome = call("train", "kuhn-tiny", "seed=3", "--dry-run", "--run", tmp_path / "run")
    printed = yaml.safe_load(outcome.stdout)
    assert printed["plan"]["games_in_all"] == 450 * 1024
    assert printed["plan"]["time"].endswith("write: sparring train RECIPE steps=3")
    assert not (tmp_path / "run").exists()
    as_json = json.loads(call("train", "kuhn-tiny", "seed=3", "--dry-run", "--json", "--run", tmp_path / "run").stdout)
    assert resolve(as_json["configuration"]).seed == 3
    assert as_json["plan"]["updates"] == printed["plan"]["updates"] and printed.keys() == {"plan"}


@pytest.mark.parametrize(
    "override",
    [
        "league.answer=nash",
        "matchmaker.name=meta_strategy",
        "league.learners={main: {matchmaker: {name: meta_strategy}}}",
    ],
)
def test_dry_run_refuses_a_league_that_training_refuses(tmp_path, override):
    arguments = ["environments=[{name: kuhn_poker, options: {players: 3}}]", "league.every=20", override]
    for last_arguments in (["--dry-run"], ["--run", tmp_path / "run"]):
        outcome = call("train", "kuhn-tiny", *arguments, *last_arguments)
        assert isinstance(outcome.exception, SparringError) and "is for two teams, and 'kuhn_poker' has 3" in str(
            outcome.exception
        )
    assert (
        override.partition("=")[0].removesuffix(".name") in str(outcome.exception) and not (tmp_path / "run").exists()
    )


def test_a_dry_run_refuses_an_unknown_model_and_resume_needs_no_recipe(run_path):
    outcome = call("train", "kuhn-tiny", "model.name=qwen3-0.6b", "--dry-run")
    assert isinstance(outcome.exception, SparringError) and "Unknown model 'qwen3-0.6b'" in str(outcome.exception)
    assert "Did you mean the Hugging Face id Qwen/Qwen3-0.6B?" in str(outcome.exception)
    outcome = succeed("train", "--run", run_path, "--resume", "steps=4")
    assert "Done: 4 steps" in outcome.stdout
    assert "Both use the EMA weights (learner.average); with --answer last, the live weights." in outcome.stdout


def test_the_plan_lists_the_processes_that_play_and_learn():
    plan = yaml.safe_load(call("train", "kuhn-tiny", "--dry-run").stdout)["plan"]
    assert plan["players"] == {"fleet": "the training process", "lag": 0}
    assert plan["learners"] == {"ranks": 1, "leaves": 1}
    scale = ("scale.fleet=processes", "scale.workers=3", "scale.lag=1", "scale.unit_games=20", "rollout.group_size=8")
    plan = yaml.safe_load(call("train", "kuhn-tiny", "rollout.games_per_step=128", *scale, "--dry-run").stdout)["plan"]
    assert set(plan["memory_gib_by_process"]) == {"training process", "worker, each of 3"}
    assert plan["players"] == {"fleet": "processes", "workers": 3, "units_per_step": 6, "plays_per_unit": 24, "lag": 1}
    plan = yaml.safe_load(call("train", "kuhn-tiny", "learner.leaves=8", "learner.ranks=4", "--dry-run").stdout)["plan"]
    assert set(plan["memory_gib_by_process"]) == {"training process", "learner, each of 3"}
    assert plan["learners"] == {"ranks": 4, "leaves": 8}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "khun-tiny"], "Did you mean 'kuhn-tiny'"),
        (["train"], "Name a recipe"),
        (["train", "kuhn-tiny", "credit.name=marz"], "Did you mean 'mars'"),
        (["train", "kuhn-tiny", "credit.gamma=high"], "option 'gamma'"),
        (["train", "kuhn-tiny", "rollout.group_size=5"], "must divide"),
        (["train", "kuhn-tiny", "environments.0.name=khun_poker", "--run", "{tmp}/x"], "kuhn_poker"),
        (["train", "kuhn-tiny", "environments.0.illegal.rule=forfiet", "--run", "{tmp}/x"], "forfeit"),
        (["train", "kuhn-tiny", "model.name={tmp}", "--run", "{tmp}/x"], "no config.json"),
        (["train", "--resume", "--run", "{tmp}/nowhere"], "no run folder"),
        (["evaluate", "{tmp}/nowhere"], "no run folder"),
        (["evaluate", "{tmp}"], "not a run folder"),
        (["report", "{tmp}"], "not a run folder"),
        (["play", "{tmp}/nowhere"], "no run folder"),
        (["list", "enviroments"], "Did you mean 'environments'"),
        (["explain", "grpoo"], "Did you mean 'grpo'"),
    ],
)
def test_bad_input_is_refused_with_one_line(arguments, message, tmp_path):
    (tmp_path / "something").write_text("")
    assert_refused(call(*(argument.replace("{tmp}", str(tmp_path)) for argument in arguments)), message)


def test_a_run_is_not_overwritten_or_resumed_with_changes_by_accident(run_path):
    outcome = call("train", "kuhn-tiny", *QUICK, "--run", run_path)
    assert "--overwrite" in str(outcome.exception)
    outcome = call("train", "--run", run_path, "--resume", "seed=9")
    assert "seed differ" in str(outcome.exception)


def test_evaluate_reports_matches_and_exact_figures(run_path):
    outcome = succeed("evaluate", run_path, "--games", 20, "--opponent", "random", "--opponent", "cfr", "--json")
    result = json.loads(outcome.stdout)
    assert {row["opponent"] for row in result["matches"]} == {"random", "cfr"}
    assert {row["role"] for row in result["matches"]} == {"first", "second"}
    low, high = (result["matches"][0]["intervals"]["win"][end] for end in ("low", "high"))
    assert 0 <= low < high <= 1
    assert result["figures"]["nash_conv/kuhn_poker"] > 0
    assert result["weights"] == "EMA weights"
    stdout = call("evaluate", run_path, "--games", 4, "--no-exact").stdout
    assert "random" in stdout and ", EMA weights." in stdout


def test_evaluate_repeats_and_names_its_weights_and_rates_the_league(run_path):
    last_answer = call("evaluate", run_path, "--games", 2, "--answer", "last")
    assert "live weights" in last_answer.stdout and "EMA" not in last_answer.stdout
    assert "EMA weights" in call("evaluate", run_path, "--games", 2).stdout
    first_json, second_json = (call("evaluate", run_path, "--games", 10, "--json").stdout for _ in range(2))
    assert first_json == second_json
    result = json.loads(call("evaluate", run_path, "--games", 4, "--league", "--json").stdout)
    assert {row["name"] for row in result["league"][0]["rows"]} == {"policy", "random"}
    assert "Did you mean 'random'" in str(call("evaluate", run_path, "--opponent", "randm").exception)


def test_a_chart_and_a_model_are_written_to_files(run_path, tmp_path):
    succeed("report", run_path, "--svg", tmp_path / "chart.svg")
    assert "nash_conv/kuhn_poker" in (tmp_path / "chart.svg").read_text()
    succeed("export", run_path, tmp_path / "model")
    model, tokenizer = (
        AutoModelForCausalLM.from_pretrained(tmp_path / "model"),
        AutoTokenizer.from_pretrained(tmp_path / "model"),
    )
    assert model.config.vocab_size == len(tokenizer)
    assert "not an empty folder" in str(call("export", run_path, tmp_path / "model").exception)


@pytest.mark.parametrize(
    "name", ["mars", "ppo_clip", "kuhn_poker", "demo", "legal_rate", "nash_conv/kuhn_poker", "mixed"]
)
def test_explain_prints_a_page_for_each_kind_of_name(name):
    outcome = call("explain", name)
    assert outcome.exit_code == 0
    assert len(outcome.stdout) > 40


def test_doctor_is_healthy_and_a_narrow_terminal_wraps_long_names(monkeypatch):
    findings = json.loads(call("doctor", "--json").stdout)
    assert findings["healthy"] and findings["games_per_second"] > 0
    from sparring.report.terminal import PlainConsole

    monkeypatch.setattr(PlainConsole, "is_terminal", True)
    monkeypatch.setenv("COLUMNS", "60")
    stdout = call("list", "recipes").stdout
    assert "…" not in stdout
    names = "".join(line.split("│")[1].strip() for line in stdout.splitlines() if "│" in line)
    assert "vpr/minesweeper-tiny-released" in names


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_the_run_and_prints_how_to_go_on(tmp_path, number):
    command = [
        sys.executable,
        "-c",
        "from sparring.cli import main; main()",
        "train",
        "kuhn-tiny",
        "steps=5000",
        "checkpoint.every=100000",
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [*command, "--run", str(tmp_path / "run")], stdout=subprocess.PIPE, text=True, env=environment
    )
    metrics = tmp_path / "run" / "metrics.jsonl"
    for _ in range(600):
        if metrics.is_file() and metrics.read_text().count("\n") > 2:
            break
        time.sleep(0.1)
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert f"sparring train --run {tmp_path / 'run'} --resume" in output
    assert list((tmp_path / "run" / "checkpoints").glob("step_*"))


def test_the_version_equals_that_of_package_and_citation():
    from pathlib import Path

    from sparring import __version__

    assert call("--version").stdout == f"sparring {__version__}\n"
    root = Path(__file__).parents[2]
    assert f'version = "{__version__}"' in (root / "pyproject.toml").read_text()
    assert yaml.safe_load((root / "CITATION.cff").read_text())["version"] == __version__
    assert "Apache License" in (root / "LICENSE").read_text()


@pytest.mark.parametrize("list_name", ["environments", "methods", "recipes", "suites", "credit", "losses"])
def test_a_piped_list_has_one_line_per_entry_with_full_names(list_name):
    rows = json.loads(call("list", list_name, "--json").stdout)
    lines = [line.split("\t") for line in call("list", list_name).stdout.splitlines()]
    assert lines == [[row["name"], row["kind"], row["summary"]] for row in rows] != [] and all(
        row["summary"] for row in rows
    )
