"""A suite measures the answer of a run: its policy, its last weights, or a mixture of its members."""

import json

import pytest
import yaml
from typer.testing import CliRunner

from sparring.api.load import export_answer, load_answer, load_run
from sparring.api.policy_evaluation import exact_figures
from sparring.api.suite_evaluation import SuiteEvaluation
from sparring.api.suite_player import agent_player, run_player
from sparring.cli import app
from sparring.core.errors import ConfigError, UnknownNameError
from sparring.environments.catalogue import make_game
from sparring.measure.agent_spec import parse_agent
from tests.run_with_members import run_of

ROWS = [
    {
        "name": "kuhn",
        "game": "kuhn_poker",
        "role": "trained",
        "kind": "match",
        "opponent": {"name": "random"},
        "games_per_seat": 60,
    },
    {"name": "exact", "game": "kuhn_poker", "role": "trained", "kind": "exact"},
]


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    path = tmp_path_factory.mktemp("suite") / "small.yaml"
    path.write_text(yaml.safe_dump({"rows": ROWS}))
    return str(path)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return run_of(tmp_path_factory.mktemp("run") / "run", learner={"average": 0.9})[0]


def report(player, suite, folder, workers=1):
    folder.mkdir(exist_ok=True)
    return {row["name"]: row for row in SuiteEvaluation(suite, player, folder=folder).run(workers=workers)["rows"]}


def test_each_answer_of_a_run_has_separate_results(run, suite, tmp_path):
    game = make_game("kuhn_poker", options={"style": "brief"})
    config, engine, step = load_run(run, threads=1)
    reports = {}
    for answer in ("policy", "average", "last", "nash", "delta_uniform delta=0.99"):
        # all answers share one result file
        reports[answer] = report(run_player(run, None, None, answer=answer), suite, tmp_path)
        figures = exact_figures(game, load_answer(run, config, engine, step, answer), max_states=1000)
        assert reports[answer]["exact"]["figures"]["nash_conv"] == pytest.approx(figures["nash_conv/kuhn_poker"])
    assert reports["policy"] == reports["average"] and reports["policy"] == report(
        run_player(run, None, None), suite, tmp_path
    )
    values = {answer: row["exact"]["figures"]["nash_conv"] for answer, row in reports.items() if answer != "average"}
    assert len(set(values.values())) == 4


def test_a_mixture_with_all_weight_on_one_member_equals_that_member(run, suite, tmp_path):
    last_rows = report(run_player(run, None, None, answer="delta_uniform delta=0.99"), suite, tmp_path / "a")
    export_answer(run, tmp_path / "one", "delta_uniform delta=0.99")
    export_answer(run, tmp_path / "all", "nash")
    exported_rows = {
        name: report(agent_player(parse_agent(f"exported folder={tmp_path / name}")), suite, tmp_path / "b")
        for name in ("one", "all")
    }
    for row in ("kuhn", "exact"):
        key = "overall" if row == "kuhn" else "figures"
        assert exported_rows["one"][row][key] == (
            last_rows[row][key] if row == "kuhn" else pytest.approx(last_rows[row][key], abs=1e-6)
        )
    assert exported_rows["all"]["exact"] != exported_rows["one"]["exact"]
    # the same folder with other weights counts as a new player, so its stored games are not reused
    (tmp_path / "one").rename(tmp_path / "old")
    export_answer(run, tmp_path / "one", "policy")
    replaced_rows = report(agent_player(parse_agent(f"exported folder={tmp_path / 'one'}")), suite, tmp_path / "b")
    assert replaced_rows["exact"] != exported_rows["one"]["exact"]
    assert len(json.loads((tmp_path / "b" / "evaluation-small.json").read_text())["measured"]) == 6


@pytest.mark.slow
def test_the_number_of_workers_does_not_change_a_mixture(run, suite, tmp_path):
    player = run_player(run, None, None, answer="nash")
    assert report(player, suite, tmp_path / "a") == report(player, suite, tmp_path / "b", workers=2)


def test_the_answer_in_the_configuration_is_the_default(suite, tmp_path):
    path, _ = run_of(tmp_path / "run", league={"every": 1, "start": True, "plays": 6, "answer": "nash"})
    assert (
        run_player(path, None, None).about["answer"] == "nash"
        and "answer" not in run_player(path, None, None, answer="policy").about
    )
    outcome = CliRunner().invoke(app, ["evaluate", str(path), "--suite", suite, "--games", "2", "--workers", "1"])
    assert outcome.exit_code == 0 and "answer nash" in " ".join(outcome.output.split())
    assert (
        report(run_player(path, None, None), suite, tmp_path / "a")["exact"]["figures"]
        == report(run_player(path, None, None, answer="nash"), suite, tmp_path / "b")["exact"]["figures"]
    )


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (["--answer", "nahs"], UnknownNameError, "Did you mean 'nash'"),
        (["--answer", "nash", "--policy", "main"], ConfigError, "leave --policy and --agent out"),
    ],
)
def test_an_unknown_answer_is_refused(run, suite, words, error, message):
    outcome = CliRunner().invoke(app, ["evaluate", str(run), "--suite", suite, *words])
    assert isinstance(outcome.exception, error) and message in str(outcome.exception)
