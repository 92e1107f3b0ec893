"""The league of a run: its snapshots and their results, damaged members, and the documented algorithms."""

import json
import logging
import re
import shlex
import shutil
from pathlib import Path

import pytest
import safetensors.torch

import sparring
from sparring.config import resolve
from sparring.config.recipe import apply_overrides, load_recipe
from sparring.core.errors import CheckpointError, ConfigError, ModelError, PluginError
from sparring.core.files import file_digest
from sparring.core.records import LEARNER, snapshot
from sparring.engine.local import LocalEngine
from sparring.league.payoffs import Payoffs, Results, RowKey
from sparring.play.store import EpisodeStore
from sparring.run import checkpoint
from sparring.run.league_step import league_step
from sparring.run.payoff_plays import check_league
from sparring.run.state import RunState
from sparring.run.step import Methods
from studies.self_play.algorithms import ALGORITHMS
from tests.run.builders import train_in
from tests.run_with_members import BASE


def config_with_league(**league):
    return resolve(
        {
            "environments": [{"name": "kuhn_poker"}],
            "steps": 9,
            "threads": 1,
            "model": {"hidden_size": 8, "layers": 1, "heads": 1},
            "league": {"every": 1, **league},
        }
    )


def play_league_steps(config, steps):
    engine, methods, state = LocalEngine(config), Methods.of(config), RunState()
    for step in steps:
        rows = {**state.payoffs.rows, RowKey("kuhn_poker", 0, LEARNER, snapshot(step)): Results(games=1, wins=1)}
        state = RunState(step=step).with_owners(payoffs=Payoffs(rows).to_json(), credit={"x": 1.0})
        state = league_step(config, engine, methods, state)
    return engine, state


@pytest.mark.parametrize(("keeping", "members"), [("spread", (1, 4)), ("newest", (3, 4))])
def test_the_keeping_rule_chooses_members_and_other_results_are_dropped(keeping, members):
    engine, state = play_league_steps(config_with_league(keep=2, keeping={"name": keeping}), (1, 2, 3, 4))
    assert engine.members == tuple(map(snapshot, members))
    assert {row.opponent for row in state.payoffs.rows} == set(engine.members)
    assert state.step == 4 and state.json("credit") == {"x": 1.0}


# Files of members that are missing, truncated or from another model when a run resumes.
CONFIG = {
    "steps": 4,
    "threads": 1,
    "environments": [{"name": "kuhn_poker", "illegal": {"rule": "random"}}],
    "rollout": {"games_per_step": 8},
    "model": {"hidden_size": 8, "layers": 1, "heads": 1},
    "matchmaker": {"name": "by_tag", "past": {"any": 0.5}},
    "league": {"every": 1, "keep": 4, "start": True, "learners": {"main": {}, "counter": {}}},
    "credit": {"name": "rae"},
    "evaluation": {"every": 9, "exact": False},
    "checkpoint": {"every": 1, "keep": 2},
}
# a member of both checkpoints, and one of only the newest
MEMBER_OF_ALL_CHECKPOINTS, MEMBER_OF_NEWEST_CHECKPOINT = (
    "past-counter-000001.safetensors",
    "past-000004.safetensors",
)


def train_run(path, **options):
    return train_in(path, resolve(CONFIG), **options)


@pytest.fixture(scope="module")
def trained_run(tmp_path_factory):
    path = tmp_path_factory.mktemp("trained") / "run"
    train_run(path)
    return path


@pytest.fixture
def folder(trained_run, tmp_path):
    return shutil.copytree(trained_run, tmp_path / "run")


def read_files(path):
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def newest_checkpoint(path):
    return path / "checkpoints" / "step_000004"


def files_in_checkpoints(path, name):
    return [folder / name for folder in (path / "checkpoints").iterdir() if (folder / name).exists()]


def replace_file(path, data):
    path.unlink()  # unlinked first, as it is a hard link to the previous checkpoint
    path.write_bytes(data)
    manifest = path.parent / checkpoint.MANIFEST
    content = json.loads(manifest.read_text())
    content["files"][path.name] = [len(data), file_digest(path)]
    manifest.write_text(json.dumps(content))


@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_a_damaged_member_of_the_newest_checkpoint_costs_one_step(trained_run, folder, damage):
    path = newest_checkpoint(folder) / MEMBER_OF_NEWEST_CHECKPOINT
    data = path.read_bytes()
    path.unlink()
    if damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    newest = checkpoint.load_latest(folder)
    assert newest.step == 3 and MEMBER_OF_NEWEST_CHECKPOINT in newest.notes[0]
    notes = []
    train_run(folder, resume=True, watch=lambda report: notes.extend(report.notes))
    assert "is damaged" in notes[0] and read_files(newest_checkpoint(folder)) == read_files(
        newest_checkpoint(trained_run)
    )
    assert (folder / "metrics.jsonl").read_bytes() == (trained_run / "metrics.jsonl").read_bytes()


@pytest.mark.parametrize(("damage", "message"), [("gone", "is missing"), ("cut", "has changed")])
def test_a_member_damaged_in_all_checkpoints_is_refused_by_name(folder, damage, message):
    for path in files_in_checkpoints(folder, MEMBER_OF_ALL_CHECKPOINTS):
        data = path.read_bytes()
        path.unlink()
        if damage == "cut":
            path.write_bytes(data[: len(data) // 2])
    files_before = read_files(folder)
    with pytest.raises(CheckpointError, match=f"step_000004 is damaged .{MEMBER_OF_ALL_CHECKPOINTS} {message}"):
        train_run(folder, resume=True)
    assert read_files(folder) == files_before


def test_a_member_with_another_shape_is_refused_by_name(folder):
    path = newest_checkpoint(folder) / MEMBER_OF_ALL_CHECKPOINTS
    tensors = safetensors.torch.load_file(path)
    name = next(key for key, value in tensors.items() if value.ndim == 2)
    replace_file(path, safetensors.torch.save({**tensors, name: tensors[name][:-1].clone()}))
    files_before = read_files(folder)
    with pytest.raises(
        ModelError,
        match=f"member past-counter-000001 .*{MEMBER_OF_ALL_CHECKPOINTS}: These weights are of another model: .*{name}",
    ):
        train_run(folder, resume=True)
    assert read_files(folder) == files_before


def test_a_member_that_is_no_weight_file_is_refused_by_name(folder):
    replace_file(newest_checkpoint(folder) / MEMBER_OF_ALL_CHECKPOINTS, b"no weights")
    files_before = read_files(folder)
    with pytest.raises(
        CheckpointError, match=f"member past-counter-000001 .*{MEMBER_OF_ALL_CHECKPOINTS}: Error while deserializing"
    ):
        train_run(folder, resume=True)
    assert read_files(folder) == files_before


def test_a_missing_member_is_refused_by_name(folder):
    record = newest_checkpoint(folder) / "engine.json"
    content = json.loads(record.read_text())
    content["policies"]["counter"]["members"]["past-counter-000077"] = 77
    replace_file(record, json.dumps(content).encode())
    with pytest.raises(
        CheckpointError, match=r"member past-counter-000077 .*past-counter-000077.safetensors: No such file"
    ):
        train_run(folder, resume=True)


# Every row of the table of algorithms in docs/populations.md with options or a recipe starts as a run.
PAGE = Path(__file__).parents[2] / "docs" / "populations.md"
SECTION = PAGE.read_text().split("## Every algorithm of self-play")[1].split("\n## ")[0]
TABLE_ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")] for line in SECTION.splitlines() if line.startswith("| ")
][1:]
OPTIONS_BY_ALGORITHM = {name: how.strip("`") for name, how, _ in TABLE_ROWS if how != "no"}
COMMON_OPTIONS = re.search(r"on top of `([^`]+)`", SECTION)[1]
SMALL_OVERRIDES = (
    "threads=1 rollout.games_per_step=8 warmup.updates=1 warmup.games=4 evaluation.every=9 evaluation.exact=false store.every=1 "
    "model.hidden_size=8 model.layers=1 model.heads=1 learner.minibatches=1"
)


def config_of(options_text, steps=2):
    arguments = shlex.split(options_text)
    recipe, options = (
        (arguments[0], arguments[1:])
        if "=" not in arguments[0]
        else ("kuhn-tiny", [*shlex.split(COMMON_OPTIONS), *arguments])
    )
    data = apply_overrides(load_recipe(recipe), [*options, f"steps={steps}", *shlex.split(SMALL_OVERRIDES)])
    league = data.get("league", {})
    if league.get("every"):
        league["every"] = 1
        league["plays"] = min(league.get("plays", 0), 12)
    return resolve(data)


@pytest.mark.parametrize("name", OPTIONS_BY_ALGORITHM)
def test_every_documented_algorithm_can_be_trained(tmp_path, name):
    config = config_of(OPTIONS_BY_ALGORITHM[name])
    assert train_in(tmp_path / "run", config).finished
    episodes = [episode for _, episode in EpisodeStore(tmp_path / "run" / "episodes").episodes()]
    kinds = {player.kind for episode in episodes for player in episode.players}
    expected = {"learner", "snapshot"} if config.league.every else {"learner"}
    assert kinds == expected
    assert all(any(episode.trained) for episode in episodes)


@pytest.mark.parametrize(("earned", "expected_steps"), [(9, [0, 0, 0]), (-9, [0, 1, 2])])
def test_the_gate_s_opponent_is_the_best_policy_so_far(tmp_path, earned, expected_steps):
    config = config_of(f"league/gate-tiny league.schedule.earned={earned} league.schedule.least=1", steps=3)
    train_in(tmp_path / "run", config)
    opponents = {step: set() for step in (1, 2, 3)}
    for step, episode in EpisodeStore(tmp_path / "run" / "episodes").episodes():
        assert sum(episode.trained) == 1
        opponents[step] |= {
            player.step for player, is_trained in zip(episode.players, episode.trained, strict=True) if not is_trained
        }
    assert [opponents[step] for step in (1, 2, 3)] == [{step} for step in expected_steps]


def test_the_table_has_every_algorithm_once_with_missing_parts():
    names = [name for name, *_ in TABLE_ROWS]
    assert len(names) == len(set(names)) and len(TABLE_ROWS) >= 30
    assert all(missing for _, options_text, missing in TABLE_ROWS if options_text == "no")
    assert {"NFSP", "XDO", "AlphaStar's league", "AlphaGo Zero's gate", "uniform past", "double oracle"} <= {*names} & {
        *ALGORITHMS
    }


# A league that cannot work is refused before a run starts.
THREE_SEATS = [{"name": "kuhn_poker", "options": {"players": 3}}]


def check_league_of_config(**changes):
    config = resolve({**BASE, **changes})
    check_league(config, LocalEngine(config).environments)


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"league": {**BASE["league"], "answer": "nash"}}, "league.answer"),
        ({"matchmaker": {"name": "meta_strategy"}}, "matchmaker.solver"),
        ({"matchmaker": {"name": "meta_strategy", "solver": {"name": "pfsp"}}}, "matchmaker.solver"),
    ],
)
def test_a_solver_for_two_teams_is_refused_before_any_file(tmp_path, changes, where):
    with pytest.raises(
        ConfigError, match=f"{where}: the meta-solver .* is for two teams, and 'kuhn_poker' has 3; write"
    ):
        sparring.train({**BASE, "environments": THREE_SEATS, **changes}, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    check_league_of_config(**changes)  # two teams


def test_a_held_out_environment_may_have_more_teams():
    check_league_of_config(
        environments=[
            {"name": "kuhn_poker"},
            {"name": "kuhn_poker", "label": "three", "weight": 0, "options": {"players": 3}},
        ],
        league={**BASE["league"], "answer": "nash"},
    )


SIDES_APART = {"name": "meta_strategy", "solver": "uniform", "sides": "apart"}
LEARNERS = {"main": {}, "exploiter": {"matchmaker": SIDES_APART}}


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"matchmaker": SIDES_APART}, "matchmaker.sides"),
        (
            {"league": {**BASE["league"], "learners": LEARNERS}},
            "league.learners.exploiter.matchmaker.sides",
        ),
    ],
)
def test_sides_apart_are_refused_without_two_sides(tmp_path, changes, where):
    message = f"{where}: apart is for two sides, and 'kuhn_poker' has 3; write sides: together"
    with pytest.raises(ConfigError, match=message):
        sparring.train({**BASE, "environments": THREE_SEATS, **changes}, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(ConfigError, match="'sudoku' has 1"):
        check_league_of_config(environments=[{"name": "sudoku"}], **changes)
    check_league_of_config(**changes)  # two seats
    check_league_of_config(environments=[{"name": "team_matrix"}], **changes)  # two teams
    check_league_of_config(environments=[{"name": "signalling"}], **changes)  # one team of two seats


def test_an_answer_cannot_be_measured_in_three_sides():
    environments = [{"name": "kuhn_poker"}, {**THREE_SEATS[0], "label": "three", "weight": 0}]
    check_league_of_config(environments=environments, matchmaker=SIDES_APART)
    league = {**BASE["league"], "answer": "uniform"}
    with pytest.raises(ConfigError, match=r"'three' \(held out, and measured\) has 3"):
        check_league_of_config(environments=environments, matchmaker=SIDES_APART, league=league)
    check_league_of_config(environments=environments, league=league)


@pytest.mark.parametrize(
    ("solver", "plays", "has_warning"), [("nash", 0, True), ("nash", 5, False), ("uniform", 0, False)]
)
def test_a_warning_names_a_solver_whose_members_never_play(caplog, solver, plays, has_warning):
    with caplog.at_level(logging.WARNING):
        check_league_of_config(
            matchmaker={"name": "meta_strategy", "solver": solver}, league={**BASE["league"], "plays": plays}
        )
    assert ("matchmaker.solver: members never play each other" in caplog.text) == has_warning


@pytest.mark.parametrize(
    "weights", ["[0.5] * n", "[-1.0, 2.0] + [0.0] * (n - 2)", "[float('nan')] * n", "[1.0] * (n + 1)"]
)
def test_an_invalid_distribution_of_a_solver_loses_no_step(tmp_path, monkeypatch, weights):
    (tmp_path / "wrong_solver.py").write_text(
        "import numpy as np\nfrom sparring.league.meta_solvers.base import MetaStrategy\n\nSLOT = 'league.meta_solvers'\n\n\n"
        f"def wrong_solver(game):\n    n = len(game.payoffs[0])\n    if n < 3:\n        return MetaStrategy(sides=(np.eye(n)[0],) * 2)\n"
        f"    return MetaStrategy(sides=(np.array({weights}),) * 2)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "wrong_solver", raising=False)
    league = {"every": 1, "start": True, "answer": "wrong_solver.wrong_solver"}
    config = {**BASE, "league": league, "evaluation": {"exact": False, "every": 1}, "checkpoint": {"every": 1}}
    with pytest.raises(PluginError, match=r"wrong_solver.*(sum to 1|weight per member).*step 2 of 2.*step 1"):
        sparring.train(config, run=tmp_path / "run")
    saved_run = sparring.load_run(tmp_path / "run")
    assert saved_run.step == 1 and len(saved_run.answer("uniform").members) == 2
