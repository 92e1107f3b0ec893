import json
import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from sparring import cli
from sparring.config import resolve
from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError, UnknownNameError
from sparring.core.rng import Stream
from sparring.engine.local import LocalEngine
from sparring.environments.catalogue import make_game
from sparring.league.seating import step_specs
from sparring.play.plans import base
from sparring.report.explanations import glossary
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round
from tests.play.plans.planned import play_by_plan
from tests.play.plays import make_specs

BASE = {
    "environments": [{"name": "tic_tac_toe", "illegal": {"rule": "random"}}],
    "steps": 4,
    "threads": 1,
    "model": {"hidden_size": 8, "layers": 1, "heads": 1, "context": 96},
}
TREE_PLAN = {"name": "tree", "branching": [2, 2]}
QUICK_OVERRIDES = [
    "steps=2",
    "rollout.games_per_step=16",
    "model.hidden_size=16",
    "model.layers=1",
    "threads=1",
    "evaluation.opponents=[]",
]


def play_step_and_calls(step=1, **changes):
    rollout = {"games_per_step": 16, "group_size": 4, **changes.pop("rollout", {})}
    config = resolve({**BASE, "rollout": rollout, **changes})
    engine = LocalEngine(config)
    calls, engine_play = [], engine.play
    engine.play = lambda specs, judging=None: calls.append(list(specs)) or engine_play(specs, judging)
    return play_round(
        config, engine, Methods.of(config, [game for game, _ in engine.environments]), RunState(step=step)
    ), calls


def test_without_a_plan_a_step_plays_all_games_in_one_call():
    outcome, calls = play_step_and_calls()
    config = resolve({**BASE, "rollout": {"games_per_step": 16, "group_size": 4}})
    engine = LocalEngine(config)
    matchmaker = bind("league.matchmakers", "mirror")
    specs = step_specs(
        1,
        games=engine.environments,
        rollout=config.rollout,
        matchmaker=matchmaker,
        members=(),
        root=engine.root,
        progress=0.25,
    )
    assert config.rollout.plan.name == "none"
    assert [[(spec.episode_id, spec.stream.key, spec.prefix) for spec in run_cli] for run_cli in calls] == [
        [(spec.episode_id, spec.stream.key, ()) for spec in specs]
    ]
    assert outcome.episodes == engine.play(specs).episodes
    assert not {"branches", "shared_turns"} & outcome.metrics.keys()


def test_metrics_of_a_plan_are_stored_and_documented():
    outcome, calls = play_step_and_calls(rollout={"plan": TREE_PLAN}, credit={"name": "spo_tree"})
    assert [len(run_cli) for run_cli in calls] == [8, 8]
    assert outcome.metrics["branches"] == 2.0 and 0.05 < outcome.metrics["shared_turns"] < 0.3
    assert {"branches", "shared_turns"} <= glossary().keys()
    assert len(outcome.episodes) == 16


def test_refilled_groups_use_the_plan():
    outcome, calls = play_step_and_calls(
        rollout={"plan": TREE_PLAN, "refills": 1, "max_turns": 2},
        selection={"name": "equal_groups", "policy": "drop"},
        credit={"name": "grpo"},
    )
    # truncated after two turns, every game is a draw, so all groups are dropped and played again
    assert ([len(run_cli) for run_cli in calls], len(outcome.episodes)) == ([8, 8, 8, 8], 32)
    assert outcome.metrics["branches"] == 2.0


def test_a_plan_works_with_bots_playouts_and_oracles():
    outcome, calls = play_step_and_calls(
        rollout={"plan": {"name": "branch", "threshold": 1.0}, "playouts": 1, "starts": 2},
        matchmaker={"name": "mixed", "past": 0.0, "bots": {"random": 1.0}},
        environments=[{**BASE["environments"][0], "oracle": {"name": "minimax"}}],
        rewards=[{"name": "playout_value"}, {"name": "regret"}],
        credit={"name": "branch_grpo"},
    )
    assert outcome.metrics["branches"] == 2.0
    assert all(spec.episode_id < 32 for run_cli in calls[:2] for spec in run_cli)
    for spec in calls[1]:
        assert spec.prefix and spec.trained.count(True) == 1
    for episode in outcome.episodes:
        trained = [turn for turn in episode.turns if episode.trained[turn.seat]]
        assert trained and all(turn.playout is not None and turn.verdict is not None for turn in trained)


@pytest.mark.parametrize(
    ("rollout", "message"),
    [
        ({"plan": TREE_PLAN, "group_size": 8}, "write rollout.group_size=4"),
        ({"plan": {"name": "branch"}, "group_size": 1}, "group_size=1 leaves no episodes to branch"),
        ({"plan": {"name": "branch", "initial": 9}, "group_size": 8}, "initial=9"),
        ({"plan": {"name": "branch", "initial": 2, "balance": 0.5}, "group_size": 4}, "leave one out"),
        (
            {
                "plan": {"name": "branch", "threshold": {"schedule": "linear", "start": 0.5, "end": 2.0}},
                "group_size": 8,
            },
            "threshold",
        ),
        ({"plan": {"name": "tree", "branching": "2 2"}, "group_size": 4}, "branching"),
    ],
)
def test_wrong_options_of_a_plan_are_refused_in_the_configuration(rollout, message):
    with pytest.raises(ConfigError, match=message):
        resolve({**BASE, "rollout": {"games_per_step": 16, **rollout}})


def test_unknown_plans_and_options_are_refused():
    with pytest.raises(UnknownNameError, match="Did you mean 'branch'"):
        resolve({**BASE, "rollout": {"plan": {"name": "brunch"}}})
    with pytest.raises(UnknownNameError, match="Did you mean 'threshold'"):
        resolve({**BASE, "rollout": {"group_size": 2, "plan": {"name": "branch", "treshold": 0.5}}})


def test_the_plan_of_the_documentation_works():
    page = (Path(__file__).parents[3] / "docs" / "rollout-plans.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", page, re.DOTALL)[1]
    namespace = {**vars(base), "Stream": Stream}
    exec("from __future__ import annotations\n" + code, namespace)
    game = make_game("tic_tac_toe")
    specs = make_specs(game, 8, name="random", group_size=4)
    last_turn = namespace["last_turn"]
    plan = lambda num_left, games, stream, progress: last_turn(num_left, games, stream)  # noqa: E731
    episodes, metrics, waves = play_by_plan(plan, specs, {"random": bind("players", "random")()}, group_size=4)
    assert ([len(wave) for wave in waves], metrics["branches"]) == ([2, 6], 3.0)
    assert {len(spec.prefix) + 1 for spec in waves[1]} == {len(episode.turns) for episode in (episodes[0], episodes[4])}


def run_cli(*arguments):
    result = CliRunner().invoke(cli.app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("recipe", ["arpo/tictactoe-tiny", "spo/tictactoe-tiny"])
def test_recipes_with_a_plan_train_and_dry_run_shows_it(recipe, tmp_path):
    assert yaml.safe_load(run_cli("train", recipe, "--dry-run"))["plan"]["plan"] != "none"
    run_cli("train", recipe, *QUICK_OVERRIDES, "--run", tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert all(0.0 <= line["shared_turns"] < 1.0 and "branches" in line for line in lines) and len(lines) == 2


def test_a_plan_can_be_added_to_any_recipe(tmp_path):
    overrides = [
        "rollout.group_size=8",
        "rollout.plan.name=tree",
        "rollout.plan.branching=[4,2]",
        "credit.name=spo_tree",
    ]
    run_cli("train", "kuhn-tiny", *QUICK_OVERRIDES, *overrides, "--run", tmp_path / "run")
    run_cli("train", tmp_path / "run" / "config.yaml", "--run", tmp_path / "again")
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == (tmp_path / "again" / "metrics.jsonl").read_bytes()
    assert "branching" in run_cli("explain", "tree") and "branch" in run_cli("list", "rollout.plans")
