"""Whatever a run is made of, stopping and going on changes nothing: every estimator, loss, kind of opponent and selection."""

import pytest

from sparring.config import resolve
from sparring.config.plugins import registry
from sparring.config.recipe import to_yaml
from sparring.core.process import GracefulStop
from sparring.engine.local import LocalEngine
from sparring.run import checkpoint
from sparring.run.events import read_lines
from sparring.run.folder import RunFolder
from sparring.run.loop import train
from tests.estimators import asked_of, played_for

BASE = {
    "steps": 4, "threads": 1, "environments": [{"name": "kuhn_poker", "illegal": {"penalty": 0.5}}], "rollout": {"games_per_step": 8, "group_size": 2},
    "model": {"hidden_size": 8, "layers": 1, "heads": 1}, "evaluation": {"every": 2, "exact": False}, "store": {"every": 1},
}
PRESETS = {name: (None, *registry.load("credit", name).presets) for name in registry.names("credit")}
CREDIT = [{"name": name, "preset": preset} for name, presets in PRESETS.items() for preset in presets]
RANDOM = {"environments": [{"name": "kuhn_poker", "illegal": {"rule": "random"}}]}  # so that games differ from the first step on
RUNS = {
    "all losses": {"credit": {"name": "gae"}, "losses": [{"name": name, "weight": 0.5} for name in registry.names("losses")]},
    "schedules": {"learner": {"learning_rate": {"schedule": "linear", "start": 0.01, "end": 0.0}, "epochs": 2, "minibatches": 2}},
    "truncated sampling": {"rollout": {"games_per_step": 8, "top_p": 0.7, "top_k": 5, "temperature": 0.8, "in_flight": 3}},
    "fixed starts": {"rollout": {"games_per_step": 8, "group_size": 2, "starts": 3, "max_turns": 2}},
    "refills": {"selection": {"name": "equal_groups", "policy": "drop"}, "rollout": {"games_per_step": 8, "group_size": 2, "refills": 2}},
    "replay r3": {
        **RANDOM, "replay": {"name": "r3", "number": 2}, "matchmaker": {"name": "mixed", "past": 0.0, "bots": {"random": 1.0}},
        "rollout": {"games_per_step": 8, "group_size": 1},
    },
    "replay ssb": {"replay": {"name": "ssb", "max_age": 2}, "selection": {"name": "equal_groups", "policy": "drop"}, "credit": {"name": "grpo"}},
    "replay prioritised": {**RANDOM, "replay": {"name": "prioritised_replay", "share": 0.5, "capacity": 12}},
    "reward model": {
        **RANDOM, "credit": {"name": "oprl", "beta": 0.5},
        "process": {"learning_rate": {"schedule": "linear", "start": 0.02, "end": 0.0}, "updates": 2, "pairs": "all"}, "warmup": {"updates": 1, "games": 4},
    },
    "a reference after a warm-up": {"losses": [{"name": "ppo_clip"}, {"name": "kl_penalty", "weight": 0.5}], "warmup": {"updates": 2, "games": 4}},
    "a reference that credit reads, an average and a warm-up": {
        **RANDOM, "credit": {"name": "oprl", "preset": "policy"}, "learner": {"average": 0.9}, "warmup": {"updates": 2, "games": 4},
    },
    "several policies": {
        **RANDOM,
        "policies": {
            "leader": {"credit": {"name": "rae"}, "learner": {"average": 0.9}},
            "main": {"credit": {"name": "gae"}, "losses": [{"name": "ppo_clip"}, {"name": "value_loss"}], "model": {"hidden_size": 16}},
        },
        "roles": {"first": "leader", "second": "main"},
        "league": {"every": 1, "keep": 2},
        "matchmaker": {"name": "pfsp", "past": 0.5},
        "warmup": {"updates": 1, "games": 4},
    },
    "a frozen policy": {
        **RANDOM, "policies": {"leader": {}, "helper": {"frozen": True}}, "roles": {"first": "leader", "second": "helper"},
        "replay": {"name": "prioritised_replay", "share": 0.5, "capacity": 12},
    },
    "tree of games": {
        **RANDOM, "credit": {"name": "spo_tree"},
        "rollout": {"games_per_step": 8, "group_size": 4, "in_flight": 3, "plan": {"name": "tree", "branching": [2, 2]}},
    },
    "branches, fixed starts, refills and replay": {
        **RANDOM, "credit": {"name": "branch_grpo"}, "replay": {"name": "prioritised_replay", "share": 0.5, "capacity": 12},
        "selection": {"name": "equal_groups", "policy": "drop"},
        "rollout": { "games_per_step": 8, "group_size": 4, "starts": 3, "refills": 1, "playouts": 1, "plan": {"name": "branch", "preset": "aepo"}, },
    },
    "knowledge": {
        "environments": [{"name": "rps_spock_lizard", "illegal": {"rule": "random", "penalty": 0.5}}],
        "rollout": {"games_per_step": 16, "candidates": {"count": 3, "commit": "random"}},
        "knowledge": {"name": "latent_space", "every": 2, "iterations": 2, "cfr_steps": 20}, "credit": {"name": "candidate_value"},
        "losses": [{"name": "turn_dpo", "preset": "lspo"}],
        "warmup": {"updates": 5, "games": 16, "player": {"name": "biased", "weights": {"spock": 0.01, "lizard": 0.01}}},
    },
    "choosing among candidates": {
        "environments": [{"name": "choose", "options": {"environment": {"name": "kuhn_poker"}, "proposals": {"pass": 2, "bet": 1}}}],
        "warmup": {"updates": 2, "games": 8, "player": {"name": "biased", "weights": {"pass": 3}}},
    },
    "a model that proposes": {
        "environments": [{"name": "choose", "options": {"environment": {"name": "kuhn_poker"}, "proposer": "seat", "count": 2, "diverse": False}}],
        "policies": {"chooser": {}, "proposer": {"learner": {"learning_rate": 0.0}}},
        "roles": {"first": "chooser", "second": "chooser", "first_proposer": "proposer", "second_proposer": "proposer"},
        "evaluation": {"every": 2, "exact": False, "opponents": []},
    },
    "reverse turns": {"learner": {"order": "reverse_turns"}},
    "dropped groups": {"selection": {"name": "equal_groups", "policy": "drop"}, "credit": {"name": "grpo"}},
    "all rewards": {
        "environments": [{"name": "kuhn_poker", "illegal": {"penalty": 0.5}, "oracle": {"name": "noisy", "oracle": "cfr", "per": "turn"}}],
        "rollout": {"games_per_step": 8, "group_size": 2, "playouts": 1},
        "rewards": [
            {"name": name, "weight": {"schedule": "cosine", "start": 1, "end": 0}}
            for name in registry.names("rewards")
            if name not in ("llm_judge", "reference_match")  # which ask for an endpoint and for a puzzle
        ],
    },
    "solver": {"matchmaker": {"name": "mixed", "past": 0.0, "bots": {"cfr": 0.7}}},
    "league by results": {
        **RANDOM, "matchmaker": {"name": "pfsp", "past": 0.9}, "league": {"every": 1, "keep": 2, "keeping": {"name": "newest"}},
        "selection": {"name": "equal_groups", "policy": "drop"}, "rollout": {"games_per_step": 8, "group_size": 2, "refills": 1},
    },
    "thinned league": {"matchmaker": {"name": "mixed", "past": 0.8}, "league": {"every": 1, "keep": 2}},
    "search, two games": {
        "environments": [{"name": "tic_tac_toe"}, {"name": "connect_four", "weight": 0.5}], "matchmaker": {"name": "mixed", "past": 0.0, "bots": {"mcts": 0.7}},
        "evaluation": {"every": 2, "exact": False, "opponents": [{"name": "mcts", "games_per_seat": 2, "simulations": 4}]},
    },
}
PROCESS = {"ppr": "process", "ssl": "component", "spae": "accuracy", "vpr": "process"}  # options that name a reward of single turns
CASES = {**{f"{c['name']}-{c['preset'] or 'plain'}": {"credit": c} for c in CREDIT}, **RUNS}


def run(path, config, *, resume=False):
    folder = RunFolder.open(path) if resume else RunFolder.create(path, to_yaml(config))
    with folder:
        return train(config, LocalEngine(config), folder, resume=resume)


def fingerprint(path):
    kept = {file.name: file.read_bytes() for file in checkpoint.load_latest(path).path.iterdir()}
    stored = {file.relative_to(path): file.read_bytes() for name in ("episodes", "credit") for file in (path / name).iterdir()}
    return (path / "metrics.jsonl").read_bytes(), kept, stored


# every second one in make test-slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (number % 2)) for number, name in enumerate(CASES)])
def test_going_on_from_any_checkpoint_gives_the_same_run(tmp_path, name):
    """A folder cut back to an earlier checkpoint, as a kill leaves it, ends as if nothing had happened."""
    changes = dict(CASES[name])
    if "critic" in registry.asks(registry.bind("credit", changes.get("credit", {}).get("name", "mars"))):
        changes.setdefault("losses", [{"name": "ppo_clip"}, {"name": "value_loss"}])
    if "credit" in changes and name not in RUNS:
        more = asked_of(changes["credit"]["name"], changes["credit"]["preset"])
        changes["rollout"] = {**BASE.get("rollout", {}), **more}
        if "candidates" in more:
            changes["rewards"] = [{"name": "format_bonus"}]
        if (needed := played_for(changes["credit"]["name"], changes["credit"]["preset"])) is not None:
            changes |= {"environments": [{"name": needed, "illegal": {"rule": "random"}}], "model": {**BASE["model"], "context": 1024}}
    if (credit := changes.get("credit", {"name": ""}))["name"] in PROCESS:
        changes["credit"] = {**credit, PROCESS[credit["name"]]: "format_bonus"}
        changes["rewards"] = [{"name": "format_bonus"}]
    config = resolve({**BASE, "checkpoint": {"every": 1, "keep": 9}, **changes})
    assert run(tmp_path / "whole", config).finished
    expected = fingerprint(tmp_path / "whole")
    if "replay" in changes:
        assert any(line.get("replayed_share", 0.0) > 0.0 for line in read_lines(tmp_path / "whole" / "metrics.jsonl"))
    if "process" in changes:
        assert any(line.get("process/pairs", 0.0) > 0.0 for line in read_lines(tmp_path / "whole" / "metrics.jsonl"))
        assert expected[1]["process.safetensors"] != expected[1]["model.safetensors"]
    assert checkpoint.steps(tmp_path / "whole") == [1, 2, 3, 4]
    for step in (3, 1):
        for late in (tmp_path / "whole" / "checkpoints").iterdir():
            if int(late.name.removeprefix("step_")) > step:
                (late / checkpoint.MANIFEST).unlink()
        assert checkpoint.load_latest(tmp_path / "whole").step == step
        run(tmp_path / "whole", config, resume=True)
        assert fingerprint(tmp_path / "whole") == expected, f"gone on from step {step}"


def test_nothing_is_left_of_the_steps_after_the_checkpoint(tmp_path):
    """Even if the run stops again before it gets to them."""
    config = resolve({**BASE, "checkpoint": {"every": 3}})
    run(tmp_path / "run", config)
    (checkpoint.load_latest(tmp_path / "run").path / checkpoint.MANIFEST).unlink()
    with RunFolder.open(tmp_path / "run") as folder, GracefulStop() as stop:
        stop.requested = True
        summary = train(config, LocalEngine(config), folder, resume=True, stop=stop)
    assert (summary.steps, summary.finished) == (3, False)
    assert [line["step"] for line in read_lines(tmp_path / "run" / "metrics.jsonl")] == [1, 2, 3]
    assert [file.name for file in sorted((tmp_path / "run" / "episodes").iterdir())] == [f"part-00000{step}.parquet" for step in (1, 2, 3)]


def test_a_run_that_has_done_more_steps_than_it_is_now_asked_for_is_finished(tmp_path):
    run(tmp_path / "run", resolve(BASE))
    before = fingerprint(tmp_path / "run")
    summary = run(tmp_path / "run", resolve({**BASE, "steps": 2}), resume=True)
    assert (summary.steps, summary.finished) == (4, True)
    assert fingerprint(tmp_path / "run") == before
