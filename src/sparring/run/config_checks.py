"""Checks of a configuration before a run starts, and the changes that a resumed run may make.

Every checkpoint holds its configuration without the keys that may change (``FREE_KEYS``), so that
manual edits of config.yaml are noticed. The keys that may change are in changes.jsonl; its first
line has their initial values. Each change adds a line: the step after which it was made, the old
value and the new one. A resumed checkpoint and its configuration determine the content of the file.
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
from sparring.config.sections import REPRODUCIBILITY_KEYS
from sparring.core.errors import ConfigError, RunError
from sparring.core.files import write_bytes_atomic
from sparring.environments.catalogue import configured_game
from sparring.run.checkpoint import Checkpoint
from sparring.run.events import read_lines
from sparring.run.folder import CONFIG, RunFolder

CHANGES, START = "changes.jsonl", "start"
SAVED = "config"  # name of the configuration in a checkpoint's state
FREE_KEYS = (
    "steps",
    "checkpoint",
    "store",
    "logging",
    "health",
    "name",
    "summary",
    "call_seconds",
    "scale",
)  # keys that may change when a run resumes
FIXED_NESTED = tuple(
    f"scale.{key}" for key in REPRODUCIBILITY_KEYS
)  # nested keys of FREE_KEYS that may not change
# nested keys that may change, with their defaults
FREE_NESTED = {"learner": {"ranks": 1, "sharding": "none", "gradient_sync": "leaf"}}
FREE_IF_PRESENT = ("learner.gpus",)  # nested keys that may change, and are recorded only if set


class ConfigChange(NamedTuple):
    """A dotted key whose value differs; the value ``...`` means that the key is absent."""

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
        RunError: a key that must not change differs.
    """
    changes = _list_changes(_with_defaults(folder.config()), config)
    if changes:
        raise RunError(
            f"{folder.path} was started with another configuration: {changes}. Resume without "
            "overrides."
        )


def describe_edits(config: RunConfig, latest: Checkpoint) -> str:
    """Describe how a configuration differs from a checkpoint's; "" if they are equal."""
    if SAVED not in latest.state:
        return ""
    return _list_changes(_with_defaults(latest.state[SAVED]), config.model_dump(mode="json"))


def fixed_settings(config: RunConfig) -> dict[str, Any]:
    """Return the settings that must not change; a checkpoint holds them."""
    settings = config.model_dump(mode="json")
    fixed_values = {key: value for key, value in settings.items() if key not in FREE_KEYS}
    for section, keys in FREE_NESTED.items():
        fixed_values[section] = {
            key: value
            for key, value in fixed_values[section].items()
            if key not in keys and f"{section}.{key}" not in FREE_IF_PRESENT
        }
    return {**fixed_values, "scale": {key: settings["scale"][key] for key in REPRODUCIBILITY_KEYS}}


def write_configuration(folder: RunFolder, config: RunConfig, latest: Checkpoint | None) -> None:
    """Write config.yaml, and add its changes to changes.jsonl, at the start of a run.

    Args:
        folder: the run folder, locked by the caller.
        config: the run's new configuration.
        latest: the checkpoint to resume from; None: the run starts from the beginning.

    Raises:
        RunError: config.yaml differs from the checkpoint's configuration, or the folder cannot be
            written.
    """
    settings = config.model_dump(mode="json")
    lines = [{"step": 0, START: _without_free_keys(settings)}]
    if latest is not None:
        edits = describe_edits(config, latest)
        if edits:
            raise RunError(
                f"{folder.path / CONFIG} was edited after step {latest.step} was "
                f"saved: {edits}. A run must keep its configuration: restore the old values, or "
                "train another run with the new ones."
            )
        lines = _lines_until(folder, latest.step)
        changes = differences(_settings_in_force(lines), _without_free_keys(settings))
        lines += [
            {
                "step": latest.step,
                "key": change.key,
                "old": _json_value(change.old),
                "new": _json_value(change.new),
            }
            for change in changes
            if _json_value(change.old) != _json_value(change.new)  # null: a removed key
        ]
    data = "".join(json.dumps(line, sort_keys=True) + "\n" for line in lines).encode()
    for name, contents in (
        (CHANGES, data),
        (CONFIG, to_yaml(config).encode()),
    ):  # changes.jsonl first, so that a kill between the writes loses no change
        path = folder.path / name
        if not path.exists() or path.read_bytes() != contents:
            write_bytes_atomic(path, contents)


def _lines_until(folder: RunFolder, step: int) -> list[dict[str, Any]]:
    lines = read_lines(folder.path / CHANGES)
    if not lines or not isinstance(lines[0].get(START), dict):
        return [{"step": 0, START: _without_free_keys(_with_defaults(folder.config()))}]
    return [
        line
        for index, line in enumerate(lines)
        if not index or (line["step"] < step and {"key", "new"} <= line.keys())
    ]


def _settings_in_force(lines: list[dict[str, Any]]) -> dict[str, Any]:
    settings: dict[str, Any] = json.loads(json.dumps({**FREE_NESTED, **lines[0][START]}))
    for line in lines[1:]:
        *sections, name = str(line["key"]).split(".")
        target = settings
        for section in sections:
            target = target.setdefault(section, {})
        target[name] = line["new"]
    return settings


def _without_free_keys(config: Mapping[str, Any]) -> dict[str, Any]:
    nested_settings = {
        section: {key: config.get(section, {}).get(key, default) for key, default in keys.items()}
        for section, keys in FREE_NESTED.items()
    }
    for section, key in (key_path.split(".") for key_path in FREE_IF_PRESENT):
        if key in config.get(section, {}):
            nested_settings[section][key] = config[section][key]
    return {**{key: config[key] for key in FREE_KEYS if key in config}, **nested_settings}


def _list_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    changes = differences(old, new)
    return "; ".join(str(change) for change in changes if not _may_change(change.key))


def _may_change(key: str) -> bool:
    section, _, nested_key = key.partition(".")
    is_free = key in FREE_IF_PRESENT or nested_key in FREE_NESTED.get(section, ())
    return is_free or (section in FREE_KEYS and key not in FIXED_NESTED)


def _with_defaults(config: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return resolve(config).model_dump(mode="json")
    except ConfigError:
        return config


def differences(
    old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = ""
) -> Iterator[ConfigChange]:
    """Yield each nested key whose value differs between two configurations."""
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


SIZES = ("hidden_size", "layers", "heads")  # keys that set sizes of the tiny model


def check_no_setting_is_ignored(config: RunConfig) -> None:
    """Check that no setting would be ignored.

    Args:
        config: the run's configuration.

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
                    f"model.{key}={value} sets a size of the tiny model, but model.name is "
                    f"{model.name!r}, whose sizes are fixed; leave it out, or write "
                    f"model.{key}: {default}."
                )
        return
    if model.lora is not None:
        raise ConfigError(
            "model.lora adds adapters to a pretrained model, but the tiny model trains all its "
            "weights; leave model.lora out (null), or write model.name: smollm2-135m."
        )
    if model.dtype != "float32":
        raise ConfigError(
            f"model.dtype={model.dtype} is for a pretrained model, but the tiny model has float32; "
            "write model.dtype: float32, or model.name: smollm2-135m."
        )


def _check_update(config: RunConfig) -> None:
    learner = config.learner
    if learner.master_weights and config.model.weight_bytes >= 4:
        raise ConfigError(
            "learner.master_weights=true keeps float32 copies of 16-bit weights, but these weights "
            "have 32 bits; write learner.master_weights: false, or model.dtype: bfloat16."
        )
    if learner.reduction_constant != 1.0 and learner.reduction != "constant":
        raise ConfigError(
            f"learner.reduction_constant={learner.reduction_constant:g} is the divisor of "
            f"learner.reduction: constant, but learner.reduction is {learner.reduction}; write "
            "learner.reduction: constant, or learner.reduction_constant: 1."
        )
    if learner.sharding != "none" and learner.ranks == 1:
        raise ConfigError(
            f"learner.sharding={learner.sharding} splits weights among learner ranks, but this run "
            "has one; write learner.ranks: 2 (and learner.leaves: 2), or learner.sharding: none."
        )
    if learner.gradient_sync != "leaf" and learner.sharding == "none":
        raise ConfigError(
            f"learner.gradient_sync={learner.gradient_sync} is for ranks that split weights; "
            "write learner.sharding: fsdp2, or learner.gradient_sync: leaf."
        )


def _check_groups(config: RunConfig) -> None:
    """Raise an error if a group-relative estimator would have groups of one trajectory only.

    Seats of one role form a group, and so do candidates if the estimator uses them.
    """
    credit, rollout = config.credit.bind("credit"), config.rollout
    if not credit.group_relative or rollout.group_size > 1:
        return
    if "candidates" in required_services(credit) and rollout.candidates.count > 1:
        return
    environments = [configured_game(section) for section in config.environments if section.weight]
    if all(len(set(environment.roles)) == len(environment.roles) for environment in environments):
        raise ConfigError(
            f"credit: {credit.plugin.name!r} compares episodes of one initial state, but with "
            "rollout.group_size=1 each has one episode, so every advantage is 0; write "
            "rollout.group_size: 8 (a divisor of rollout.games_per_step), or credit: {name: mars}."
        )
