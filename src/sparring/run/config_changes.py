"""What a run that goes on does otherwise than before: checked, written down, and config.yaml made
the configuration in force.

Every checkpoint holds the configuration it was trained with but for the keys that may change
(``FREE``), so an edit of config.yaml by hand is noticed. The keys that may change stand in
changes.jsonl: in its first line as the run began, then in one line per change with the step after
which it was made, the old value and the new one. The file is a function of the checkpoints gone on
from and of the configurations asked for.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sparring.config import RunConfig, resolve
from sparring.config.recipe import to_yaml
from sparring.config.scale import BINDING
from sparring.core.errors import ConfigError, RunError
from sparring.core.files import write_bytes_atomic
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
# keys below others that may, with their defaults
FREE_BELOW = {"learner": {"ranks": 1, "sharding": "none", "gradient_sync": "leaf"}}
FREE_IF_THERE = ("learner.gpus",)  # and others, which are written down only where they are given


class Change(NamedTuple):
    """A key in dotted form whose value differs; ``...`` stands for a key that is absent."""

    key: str
    old: Any
    new: Any

    def __str__(self) -> str:
        was, now = (
            "absent" if value is ... else textwrap.shorten(repr(value), 60)
            for value in (self.old, self.new)
        )
        return f"{self.key} differs ({was}, now {now})"


def check_same(folder: RunFolder, config: Mapping[str, Any]) -> None:
    """Check that a run may go on with this configuration.

    Keys that did not exist when it was started count as their defaults.

    Raises:
        RunError: anything differs that would make it another run.
    """
    changed = _binding(_completed(folder.config()), config)
    if changed:
        raise RunError(
            f"{folder.path} was started with another configuration: {changed}. Resume without "
            "overrides."
        )


def edits(config: RunConfig, latest: Checkpoint) -> str:
    """Return in words how a configuration differs from the one that a checkpoint was trained with.

    Nothing if it does not.

    Checkpoints of before this was recorded count as equal.
    """
    if SAVED not in latest.state:
        return ""
    return _binding(_completed(latest.state[SAVED]), config.model_dump(mode="json"))


def saved(config: RunConfig) -> dict[str, Any]:
    """Return the part of a configuration that a checkpoint holds: what makes a run this run."""
    whole = config.model_dump(mode="json")
    own = {key: value for key, value in whole.items() if key not in FREE}
    for section, keys in FREE_BELOW.items():
        own[section] = {
            key: value
            for key, value in own[section].items()
            if key not in keys and f"{section}.{key}" not in FREE_IF_THERE
        }
    return {**own, "scale": {key: whole["scale"][key] for key in BINDING}}


def adopt(folder: RunFolder, config: RunConfig, latest: Checkpoint | None) -> None:
    """Write down what a run starts or goes on with: config.yaml becomes this configuration,
    changes.jsonl says what has changed.

    Args:
        folder: locked by the caller.
        config: what the run goes on with.
        latest: the checkpoint it goes on from; None starts it from the beginning.

    Raises:
        RunError: config.yaml is not what the checkpoint was trained with, or the folder cannot be
            written.
    """
    now = config.model_dump(mode="json")
    lines = [{"step": 0, START: _free(now)}]
    if latest is not None:
        changed = edits(config, latest)
        if changed:
            raise RunError(
                f"{folder.path / CONFIG} was edited after step {latest.step} was "
                f"saved: {changed}. A run goes on only as itself: put the old values back, or "
                "train another run with the new ones."
            )
        lines = _before(folder, latest.step)
        found = differences(_in_force(lines), _free(now))
        lines += [
            {"step": latest.step, "key": c.key, "old": _plain(c.old), "new": _plain(c.new)}
            for c in found
            if _plain(c.old) != _plain(c.new)  # a key that is left out again stands as null
        ]
    data = "".join(json.dumps(line, sort_keys=True) + "\n" for line in lines).encode()
    for name, contents in (
        (CHANGES, data),
        (CONFIG, to_yaml(config).encode()),
    ):  # in this order: a kill between loses no change
        path = folder.path / name
        if not path.exists() or path.read_bytes() != contents:
            write_bytes_atomic(path, contents)


def _before(folder: RunFolder, step: int) -> list[dict[str, Any]]:
    """Return the lines of changes.jsonl on what was in force up to a step.

    A run of before there were any began with config.yaml.
    """
    lines = read_lines(folder.path / CHANGES)
    if not lines or not isinstance(lines[0].get(START), dict):
        return [{"step": 0, START: _free(_completed(folder.config()))}]
    return [
        line
        for number, line in enumerate(lines)
        if not number or (line["step"] < step and {"key", "new"} <= line.keys())
    ]


def _in_force(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the keys that may change, after these lines of changes.jsonl."""
    settings: dict[str, Any] = json.loads(json.dumps({**FREE_BELOW, **lines[0][START]}))
    for line in lines[1:]:
        *sections, name = str(line["key"]).split(".")
        target = settings
        for section in sections:
            target = target.setdefault(section, {})
        target[name] = line["new"]
    return settings


def _free(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a configuration that may change when a run goes on."""
    below = {
        section: {key: config.get(section, {}).get(key, usual) for key, usual in keys.items()}
        for section, keys in FREE_BELOW.items()
    }
    for section, key in (one.split(".") for one in FREE_IF_THERE):
        if key in config.get(section, {}):
            below[section][key] = config[section][key]
    return {**{key: config[key] for key in FREE if key in config}, **below}


def _binding(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Return in words what differs that would make it another run."""
    found = differences(old, new)
    return "; ".join(str(change) for change in found if not _may_change(change.key))


def _may_change(key: str) -> bool:
    """Return whether a key, in dotted form, may differ when a run goes on."""
    section, _, below = key.partition(".")
    free = key in FREE_IF_THERE or below in FREE_BELOW.get(section, ())
    return free or (section in FREE and key not in FIXED)


def _completed(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a configuration with the keys that have come since, or as it is where it can no longer
    be read.
    """
    try:
        return resolve(config).model_dump(mode="json")
    except ConfigError:
        return config


def differences(
    old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = ""
) -> Iterator[Change]:
    """Yield the keys whose values differ."""
    for key in sorted(old.keys() | new.keys()):
        before, after = old.get(key, ...), new.get(key, ...)
        if before == after:
            continue
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from differences(before, after, f"{prefix}{key}.")
        else:
            yield Change(f"{prefix}{key}", before, after)


def _plain(value: Any) -> Any:
    """Return a value as JSON holds it."""
    return None if value is ... else value
