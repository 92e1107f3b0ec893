"""Checks of a configuration before a run starts, and the changes that a resumed run may make.

Every checkpoint holds its configuration without the keys that may change (``FREE``), so that manual
edits of config.yaml are noticed. The keys that may change are in changes.jsonl: the first line has
their initial values, and each change adds a line with the step after which it was made, the old
value and the new one. The file is a function of the checkpoints resumed from and the configurations
given.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sparring.config import RunConfig, resolve
from sparring.config.plugins.registry import required_services
from sparring.config.policies import ModelConfig
from sparring.config.recipe import to_yaml
from sparring.config.sections import BINDING
from sparring.core.errors import ConfigError, RunError
from sparring.core.files import write_bytes_atomic
from sparring.environments.catalogue import configured_game
from sparring.run.checkpoint import Checkpoint
from sparring.run.events import read_lines
from sparring.run.folder import CONFIG, RunFolder

CHANGES, START = "changes.jsonl", "start"
SAVED = "config"  # name of the configuration in a checkpoint's state
FREE = (
    "steps",
    "checkpoint",
    "store",
    "logging",
    "health",
    "name",
    "summary",
    "call_seconds",
    "scale",
)  # keys that may differ when a run goes on
FIXED = tuple(f"scale.{key}" for key in BINDING)  # keys below them that may not
# nested keys that may, with their defaults
FREE_BELOW = {"learner": {"ranks": 1, "sharding": "none", "gradient_sync": "leaf"}}
FREE_IF_THERE = ("learner.gpus",)  # further ones, recorded only if set


class ConfigChange(NamedTuple):
    """A key in dotted form whose value differs; ``...`` stands for an absent key."""

    key: str
    old: Any
    new: Any

    def __str__(self) -> str:
        old_text, new_text = (
            "absent" if value is ... else textwrap.shorten(repr(value), 60)
            for value in (self.old, self.new)
        )
        return f"{self.key} differs ({old_text}, now {new_text})"


def check_same(folder: RunFolder, config: Mapping[str, Any]) -> None:
    """Check that a run may resume with this configuration.

    Keys that did not exist when the run was started count as their defaults.

    Raises:
        RunError: a key differs that must not change.
    """
    changed = _binding_changes(_with_defaults(folder.config()), config)
    if changed:
        raise RunError(
            f"{folder.path} was started with another configuration: {changed}. Resume without "
            "overrides."
        )


def describe_edits(config: RunConfig, latest: Checkpoint) -> str:
    """Return in words how a configuration differs from a checkpoint's; "" if it does not."""
    if SAVED not in latest.state:
        return ""
    return _binding_changes(_with_defaults(latest.state[SAVED]), config.model_dump(mode="json"))


def binding_settings(config: RunConfig) -> dict[str, Any]:
    """Return the part of a configuration that a checkpoint holds and that must not change."""
    settings = config.model_dump(mode="json")
    binding = {key: value for key, value in settings.items() if key not in FREE}
    for section, keys in FREE_BELOW.items():
        binding[section] = {
            key: value
            for key, value in binding[section].items()
            if key not in keys and f"{section}.{key}" not in FREE_IF_THERE
        }
    return {**binding, "scale": {key: settings["scale"][key] for key in BINDING}}


def write_configuration(folder: RunFolder, config: RunConfig, latest: Checkpoint | None) -> None:
    """Write config.yaml, and add its changes to changes.jsonl, at the start of a run.

    Args:
        folder: locked by the caller.
        config: of the run from now on.
        latest: the checkpoint to resume from; None: the run starts from the beginning.

    Raises:
        RunError: config.yaml differs from the checkpoint's configuration, or the folder cannot be
            written.
    """
    settings = config.model_dump(mode="json")
    lines = [{"step": 0, START: _without_free_keys(settings)}]
    if latest is not None:
        changed = describe_edits(config, latest)
        if changed:
            raise RunError(
                f"{folder.path / CONFIG} was edited after step {latest.step} was "
                f"saved: {changed}. A run must keep its configuration: restore the old values, or "
                "train another run with the new ones."
            )
        lines = _lines_until(folder, latest.step)
        changes = differences(_settings_in_force(lines), _without_free_keys(settings))
        lines += [
            {
                "step": latest.step,
                "key": c.key,
                "old": _json_value(c.old),
                "new": _json_value(c.new),
            }
            for c in changes
            if _json_value(c.old) != _json_value(c.new)  # a removed key is recorded as null
        ]
    data = "".join(json.dumps(line, sort_keys=True) + "\n" for line in lines).encode()
    for name, contents in (
        (CHANGES, data),
        (CONFIG, to_yaml(config).encode()),
    ):  # in this order, so that a kill between loses no change
        path = folder.path / name
        if not path.exists() or path.read_bytes() != contents:
            write_bytes_atomic(path, contents)


def _lines_until(folder: RunFolder, step: int) -> list[dict[str, Any]]:
    """Return the lines of changes.jsonl before a step; if there are none, those of config.yaml."""
    lines = read_lines(folder.path / CHANGES)
    if not lines or not isinstance(lines[0].get(START), dict):
        return [{"step": 0, START: _without_free_keys(_with_defaults(folder.config()))}]
    return [
        line
        for number, line in enumerate(lines)
        if not number or (line["step"] < step and {"key", "new"} <= line.keys())
    ]


def _settings_in_force(lines: list[dict[str, Any]]) -> dict[str, Any]:
    settings: dict[str, Any] = json.loads(json.dumps({**FREE_BELOW, **lines[0][START]}))
    for line in lines[1:]:
        *sections, name = str(line["key"]).split(".")
        target = settings
        for section in sections:
            target = target.setdefault(section, {})
        target[name] = line["new"]
    return settings


def _without_free_keys(config: Mapping[str, Any]) -> dict[str, Any]:
    below = {
        section: {key: config.get(section, {}).get(key, default) for key, default in keys.items()}
        for section, keys in FREE_BELOW.items()
    }
    for section, key in (key_path.split(".") for key_path in FREE_IF_THERE):
        if key in config.get(section, {}):
            below[section][key] = config[section][key]
    return {**{key: config[key] for key in FREE if key in config}, **below}


def _binding_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    changes = differences(old, new)
    return "; ".join(str(change) for change in changes if not _may_change(change.key))


def _may_change(key: str) -> bool:
    section, _, below = key.partition(".")
    free = key in FREE_IF_THERE or below in FREE_BELOW.get(section, ())
    return free or (section in FREE and key not in FIXED)


def _with_defaults(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a configuration with defaults for newer keys, or unchanged if it cannot be read."""
    try:
        return resolve(config).model_dump(mode="json")
    except ConfigError:
        return config


def differences(
    old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = ""
) -> Iterator[ConfigChange]:
    """Yield the keys whose values differ."""
    for key in sorted(old.keys() | new.keys()):
        old_value, new_value = old.get(key, ...), new.get(key, ...)
        if old_value == new_value:
            continue
        if isinstance(old_value, Mapping) and isinstance(new_value, Mapping):
            yield from differences(old_value, new_value, f"{prefix}{key}.")
        else:
            yield ConfigChange(f"{prefix}{key}", old_value, new_value)


def _json_value(value: Any) -> Any:
    return None if value is ... else value


SIZES = ("hidden_size", "layers", "heads")  # of the tiny model


def check_effect(config: RunConfig) -> None:
    """Check that no setting would be ignored.

    Args:
        config: of the run.

    Raises:
        ConfigError: a setting would be ignored; the message says what to write.
    """
    for name, section in config.by_policy.items():
        try:
            _check_model(section.model)
            if not config.is_frozen(name):
                _check_update(section)
                _check_groups(section)
        except ConfigError as error:
            error.args = (f"policies.{name}: {error}" if config.policies else str(error),)
            raise


def _check_model(model: ModelConfig) -> None:
    if model.name != "tiny":
        for key in SIZES:
            value, default = getattr(model, key), ModelConfig.model_fields[key].default
            if value != default:
                raise ConfigError(
                    f"model.{key}={value} sizes the tiny model, and model.name is {model.name!r}, "
                    f"which has sizes of its own; leave it out, or write model.{key}: {default}."
                )
        return
    if model.lora is not None:
        raise ConfigError(
            "model.lora puts adapters on a pretrained model, and all weights of the tiny model are "
            "trained; leave model.lora out (null), or write model.name: smollm2-135m."
        )
    if model.dtype != "float32":
        raise ConfigError(
            f"model.dtype={model.dtype} is of a pretrained model, and the tiny model has float32; "
            "write model.dtype: float32, or model.name: smollm2-135m."
        )


def _check_update(config: RunConfig) -> None:
    learner = config.learner
    if learner.master_weights and config.model.weight_bytes >= 4:
        raise ConfigError(
            "learner.master_weights=true keeps copies in float32 of weights of 16 bits, and these "
            "have 32; write learner.master_weights: false, or model.dtype: bfloat16."
        )
    if learner.reduction_constant != 1.0 and learner.reduction != "constant":
        raise ConfigError(
            f"learner.reduction_constant={learner.reduction_constant:g} divides where "
            f"learner.reduction is constant, and it is {learner.reduction}; write "
            "learner.reduction: constant, or learner.reduction_constant: 1."
        )
    if learner.sharding != "none" and learner.ranks == 1:
        raise ConfigError(
            f"learner.sharding={learner.sharding} splits weights among learners, and this run has "
            "one; write learner.ranks: 2 (and learner.leaves: 2), or learner.sharding: none."
        )
    if learner.gradient_sync != "leaf" and learner.sharding == "none":
        raise ConfigError(
            f"learner.gradient_sync={learner.gradient_sync} is of learners that split weights; "
            "write learner.sharding: fsdp2, or learner.gradient_sync: leaf."
        )


def _check_groups(config: RunConfig) -> None:
    """Refuse a group-relative estimator where each initial state has one episode.

    Seats of one role are compared with each other, and candidates where the estimator reads them.
    """
    credit, rollout = config.credit.bind("credit"), config.rollout
    if not credit.group_relative or rollout.group_size > 1:
        return
    if "candidates" in required_services(credit) and rollout.candidates.count > 1:
        return
    games = [configured_game(section) for section in config.environments if section.weight]
    if all(len(set(game.roles)) == len(game.roles) for game in games):
        raise ConfigError(
            f"credit: {credit.plugin.name!r} compares plays of one initial state, and with "
            "rollout.group_size=1 each has one play, so that every advantage is 0; write "
            "rollout.group_size: 8 (a divisor of rollout.games_per_step), or credit: {name: mars}."
        )
