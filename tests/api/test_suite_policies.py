"""A suite measures a run of several policies: each in its roles, or one of them in every seat."""

import json

import pytest
import yaml
from typer.testing import CliRunner

from sparring.api.load import load_run
from sparring.api.policy_evaluation import exact_figures
from sparring.api.suite_evaluation import SuiteEvaluation
from sparring.api.suite_player import run_player
from sparring.cli import app
from sparring.config import resolve
from sparring.config.recipe import to_yaml
from sparring.core.errors import UnknownNameError
from sparring.core.records import PUBLISHED
from sparring.engine.local import LocalEngine
from sparring.environments.catalogue import make_game
from sparring.run import checkpoint
from sparring.run.folder import RunFolder
from sparring.run.warmup import warm_up
from tests.api.builders import checkpoint_writer

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
    {
        "name": "leduc",
        "game": "leduc_poker",
        "role": "held_out",
        "kind": "match",
        "opponent": {"name": "random"},
        "games_per_seat": 10,
    },
    {"name": "signals", "game": "signalling", "role": "held_out", "kind": "coplay", "games_per_seat": 10},
]


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    path = tmp_path_factory.mktemp("suite") / "small.yaml"
    path.write_text(yaml.safe_dump({"rows": ROWS}))
    return str(path)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    model = {"hidden_size": 16, "layers": 1, "heads": 1}
    config = resolve(
        {
            "environments": [{"name": "kuhn_poker"}], "threads": 1, "warmup": {"updates": 10, "games": 64, "learning_rate": 0.01},
            "policies": {"leader": {"model": model}, "helper": {"model": {**model, "hidden_size": 32}, "rollout": {"temperature": 0.8}}},
            "roles": {"first": "leader", "second": "helper"},
        }
    )  # fmt: skip
    path = tmp_path_factory.mktemp("run") / "run"
    with RunFolder.create(path, to_yaml(config)):
        engine = LocalEngine(config)
        warm_up(config, engine)
        checkpoint.save(path, 1, checkpoint_writer(engine), keep=2)
    return path


def report(run, suite, folder, policy=None, workers=1, temperature=None):
    folder.mkdir(exist_ok=True)
    return {
        row["name"]: row
        for row in SuiteEvaluation(suite, run_player(run, None, temperature, policy), folder=folder).run(
            workers=workers
        )["rows"]
    }


def test_each_policy_plays_its_roles_and_a_named_policy_plays_all_roles(run, suite, tmp_path):
    team = report(run, suite, tmp_path / "team")
    single_policy_rows = {name: report(run, suite, tmp_path / name, name) for name in ("leader", "helper")}
    for seat, name in enumerate(("leader", "helper")):
        assert team["kuhn"]["seats"][seat] == single_policy_rows[name]["kuhn"]["seats"][seat]
        assert team["kuhn"]["seats"][1 - seat] != single_policy_rows[name]["kuhn"]["seats"][1 - seat]
    engine = load_run(run, threads=1)[1]
    game = make_game("kuhn_poker", options={"style": "brief"})
    for rows, player in ((team, PUBLISHED), (single_policy_rows["helper"], PUBLISHED.for_policy("helper"))):
        figures = exact_figures(game, engine.agent(player), max_states=1000)
        assert rows["exact"]["figures"]["nash_conv"] == pytest.approx(figures["nash_conv/kuhn_poker"])
    assert team["exact"]["figures"]["nash_conv"] != single_policy_rows["helper"]["exact"]["figures"]["nash_conv"]


def test_a_game_without_the_run_s_roles_has_a_note_and_needs_one_policy(run, suite, tmp_path):
    team_rows, helper_rows = report(run, suite, tmp_path / "team"), report(run, suite, tmp_path / "one", "helper")
    assert team_rows["leduc"]["measured"]  # its roles have the names of Kuhn poker's
    assert not team_rows["signals"]["measured"] and helper_rows["signals"]["measured"]
    assert "role 'sender' of 'signalling' has no policy" in str(
        team_rows["signals"]["notes"]
    ) and "--policy leader" in str(team_rows["signals"]["notes"])


@pytest.mark.slow
def test_results_of_policies_are_stored_apart_and_do_not_depend_on_workers(run, suite, tmp_path):
    first_rows, second_rows = report(run, suite, tmp_path / "a"), report(run, suite, tmp_path / "b", workers=2)
    assert first_rows == second_rows == report(run, suite, tmp_path / "a")
    helper = report(run, suite, tmp_path / "a", "helper")  # in the same file
    assert helper["kuhn"] != first_rows["kuhn"] and report(run, suite, tmp_path / "a") == first_rows


def test_each_policy_has_its_temperature_unless_one_is_given(run, suite, tmp_path):
    assert report(run, suite, tmp_path / "a") != report(run, suite, tmp_path / "b", temperature=0.8)
    assert (
        report(run, suite, tmp_path / "c", "helper")["kuhn"]
        == report(run, suite, tmp_path / "d", "helper", temperature=0.8)["kuhn"]
    )


@pytest.mark.slow
def test_the_command_takes_a_policy_with_and_without_a_suite(run, suite, tmp_path):
    with pytest.raises(UnknownNameError, match="helpr"):
        run_player(run, None, None, "helpr")
    figures = {}
    for name in (None, "leader", "helper"):
        options = [] if name is None else ["--policy", name]
        outcome = CliRunner().invoke(
            app, ["evaluate", str(run), "--games", "10", "--json", "--oracle", "none", *options]
        )
        assert outcome.exit_code == 0, outcome.output
        figures[name] = json.loads(outcome.stdout)["figures"]["nash_conv/kuhn_poker"]
    assert len({*figures.values()}) == 3
    outcome = CliRunner().invoke(
        app,
        [
            "evaluate",
            str(run),
            "--suite",
            suite,
            "--json",
            "--out",
            str(tmp_path),
            "--games",
            "2",
            "--policy",
            "helper",
        ],
    )
    assert outcome.exit_code == 0 and json.loads(outcome.stdout)["player"]["policy"] == "helper"
    for arguments in (["--policy", "helpr"], ["--policy", "helper", "--league"]):
        outcome = CliRunner().invoke(app, ["evaluate", str(run), "--games", "2", *arguments])
        assert outcome.exit_code != 0 and isinstance(outcome.exception, Exception)
