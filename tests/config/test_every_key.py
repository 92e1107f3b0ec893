"""No key is ignored silently: every key of a run and every option of a plug-in changes something or is refused.

A key in CASES changes the output of a small run or is refused with one line. A key in BY_DESIGN has a reason why it
changes no output. A new key is in neither, and the first test fails.
"""

import ast
import functools
import hashlib
import importlib
import inspect
import textwrap
import typing
from pathlib import Path

import pytest
from pydantic import BaseModel

from sparring.config import RunConfig, resolve
from sparring.config.parts import PluginConfig, merge
from sparring.config.plugins import registry
from sparring.config.plugins.plugin import package_of
from sparring.config.recipe import to_yaml
from sparring.core.errors import ConfigError
from sparring.engine.local import LocalEngine
from sparring.engine.run_processes import run_workers
from sparring.run import checkpoint
from sparring.run.config_checks import check_no_setting_is_ignored
from sparring.run.folder import RunFolder
from sparring.run.loop import train

BASE = {
    "steps": 2,
    "threads": 1,
    "environments": [{"name": "kuhn_poker", "illegal": {"penalty": 0.5}}],
    "rollout": {"games_per_step": 16, "group_size": 4},
    "model": {"hidden_size": 8, "layers": 1, "heads": 1, "context": 32},
    "losses": [{"name": "ppo_clip"}, {"name": "entropy_bonus", "weight": 0.01}],
    "learner": {"learning_rate": 0.01},
    "evaluation": {"every": 9, "exact": False},
    "store": {"every": 1},
    "logging": {"sinks": []},
    "health": {"rules": []},
}
LEAGUE = {"steps": 3, "league": {"every": 1, "keep": 2}, "matchmaker": {"name": "mixed", "past": 0.5}}
PAYOFF_BOOK = {**LEAGUE, "league": {"every": 1, "keep": 4, "plays": 4}}
WITH_ORACLE = {
    "environments": [{"name": "kuhn_poker", "oracle": {"name": "cfr", "iterations": 20}}],
    "reorder_outcomes": True,
}
BEST_ACTION_REWARD = {**WITH_ORACLE, "rewards": [{"name": "best_action", "weight": 0.1}]}
SEVERAL_CANDIDATES = {
    **BEST_ACTION_REWARD,
    "rollout": {"games_per_step": 16, "group_size": 4, "candidates": {"count": 2}},
}
PREFERENCE_PAIRS = {"credit": {"name": "oprl"}}
WARMUP = {"warmup": {"updates": 2, "games": 8}}
POLICIES = {"policies": {"a": {}, "b": {}}, "roles": {"first": "a", "second": "b"}}
LEARNERS = {**LEAGUE, "policies": {"main": {}, "b": {}}, "league": {"every": 1, "learners": {"main": {}, "b": {}}}}
BOT_OPPONENT = {"matchmaker": {"name": "mixed", "bots": {"bot": 0.5}}, "bots": {"bot": {"name": "random"}}}
HEALTH_RULE = {"metric": "legal_rate", "above": -1.0}
REFUSED = object()

# key: a value that is not its default, and what is laid over BASE on both sides; REFUSED: the value is refused
CASES = {
    "seed": (1,),
    "steps": (3,),
    "environments": ([{"name": "leduc_poker"}],),
    "environments.name": ("leduc_poker",),
    "environments.label": ("other",),
    "environments.options": ({"players": 3},),
    "environments.illegal": ({"penalty": 2.0},),
    "environments.weight": (0.5, {"environments": [{"name": "kuhn_poker"}, {"name": "leduc_poker"}]}),
    "environments.oracle": ({"name": "cfr", "iterations": 20},),
    "environments.outcome_gap": (0.01, {**BEST_ACTION_REWARD, "reorder_outcomes": False}),
    "environments.scale": (0.1, {"credit": {"name": "rae"}}),
    "environments.roles": ({"first": "b", "second": "a"}, POLICIES),
    "model.name": ("no-such-model", {}, REFUSED),
    "model.device": ("cuda", {}, REFUSED),
    "model.dtype": ("bfloat16", {}, REFUSED),
    "model.lora": ({"rank": 4}, {}, REFUSED),
    "model.hidden_size": (16,),
    "model.layers": (2,),
    "model.heads": (2,),
    "model.context": (64,),
    "renderer": ({"name": "chat"}, {}, REFUSED),
    "context": (
        {"name": "sliding_window", "exchanges": 1},
        {"environments": [{"name": "tic_tac_toe"}], "model": {"context": 128}},
    ),
    "rollout.max_new_tokens": (1,),
    "rollout.temperature": (2.0,),
    "rollout.top_p": (0.5,),
    "rollout.top_k": (2,),
    "rollout.games_per_step": (32,),
    "rollout.group_size": (8,),
    "rollout.plan": ({"name": "tree", "branching": [2, 2]},),
    "rollout.candidates.count": (3, SEVERAL_CANDIDATES),
    "rollout.candidates.commit": ("random", SEVERAL_CANDIDATES),
    "rollout.candidates.explore": (1.0, SEVERAL_CANDIDATES),
    "rollout.candidates.by": ("oracle", {**SEVERAL_CANDIDATES, "rewards": [{"name": "best_action", "weight": -1.0}]}),
    "rollout.starts": (1,),
    "rollout.max_turns": (1,),
    "rollout.refills": (2, {"selection": {"name": "variance_filter"}}),
    "rollout.playouts": (2,),
    "matchmaker": ({"name": "mixed", "past": 1.0}, {**LEAGUE, "matchmaker": {"name": "mirror"}}),
    "bots": ({"bot": {"name": "scripted", "preference": ["bet"]}}, BOT_OPPONENT),
    "league.every": (2, LEAGUE),
    "league.schedule": ({"name": "plateau"}, LEAGUE),
    "league.keep": (1, LEAGUE),
    "league.keeping": ({"name": "newest"}, {**LEAGUE, "steps": 5}),
    "league.start": (True, LEAGUE),
    "league.restart": (True, {**LEAGUE, "league": {"every": 1, "start": True}}),
    "league.learners": ({"main": {}, "b": {"matchmaker": {"name": "mixed", "past": 1.0}}}, LEARNERS),
    "league.together": (False, LEARNERS),
    "league.plays": (8, PAYOFF_BOOK),
    "league.focus": (1.0, {**PAYOFF_BOOK, "league": {"every": 1, "keep": 4, "plays": 4, "answer": "nash"}, "steps": 5}),
    "league.answer": ("last", {"learner": {"average": 0.5}, "evaluation": {"every": 1, "exact": True}}),
    "league.payoff_decay": (0.5, PAYOFF_BOOK),
    "rewards": ([{"name": "best_action", "weight": 0.5}], WITH_ORACLE),
    "outcome_weight": (0.1, {**BEST_ACTION_REWARD, "credit": {"name": "rae"}}),
    "reorder_outcomes": (
        True,
        {**BEST_ACTION_REWARD, "reorder_outcomes": False, "rewards": [{"name": "best_action", "weight": 9.0}]},
    ),
    "curriculum": (
        {"name": "difficulty"},
        {"rollout": {"games_per_step": 16, "group_size": 4, "starts": 4}, "steps": 3},
    ),
    "selection": ({"name": "variance_filter"},),
    "replay": ({"name": "r3"},),
    "credit": ({"name": "rae"},),
    "losses": ([{"name": "policy_gradient"}],),
    "learner.learning_rate": (0.1,),
    "learner.betas": ([0.1, 0.1],),
    "learner.weight_decay": (1.0,),
    "learner.gradient_norm": (1e-9,),
    "learner.order": ("reverse_turns",),
    "learner.epochs": (2,),
    "learner.minibatches": (2,),
    "learner.split": ("sequences", {"learner": {"learning_rate": 0.01, "minibatches": 2}}),
    "learner.leaves": (2,),
    "learner.reduction": ("sequence_mean",),
    "learner.reduction_constant": (8.0, {}, REFUSED),
    "learner.average": (0.5,),
    "learner.master_weights": (True, {}, REFUSED),
    "learner.ranks": (2, {}, REFUSED),
    "learner.sharding": ("fsdp2", {}, REFUSED),
    "learner.gradient_sync": ("pass", {}, REFUSED),
    "learner.gpus": ([0], {}, REFUSED),
    "process.learning_rate": (0.1, PREFERENCE_PAIRS),
    "process.updates": (3, PREFERENCE_PAIRS),
    "process.pairs": ("all", PREFERENCE_PAIRS),
    "policies": (POLICIES["policies"], {"roles": POLICIES["roles"], "policies": {"a": {"frozen": True}, "b": {}}}),
    "roles": ({"first": "b", "second": "a"}, POLICIES),
    "warmup.updates": (2,),
    "warmup.games": (16, WARMUP),
    "warmup.player": ({"name": "scripted", "preference": ["bet"]}, WARMUP),
    "warmup.learning_rate": (0.1, WARMUP),
    "evaluation.every": (1, {"evaluation": {"every": 2, "exact": True}, "steps": 4}),
    "evaluation.exact": (True,),
    "evaluation.max_states": (2, {"evaluation": {"every": 1, "exact": True}}),
    "evaluation.opponents": ([{"name": "random", "games_per_seat": 2}],),
    "checkpoint.every": (1,),
    "checkpoint.keep": (1, {"checkpoint": {"every": 1}}),
    "store.every": (0,),
    "store.keep": (1,),
    "logging.sinks": ([{"name": "tensorboard"}],),
    "health.stop": (True, {"health": {"rules": [HEALTH_RULE]}}),
    "health.rules": ([HEALTH_RULE],),
    "scale.lag": (1,),
}
ONLY_TEXT = "words about the run alone"
ONLY_PLACEMENT = (
    "where work is done; no byte of a run depends on it, which tests of tests/engine and tests/run/test_lag.py hold"
)
BY_DESIGN = {
    "name": ONLY_TEXT,
    "summary": ONLY_TEXT,
    "threads": "other threads may give other last bits, or none: tests/run/test_provenance.py",
    "call_seconds": "a limit on calls that hang: tests/config/plugins/test_guard.py",
    "sampler": "other samplers draw the same, or ask a server: tests/samplers",
    "rollout.in_flight": ONLY_PLACEMENT,
    "rollout.retries": "a limit on failures: tests/run/test_every_game.py",
    "learner.micro_tokens": "bounds memory and changes nothing else",
    "model.gradient_checkpointing": "bounds memory and changes nothing else",
    "knowledge": "needs an environment with latent choices: tests/run/test_candidates_in_runs.py",
    **dict.fromkeys(
        [
            f"scale.{key}"
            for key in (
                "fleet",
                "workers",
                "unit_games",
                "order",
                "timeout",
                "restarts",
                "weights",
                "address",
                "gpus",
                "gpus_per_worker",
                "share_gpus",
                "mixed",
            )
        ],
        ONLY_PLACEMENT,
    ),
}


def nested_types(annotation):
    yield annotation
    for argument in typing.get_args(annotation):
        yield from nested_types(argument)


def keys_of(section, path=""):
    """Yield (key, section, field) of a section and its subsections; a plug-in or a mapping by name is one key."""
    for name, field in section.model_fields.items():
        key, kinds = f"{path}{name}", list(nested_types(field.annotation))
        subsections = [
            annotation
            for annotation in kinds
            if isinstance(annotation, type)
            and issubclass(annotation, BaseModel)
            and not issubclass(annotation, PluginConfig)
        ]
        is_listed = any(typing.get_origin(annotation) in (list, dict) for annotation in kinds)
        if not subsections or is_listed or type(None) in kinds:
            yield key, section, name
        for annotation in subsections:
            if (not is_listed and type(None) not in kinds) or name == "environments":
                yield from keys_of(annotation, f"{key}.")


KEYS = [key for key, _, _ in keys_of(RunConfig)]


def test_every_key_has_a_case_or_a_reason():
    assert sorted({*CASES} & {*BY_DESIGN}) == []
    assert sorted(KEYS) == sorted({*CASES, *BY_DESIGN})


def names_read(source):
    """Return the names and attributes that a source reads, and its string literals that are identifiers."""
    nodes = [*ast.walk(ast.parse(textwrap.dedent(source)))]
    read_nodes = [
        node for node in nodes if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
    ]
    return {getattr(node, "id", None) or node.attr for node in read_nodes} | {
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier()
    }


@functools.cache
def names_of_slot(slot):
    package = package_of(slot)
    folder = Path(importlib.import_module(package.rpartition(".")[0] if "." in slot else package).__path__[0])
    return set().union(*(names_read(path.read_text()) for path in folder.rglob("*.py")))


@pytest.mark.parametrize("slot", registry.SLOTS)
def test_every_option_of_a_plug_in_is_read_by_its_code(slot):
    for plugin in registry.load_all(slot):
        if inspect.isfunction(plugin.function) and not hasattr(plugin.function, "__wrapped__"):
            names = names_read(inspect.getsource(plugin.function))
        else:  # a class or a dataclass: its options are attributes, which other modules of the slot may read
            names = names_of_slot(slot)
        unread = [option for option in plugin.options if option not in names]
        assert not unread, f"{slot} {plugin.name} does not read {unread}"


def with_value(data, key, value):
    section, *subkeys = key.split(".")
    if section == "environments" and subkeys:
        return {**data, "environments": [{**data["environments"][0], subkeys[0]: value}, *data["environments"][1:]]}
    if subkeys:
        return {**data, section: with_value(data.get(section, {}), ".".join(subkeys), value)}
    return {**data, section: value}


def output_digest(data, path):
    """Return a digest of the files of a run: weights, metrics, episodes and health events."""
    config = resolve(data)
    check_no_setting_is_ignored(config)
    folder, engine = RunFolder.create(path, to_yaml(config)), LocalEngine(config)
    with folder, run_workers(engine, path):
        train(config, engine, folder)
    digest = hashlib.sha256(",".join(map(str, checkpoint.steps(path))).encode())
    for file in sorted(path.rglob("*")):
        is_output = file.is_file() and file.name not in ("config.yaml", "timing.jsonl", "manifest.json")
        if is_output and not file.name.startswith("events.out"):
            digest.update(str(file.relative_to(path)).encode() + b"\0" + file.read_bytes())
        elif is_output:
            digest.update(b"a sink")
    return digest.hexdigest()


@pytest.mark.slow
@pytest.mark.parametrize("key", CASES)
def test_a_key_changes_the_output_of_a_run_or_is_refused(key, tmp_path):
    value, context, expectation = (*CASES[key], *({}, None)[len(CASES[key]) - 1 :])
    data = merge(BASE, context)
    changed_data = with_value(data, key, value)
    if expectation is REFUSED:
        with pytest.raises((ConfigError, ValueError)) as refusal:
            output_digest(changed_data, tmp_path / "changed")
        assert key.rpartition(".")[2] in str(refusal.value) or str(value) in str(refusal.value)
        return
    assert output_digest(changed_data, tmp_path / "changed") != output_digest(data, tmp_path / "plain")
