"""`scale.lag`: step s is played with the weights of step s - lag, with any workers and after any interruption."""

import json
import shutil
import types
from contextlib import nullcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.config import resolve
from sparring.config.plugins.registry import load, names
from sparring.config.recipe import to_yaml
from sparring.core.errors import CheckpointError, ConfigError, MissingError, RunError
from sparring.engine.local import LocalEngine
from sparring.engine.logprob_check import LogprobCheck, logprob_metrics
from sparring.engine.run_processes import run_workers
from sparring.play.store import EpisodeStore
from sparring.run import checkpoint, pipeline
from sparring.run.config_checks import check_same
from sparring.run.events import read_lines
from sparring.run.folder import RunFolder
from sparring.run.loop import train
from sparring.run.pipeline import Prefetch
from sparring.run.state import RunState
from sparring.run.step import Methods
from tests.engine.fleet.simulated import simulated_workers
from tests.run.builders import SMALL_RUN, fingerprint

BASE = {
    **SMALL_RUN,
    "name": "lagging",
    "steps": 5,
    "rollout": {"games_per_step": 16, "group_size": 4},
    "matchmaker": {"name": "pfsp", "past": 0.5},
    "league": {"every": 1, "keep": 2},
    "losses": [{"name": "ppo_clip"}],
    "learner": {"average": 0.9},
}
PROCESSES = {"fleet": "processes", "workers": 2, "unit_games": 4}
ONE_PROCESS = {**PROCESSES, "workers": 1}
SIMULATED = {**PROCESSES, "workers": 3}  # these workers are simulated, see train_run
VARIANTS = {
    "league": {},
    "replay": {"replay": {"name": "r3"}},
    "refills": {
        "selection": {"name": "snr_filter"},
        "rollout": {**BASE["rollout"], "refills": 2, "starts": 6},
        "curriculum": {"name": "difficulty"},
    },
    "tree": {"rollout": {**BASE["rollout"], "plan": {"name": "tree", "branching": [2, 2]}}},
    "playouts": {
        "rollout": {**BASE["rollout"], "playouts": 2},
        "rewards": [{"name": "playout_value"}],
        "reorder_outcomes": True,
    },
    "oracle": {
        "environments": [{"name": "kuhn_poker", "oracle": {"name": "cfr", "iterations": 20}}],
        "rewards": [{"name": "best_action", "weight": 0.1}],
        "reorder_outcomes": True,
        "rollout": {**BASE["rollout"], "candidates": {"count": 2, "by": "oracle"}},
    },
}


def config_of(lag=0, scale=(), **changes):
    return resolve({**BASE, **changes, "scale": {"lag": lag, **dict(scale)}})


def train_run(path, config, resume=False):
    folder = RunFolder.open(path) if resume else RunFolder.create(path, to_yaml(config))
    engine = LocalEngine(config)
    is_simulated = config.scale.workers == SIMULATED["workers"]
    with folder, simulated_workers() if is_simulated else nullcontext(), run_workers(engine, path):
        train(config, engine, folder, resume=resume)
    return read_run_files(path)


def read_run_files(path):
    metrics, newest_files, records = fingerprint(path)
    return (
        {name: data for name, data in newest_files.items() if name.endswith(".safetensors")},
        records,
        metrics,
        json.loads(newest_files["state.json"]),
    )


def stored_episodes(path):
    return list(EpisodeStore(path / "episodes").episodes())


def learner_versions_by_step(path):
    versions_by_step = {}
    for step, episode in stored_episodes(path):
        learner_versions = {turn.weights_version for turn in episode.turns if turn.agent == "learner"}
        versions_by_step.setdefault(step, set()).update(learner_versions)
    return versions_by_step


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    path = tmp_path_factory.mktemp("lag") / "run"
    return path, train_run(path, config_of(2))


def test_each_step_is_played_with_the_weights_of_lag_steps_before(finished_run):
    path, _ = finished_run
    warmup_updates = 1
    assert learner_versions_by_step(path) == {step: {warmup_updates + max(0, step - 1 - 2)} for step in range(1, 6)}
    rows = read_lines(path / "metrics.jsonl")
    assert [row["lag"] for row in rows] == [0, 1, 2, 2, 2]


def test_opponents_are_the_snapshots_that_existed_when_the_step_was_opened(finished_run):
    path, _ = finished_run
    snapshots = {}
    for step, episode in stored_episodes(path):
        snapshots.setdefault(step, set()).update(player.step for player in episode.players if player.step is not None)
    assert snapshots[1] == snapshots[2] == snapshots[3] == set()  # steps 1 to 3 were opened before the first update
    assert snapshots[4] == {1} and snapshots[5] <= {1, 2} and snapshots[5]


@pytest.mark.always
@pytest.mark.slow
def test_lag_0_equals_a_run_without_lag(tmp_path):
    without_workers, with_workers = (
        train_run(tmp_path / "a", config_of()),
        train_run(tmp_path / "b", config_of(0, PROCESSES)),
    )
    assert without_workers == with_workers
    assert "open" not in without_workers[3]


@pytest.mark.always
@pytest.mark.parametrize("variant", VARIANTS)
def test_workers_change_no_byte(tmp_path, variant):
    changes = {**VARIANTS[variant], "steps": 4}
    one_process = train_run(tmp_path / "here", config_of(2, **changes))
    assert train_run(tmp_path / "workers", config_of(2, SIMULATED, **changes)) == one_process


@pytest.mark.parametrize(
    ("last_step", "scale"),
    [
        (1, {}),
        (3, {}),
        (1, SIMULATED),
        *(pytest.param(3, workers, marks=pytest.mark.slow) for workers in (ONE_PROCESS, PROCESSES)),
    ],
)
def test_a_resumed_run_plays_the_open_steps_again(tmp_path, finished_run, last_step, scale):
    path, expected = finished_run
    path_of_copy = tmp_path / "run"
    shutil.copytree(path, path_of_copy)
    for step in checkpoint.steps(path_of_copy):
        if step > last_step:
            shutil.rmtree(path_of_copy / "checkpoints" / f"step_{step:06d}")
    assert train_run(path_of_copy, config_of(2, scale), resume=True) == expected


def checkpoint_files(path):
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in sorted((path / "checkpoints").rglob("*"))
        if file.is_file()
    }


@pytest.mark.slow
def test_a_resumed_run_with_minibatches_writes_the_same_checkpoints(tmp_path):
    config = config_of(
        3,
        steps=9,
        learner={"average": 0.9, "minibatches": 4},
        warmup={"updates": 0},
        league={"every": 0},
        matchmaker={"name": "mirror"},
    )
    path, path_of_copy = tmp_path / "whole", tmp_path / "resumed"
    train_run(path, config)
    expected = checkpoint_files(path)
    shutil.copytree(path, path_of_copy)
    for step in checkpoint.steps(path_of_copy):
        if step > 2:
            shutil.rmtree(path_of_copy / "checkpoints" / f"step_{step:06d}")
    train_run(path_of_copy, config, resume=True)
    resumed_checkpoints = checkpoint_files(path_of_copy)
    assert [
        name for name in expected if resumed_checkpoints.get(name) != expected[name]
    ] == [] and resumed_checkpoints.keys() == expected.keys()


def test_a_checkpoint_keeps_the_weights_of_open_steps_and_no_others(finished_run):
    path, _ = finished_run
    names = {file.name for file in (path / "checkpoints" / "step_000003").glob("open-*")}
    assert {name for name in names if name.startswith("open-learner")} == {
        "open-learner-v000002.safetensors",
        "open-learner-v000003.safetensors",
    }
    state = json.loads((path / "checkpoints" / "step_000003" / "state.json").read_bytes())
    assert {step: inputs["learnt"] for step, inputs in state["open"].items()} == {"3": 1, "4": 2}
    assert not list((path / "checkpoints" / "step_000005").glob("open-*"))
    assert not (path / "weights").exists()


def test_missing_weights_of_a_checkpoint_are_named(tmp_path, finished_run):
    path, _ = finished_run
    state = RunState.restored(
        path / "checkpoints" / "step_000003",
        3,
        {"open": {"3": {"learnt": 1, "members": [], "curriculum": {}, "payoffs": {}, "weights": [["learner", 77]]}}},
    )
    config = config_of(2)
    engine = LocalEngine(config)
    with run_workers(engine, tmp_path), pytest.raises(CheckpointError, match="learner after 77 updates"):
        Prefetch(config, engine, Methods.of(config)).episodes_of(state)
    state_without_weights = RunState(step=3, owners={"open": {"3": {"learnt": "x"}}})
    with run_workers(engine, tmp_path), pytest.raises(CheckpointError, match="step 3, which was unfinished"):
        Prefetch(config, engine, Methods.of(config)).episodes_of(state_without_weights)


def test_a_lag_without_a_run_folder_is_refused():
    config = config_of(1)
    with pytest.raises(ConfigError, match=r"scale\.lag=1: this engine keeps no older weights"):
        Prefetch(config, LocalEngine(config), Methods.of(config)).episodes_of(RunState())


def test_a_run_may_resume_with_other_workers_but_not_another_lag(finished_run):
    path, _ = finished_run
    folder = RunFolder.open(path)
    check_same(folder, config_of(2, PROCESSES).model_dump(mode="json"))
    with pytest.raises(RunError, match=r"scale\.lag differs \(2, now 1\)"):
        check_same(folder, config_of(1).model_dump(mode="json"))


CORRECTING_LOSSES = {
    *("aepo_clip", "cispo", "clip_cov", "etr", "gmpo", "gspo", "hapo_clip", "kl_cov", "log_ratio_clip"),
    *("magnetic_mirror_descent", "masked_is", "neurd", "ppo_clip", "sapo", "truncated_is"),
}


def test_losses_declare_whether_they_correct_staleness():
    assert {name for name in names("losses") if load("losses", name).declarations.CORRECTS} == CORRECTING_LOSSES


@pytest.mark.parametrize("name", ["policy_gradient", "self_imitation", "dpo"])
def test_an_on_policy_loss_is_refused_with_what_to_write(name):
    config_of(0, losses=[{"name": name}])
    with pytest.raises(MissingError, match=r"scale\.lag=1.*add to losses the line - \{name: truncated_is\}"):
        config_of(1, losses=[{"name": name}])
    config_of(1, losses=[{"name": name}, {"name": "truncated_is"}])
    config_of(1, losses=[{"name": name}, {"name": "masked_is"}])


def test_only_trained_policies_need_a_loss_that_corrects_staleness():
    two_policies = {
        "environments": [{"name": "signalling"}],
        "policies": {"a": {}, "b": {"losses": [{"name": "policy_gradient"}]}},
        "roles": {"sender": "a", "receiver": "b"},
        "matchmaker": {"name": "mirror"},
        "league": {},
    }
    with pytest.raises(MissingError, match=r"policies\.b: scale\.lag=1"):
        config_of(1, **two_policies)
    config_of(1, **{**two_policies, "policies": {"a": {}, "b": {"frozen": True}}})


def test_two_policies_have_the_same_lag_on_workers(tmp_path):
    two_policies = {
        "environments": [{"name": "signalling", "illegal": {"rule": "random"}}],
        "policies": {"a": {}, "b": {"model": {"hidden_size": 12, "layers": 1, "heads": 1}}},
        "roles": {"sender": "a", "receiver": "b"},
        "matchmaker": {"name": "mirror"},
        "league": {},
        "credit": {"name": "mars"},
        "steps": 4,
    }
    one_process = train_run(tmp_path / "here", config_of(2, **two_policies))
    assert train_run(tmp_path / "workers", config_of(2, SIMULATED, **two_policies)) == one_process
    line = read_lines(tmp_path / "here" / "metrics.jsonl")[-1]
    assert all(line[f"{name}/logprob_difference_max"] < 1e-4 for name in "ab")


def test_log_probability_differences_are_of_the_playing_weights(finished_run, tmp_path):
    rows = read_lines(finished_run[0] / "metrics.jsonl")
    assert all(0 <= row["logprob_difference_max"] < 1e-4 for row in rows)
    train_run(tmp_path / "fast", config_of(2, learner={"learning_rate": 0.3}))
    last_metrics = read_lines(tmp_path / "fast" / "metrics.jsonl")[-1]
    assert last_metrics["ratio_p99"] > 1.5 and last_metrics["logprob_difference_max"] < 1e-4


def test_the_mean_is_over_tokens_and_by_policy():
    checks = [LogprobCheck("main", 1, 1.0, 1.0), LogprobCheck("main", 3, 1.0, 0.5), LogprobCheck("other", 1, 9.0, 9.0)]
    assert logprob_metrics(checks, "main") == {"logprob_difference_max": 1.0, "logprob_difference_mean": 0.5}
    assert logprob_metrics(checks, "nobody") == {}


@given(lag=st.integers(0, 6), steps=st.integers(1, 12), restarts=st.sets(st.integers(0, 11)))
@settings(max_examples=60, deadline=None)
def test_step_s_is_opened_after_step_s_minus_lag(lag, steps, restarts):
    pins = []
    engine = types.SimpleNamespace(
        members=(),
        pin=lambda keys=None: keys or pins.append(len(pins)) or (("learner", len(pins)),),
        release=lambda pinned: None,
    )
    config = types.SimpleNamespace(scale=types.SimpleNamespace(lag=lag), steps=steps)

    def fake_request(config, engine, methods, inputs):
        return types.SimpleNamespace(inputs=inputs)
        yield

    original_request, pipeline.request_plays = pipeline.request_plays, fake_request
    try:
        prefetch, state = Prefetch(config, engine, None), RunState()
        for step in range(steps):
            if step in restarts:
                prefetch = Prefetch(config, engine, None)
            step_inputs = prefetch.episodes_of(state).inputs
            assert (step_inputs.step, step_inputs.num_learned_steps) == (step, max(0, step - lag))
            state = state.after(**json.loads(json.dumps(prefetch.state())))
            assert len(prefetch.state().get("open", {})) == min(lag, steps - step - 1)
    finally:
        pipeline.request_plays = original_request
