"""Interrupting and resuming changes no byte of a run, for every estimator, loss, opponent and selection."""

import json
import shutil
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

import sparring
from sparring.cli import app
from sparring.config import resolve
from sparring.config.plugins import registry
from sparring.core.errors import CheckpointError
from sparring.core.process import GracefulStop
from sparring.engine.local import LocalEngine
from sparring.run import checkpoint
from sparring.run.events import read_lines
from sparring.run.folder import RunFolder
from sparring.run.loop import train
from sparring.run.state import FILE_STATES, RunState
from sparring.run.step import Methods, play_round
from tests.estimators import played_for, required_rollout
from tests.run.builders import fingerprint, train_in

BASE_CONFIG = {
    "steps": 4,
    "threads": 1,
    "environments": [{"name": "kuhn_poker", "illegal": {"penalty": 0.5}}],
    "rollout": {"games_per_step": 8, "group_size": 2},
    "model": {"hidden_size": 8, "layers": 1, "heads": 1},
    "evaluation": {"every": 2, "exact": False},
    "store": {"every": 1},
}
PRESETS = {name: (None, *registry.load("credit", name).presets) for name in registry.names("credit")}
ESTIMATORS = [{"name": name, "preset": preset} for name, presets in PRESETS.items() for preset in presets]
# illegal replies are replaced by random actions, so episodes differ from the first step
RANDOM_ILLEGAL = {"environments": [{"name": "kuhn_poker", "illegal": {"rule": "random"}}]}
OTHER_RUNS = {
    "all losses": {
        "credit": {"name": "gae"},
        "losses": [{"name": name, "weight": 0.5} for name in registry.names("losses")],
    },
    "schedules": {
        "learner": {"learning_rate": {"schedule": "linear", "start": 0.01, "end": 0.0}, "epochs": 2, "minibatches": 2}
    },
    "truncated sampling": {
        "rollout": {"games_per_step": 8, "top_p": 0.7, "top_k": 5, "temperature": 0.8, "in_flight": 3}
    },
    "fixed starts": {"rollout": {"games_per_step": 8, "group_size": 2, "starts": 3, "max_turns": 2}},
    "refills": {
        "selection": {"name": "equal_groups", "policy": "drop"},
        "rollout": {"games_per_step": 8, "group_size": 2, "refills": 2},
    },
    "replay r3": {
        **RANDOM_ILLEGAL,
        "replay": {"name": "r3", "number": 2},
        "matchmaker": {"name": "mixed", "past": 0.0, "bots": {"random": 1.0}},
        "rollout": {"games_per_step": 8, "group_size": 1},
    },
    "replay ssb": {
        "replay": {"name": "ssb", "max_age": 2},
        "selection": {"name": "equal_groups", "policy": "drop"},
        "credit": {"name": "grpo"},
    },
    "replay prioritised": {**RANDOM_ILLEGAL, "replay": {"name": "prioritised_replay", "share": 0.5, "capacity": 12}},
    "reward model": {
        **RANDOM_ILLEGAL,
        "credit": {"name": "oprl", "beta": 0.5},
        "process": {"learning_rate": {"schedule": "linear", "start": 0.02, "end": 0.0}, "updates": 2, "pairs": "all"},
        "warmup": {"updates": 1, "games": 4},
    },
    "a reference after a warm-up": {
        "losses": [{"name": "ppo_clip"}, {"name": "kl_penalty", "weight": 0.5}],
        "warmup": {"updates": 2, "games": 4},
    },
    "a reference that credit reads, an average and a warm-up": {
        **RANDOM_ILLEGAL,
        "credit": {"name": "oprl", "preset": "policy"},
        "learner": {"average": 0.9},
        "warmup": {"updates": 2, "games": 4},
    },
    "several policies": {
        **RANDOM_ILLEGAL,
        "policies": {
            "leader": {"credit": {"name": "rae"}, "learner": {"average": 0.9}},
            "main": {
                "credit": {"name": "gae"},
                "losses": [{"name": "ppo_clip"}, {"name": "value_loss"}],
                "model": {"hidden_size": 16},
            },
        },
        "roles": {"first": "leader", "second": "main"},
        "league": {"every": 1, "keep": 2},
        "matchmaker": {"name": "pfsp", "past": 0.5},
        "warmup": {"updates": 1, "games": 4},
    },
    "a frozen policy": {
        **RANDOM_ILLEGAL,
        "policies": {"leader": {}, "helper": {"frozen": True}},
        "roles": {"first": "leader", "second": "helper"},
        "replay": {"name": "prioritised_replay", "share": 0.5, "capacity": 12},
    },
    "tree of games": {
        **RANDOM_ILLEGAL,
        "credit": {"name": "spo_tree"},
        "rollout": {
            "games_per_step": 8,
            "group_size": 4,
            "in_flight": 3,
            "plan": {"name": "tree", "branching": [2, 2]},
        },
    },
    "branches, fixed starts, refills and replay": {
        **RANDOM_ILLEGAL,
        "credit": {"name": "branch_grpo"},
        "replay": {"name": "prioritised_replay", "share": 0.5, "capacity": 12},
        "selection": {"name": "equal_groups", "policy": "drop"},
        "rollout": {
            "games_per_step": 8,
            "group_size": 4,
            "starts": 3,
            "refills": 1,
            "playouts": 1,
            "plan": {"name": "branch", "preset": "aepo"},
        },
    },
    "knowledge": {
        "environments": [{"name": "rps_spock_lizard", "illegal": {"rule": "random", "penalty": 0.5}}],
        "rollout": {"games_per_step": 16, "candidates": {"count": 3, "commit": "random"}},
        "knowledge": {"name": "latent_space", "every": 2, "iterations": 2, "cfr_steps": 20},
        "credit": {"name": "candidate_value"},
        "losses": [{"name": "turn_dpo", "preset": "lspo"}],
        "warmup": {"updates": 5, "games": 16, "player": {"name": "biased", "weights": {"spock": 0.01, "lizard": 0.01}}},
    },
    "choosing among candidates": {
        "environments": [
            {"name": "choose", "options": {"environment": {"name": "kuhn_poker"}, "proposals": {"pass": 2, "bet": 1}}}
        ],
        "warmup": {"updates": 2, "games": 8, "player": {"name": "biased", "weights": {"pass": 3}}},
    },
    "a model that proposes": {
        "environments": [
            {
                "name": "choose",
                "options": {"environment": {"name": "kuhn_poker"}, "proposer": "seat", "count": 2, "diverse": False},
            }
        ],
        "policies": {"chooser": {}, "proposer": {"learner": {"learning_rate": 0.0}}},
        "roles": {"first": "chooser", "second": "chooser", "first_proposer": "proposer", "second_proposer": "proposer"},
        "evaluation": {"every": 2, "exact": False, "opponents": []},
    },
    "reverse turns": {"learner": {"order": "reverse_turns"}},
    "dropped groups": {"selection": {"name": "equal_groups", "policy": "drop"}, "credit": {"name": "grpo"}},
    "all rewards": {
        "environments": [
            {
                "name": "kuhn_poker",
                "illegal": {"penalty": 0.5},
                "oracle": {"name": "noisy", "oracle": "cfr", "per": "turn"},
            }
        ],
        "rollout": {"games_per_step": 8, "group_size": 2, "playouts": 1},
        "rewards": [
            {"name": name, "weight": {"schedule": "cosine", "start": 1, "end": 0}}
            for name in registry.names("rewards")
            if name not in ("llm_judge", "reference_match")  # these two need an endpoint and a puzzle
        ],
    },
    "solver": {"matchmaker": {"name": "mixed", "past": 0.0, "bots": {"cfr": 0.7}}},
    "league by results": {
        **RANDOM_ILLEGAL,
        "matchmaker": {"name": "pfsp", "past": 0.9},
        "league": {"every": 1, "keep": 2, "keeping": {"name": "newest"}},
        "selection": {"name": "equal_groups", "policy": "drop"},
        "rollout": {"games_per_step": 8, "group_size": 2, "refills": 1},
    },
    "thinned league": {"matchmaker": {"name": "mixed", "past": 0.8}, "league": {"every": 1, "keep": 2}},
    "search in two environments": {
        "environments": [{"name": "tic_tac_toe"}, {"name": "connect_four", "weight": 0.5}],
        "matchmaker": {"name": "mixed", "past": 0.0, "bots": {"mcts": 0.7}},
        "evaluation": {
            "every": 2,
            "exact": False,
            "opponents": [{"name": "mcts", "games_per_seat": 2, "simulations": 4}],
        },
    },
}
# by estimator: the option that names a reward of turns
REWARD_OPTION = {
    "ppr": "process",
    "ssl": "component",
    "spae": "accuracy",
    "vpr": "process",
}
ALL_RUNS = {
    **{f"{credit['name']}-{credit['preset'] or 'plain'}": {"credit": credit} for credit in ESTIMATORS},
    **OTHER_RUNS,
}


# every second case runs in make test-slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (number % 2)) for number, name in enumerate(ALL_RUNS)]
)
def test_resuming_from_any_checkpoint_gives_the_same_run(tmp_path, name):
    changes = dict(ALL_RUNS[name])
    if "critic" in registry.required_services(registry.bind("credit", changes.get("credit", {}).get("name", "mars"))):
        changes.setdefault("losses", [{"name": "ppo_clip"}, {"name": "value_loss"}])
    if "credit" in changes and name not in OTHER_RUNS:
        extra_rollout = required_rollout(changes["credit"]["name"], changes["credit"]["preset"])
        changes["rollout"] = {**BASE_CONFIG.get("rollout", {}), **extra_rollout}
        if "candidates" in extra_rollout:
            changes["rewards"] = [{"name": "format_bonus"}]
        if (environment_name := played_for(changes["credit"]["name"], changes["credit"]["preset"])) is not None:
            changes |= {
                "environments": [{"name": environment_name, "illegal": {"rule": "random"}}],
                "model": {**BASE_CONFIG["model"], "context": 1024},
            }
    if (credit := changes.get("credit", {"name": ""}))["name"] in REWARD_OPTION:
        changes["credit"] = {**credit, REWARD_OPTION[credit["name"]]: "format_bonus"}
        changes["rewards"] = [{"name": "format_bonus"}]
    config = resolve({**BASE_CONFIG, "checkpoint": {"every": 1, "keep": 9}, **changes})
    assert train_in(tmp_path / "whole", config).finished
    expected = fingerprint(tmp_path / "whole")
    if "replay" in changes:
        assert any(line.get("replayed_share", 0.0) > 0.0 for line in read_lines(tmp_path / "whole" / "metrics.jsonl"))
    if "process" in changes:
        assert any(line.get("process/pairs", 0.0) > 0.0 for line in read_lines(tmp_path / "whole" / "metrics.jsonl"))
        assert expected[1]["process.safetensors"] != expected[1]["model.safetensors"]
    assert checkpoint.steps(tmp_path / "whole") == [1, 2, 3, 4]
    for step in (3, 1):
        for later_checkpoint in (tmp_path / "whole" / "checkpoints").iterdir():
            if int(later_checkpoint.name.removeprefix("step_")) > step:
                (later_checkpoint / checkpoint.MANIFEST).unlink()
        assert checkpoint.load_latest(tmp_path / "whole").step == step
        train_in(tmp_path / "whole", config, resume=True)
        assert fingerprint(tmp_path / "whole") == expected, f"resumed from step {step}"


def test_files_of_steps_after_the_checkpoint_are_removed(tmp_path):
    config = resolve({**BASE_CONFIG, "checkpoint": {"every": 3}})
    train_in(tmp_path / "run", config)
    (checkpoint.load_latest(tmp_path / "run").path / checkpoint.MANIFEST).unlink()
    with RunFolder.open(tmp_path / "run") as folder, GracefulStop() as stop:
        stop.requested = True
        summary = train(config, LocalEngine(config), folder, resume=True, stop=stop)
    assert (summary.steps, summary.finished) == (3, False)
    assert [line["step"] for line in read_lines(tmp_path / "run" / "metrics.jsonl")] == [1, 2, 3]
    assert [file.name for file in sorted((tmp_path / "run" / "episodes").iterdir())] == [
        f"part-00000{step}.parquet" for step in (1, 2, 3)
    ]


def test_a_run_beyond_its_number_of_steps_is_finished(tmp_path):
    train_in(tmp_path / "run", resolve(BASE_CONFIG))
    files_before = fingerprint(tmp_path / "run")
    summary = train_in(tmp_path / "run", resolve({**BASE_CONFIG, "steps": 2}), resume=True)
    assert (summary.steps, summary.finished) == (4, True)
    assert fingerprint(tmp_path / "run") == files_before


# The state of a run is passed from step to step; each owner writes one part of it.
STATE_CONFIG = {
    "environments": [{"name": "kuhn_poker", "illegal": {"rule": "random"}}],
    "steps": 4,
    "threads": 1,
    "rollout": {"games_per_step": 16, "group_size": 4, "starts": 4},
    "model": {"hidden_size": 8, "layers": 1, "heads": 1},
    "credit": {"name": "rae"},
    "curriculum": {"name": "vade"},
    "replay": {"name": "prioritised_replay"},
}


def states_after_rounds(config, num_rounds, state=None):
    engine, methods, states = LocalEngine(config), Methods.of(config), [state or RunState()]
    while len(states) <= num_rounds:
        states.append(play_round(config, engine, methods, states[-1]).state)
    return states


def save_state(state, folder):
    folder.mkdir()
    state.save(folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_state_accumulates_over_steps(tmp_path):
    states = states_after_rounds(resolve(STATE_CONFIG), 3)
    assert [state.step for state in states] == [0, 1, 2, 3]
    assert states[0].owners == {}
    for state in states[1:]:
        assert set(state.owners) == {"credit", "curriculum", "payoffs", "replay"}
        assert state.json("credit")
        records = [record for arm in state.json("curriculum").values() for record in arm]
        assert len(records) == 4 * state.step  # one record per group
    buffer_sizes = [len(state.replay.entries) for state in states]
    assert buffer_sizes[0] == 0 < buffer_sizes[1] < buffer_sizes[3]


def test_a_step_does_not_change_the_previous_state(tmp_path):
    config = resolve(STATE_CONFIG)
    state_before, state_after = states_after_rounds(config, 2)[1:]
    first_files = save_state(state_before, tmp_path / "first")
    second_state = play_round(config, (engine := LocalEngine(config)), Methods.of(config), state_before).state
    assert save_state(state_before, tmp_path / "second") == first_files
    assert second_state.step == state_after.step
    assert engine.model.version == 1


def test_a_saved_state_is_restored(tmp_path):
    state = states_after_rounds(resolve(STATE_CONFIG), 2)[-1]
    files = save_state(state, tmp_path / "one")
    assert set(files) == {"state.json", "replay.parquet", "replay.json"}
    restored = RunState.restored(tmp_path / "one", state.step, json.loads(files["state.json"]))
    assert restored.step == 2
    assert restored.json("credit") == state.json("credit")
    assert restored.replay.entries == state.replay.entries
    assert save_state(restored, tmp_path / "two") == files


def test_the_initial_state_is_saved_as_an_empty_mapping(tmp_path):
    assert save_state(RunState(), tmp_path / "empty") == {"state.json": b"{}"}
    restored = RunState.restored(tmp_path / "empty", 0, {})
    assert (restored.json("credit"), restored.replay.entries) == ({}, ())
    assert save_state(restored, tmp_path / "again") == {"state.json": b"{}"}


def test_the_state_of_an_unknown_owner_is_kept(tmp_path):
    state = RunState(step=1, owners={"ratings": {"a": [1, 2]}}).after(credit={"x": 1.0})
    files = save_state(state, tmp_path / "one")
    assert json.loads(files["state.json"]) == {"credit": {"x": 1.0}, "ratings": {"a": [1, 2]}}


def test_content_without_an_owner_is_kept_separately(tmp_path):
    state = RunState(step=1, owners={"credit": {}})
    folder = tmp_path / "one"
    folder.mkdir()
    state.save(folder, config={"seed": 1})
    content = json.loads((folder / "state.json").read_bytes())
    assert content == {"credit": {}, "config": {"seed": 1}}
    assert set(RunState.restored(folder, 1, content, ignored_keys=frozenset({"config"})).owners) == {
        "credit",
        *FILE_STATES,
    }


@pytest.mark.parametrize("damage", [[], 1, "text", None])
def test_a_malformed_state_is_refused(tmp_path, damage):
    with pytest.raises(CheckpointError, match="holds no state of credit"):
        RunState.restored(tmp_path, 1, {"credit": damage})


def test_a_truncated_state_file_is_refused(tmp_path):
    state = states_after_rounds(resolve(STATE_CONFIG), 1)[-1]
    files = save_state(state, tmp_path / "one")
    (tmp_path / "one" / "replay.parquet").write_bytes(files["replay.parquet"][:-20])
    with pytest.raises(CheckpointError, match="replay buffer"):
        RunState.restored(tmp_path / "one", 1, {})


def test_the_returned_json_of_a_state_is_a_copy():
    state = RunState(step=1, owners={"credit": {"mean": 1.0}})
    state.json("credit")["mean"] = 2.0
    assert state.json("credit") == {"mean": 1.0}


# Run folders of earlier versions can be read, evaluated, exported, reported and resumed.
DATA_FOLDER = Path(__file__).parent.parent / "data"
OLD_RUNS = sorted(path.name for path in DATA_FOLDER.glob("run_*"))


@pytest.fixture(params=OLD_RUNS)
def old_run(request, tmp_path):
    shutil.copytree(DATA_FOLDER / request.param, tmp_path / "run")
    return tmp_path / "run"


def run_cli(*arguments):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    return result.output


def test_an_old_run_is_read(old_run):
    loaded = sparring.load_run(old_run)
    assert loaded.step == 2 and len(loaded.metrics()) == 2
    episodes = loaded.episodes()
    assert [step for step, _ in episodes] == [1] * 4 + [2] * 4
    assert len(sparring.turn_table([episode for _, episode in episodes]).reward)


def test_an_old_run_is_evaluated_exported_and_reported(old_run, tmp_path):
    assert "NashConv" in run_cli("evaluate", old_run, "--games", 2, "--opponent", "random")
    run_cli("export", old_run, tmp_path / "model")
    assert (tmp_path / "model" / "config.json").is_file()
    run_cli("report", old_run)
    assert (old_run / "report.html").stat().st_size > 1000


def test_an_old_run_resumes_and_keeps_its_old_files(old_run):
    text = (old_run / "config.yaml").read_text()
    run_cli("train", old_run / "config.yaml", "steps=3", "--run", old_run, "--resume")
    config_after = (old_run / "config.yaml").read_text()
    assert "steps: 2" in text and "steps: 3" in config_after
    assert "keep" not in yaml.safe_load(text)["store"] and yaml.safe_load(config_after)["store"]["keep"] == 0, (
        "no stored step is removed"
    )
    episodes = sparring.load_run(old_run).episodes()
    assert {step: episode.environment is not None for step, episode in episodes} == {1: False, 2: False, 3: True}
