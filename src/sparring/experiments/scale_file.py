"""The times and sizes of a run, and the file that holds them."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from sparring.errors import ConfigError
from sparring.system.files import disk_errors, parse_json, write_bytes_atomic

VERSION = 1
ADVICE = "make it anew by `sparring scale probe RECIPE`"
COUNTS = ("steps", "plays", "unit_games", "units")


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """Times and sizes of a run, with one thread. All times are in seconds.

    Args:
        recipe: the run's name.
        steps: that were measured.
        plays: of a step.
        unit_games: plays of a unit.
        units: of a step.
        unit: that a worker takes for a unit, mean.
        log_mean: mean of the logarithms of the units' seconds.
        log_sigma: their standard deviation.
        play: that a worker takes for a play, mean.
        together: that a worker saves with every unit of a message but the first.
        learner: of a step's credit and update, median, as all that follow.
        seating: of the training process, until a step's plays are seated.
        write: of the training process, to write the weights.
        load: of a worker, to read them.
        message: of the training process for a unit: to encode its task and decode its answer.
        alone: of a step in one process, without workers.
        task_bytes: of a unit's task.
        answer_bytes: of a unit's answer.
        weights_bytes: of the weights that a step is played with.
        memory_bytes: of a worker, its program counted.
    """

    recipe: str
    steps: int
    plays: int
    unit_games: int
    units: int
    unit: float
    log_mean: float
    log_sigma: float
    play: float
    together: float
    learner: float
    seating: float
    write: float
    load: float
    message: float
    alone: float
    task_bytes: int
    answer_bytes: int
    weights_bytes: int
    memory_bytes: int

    def save(self, path: Path) -> None:
        """Write it as JSON.

        Raises:
            RunError: the disk is full or not writable.
        """
        data = json.dumps({"version": VERSION, **asdict(self)}, indent=1).encode()
        with disk_errors(path):
            write_bytes_atomic(path, data + b"\n")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return what ``save`` wrote.

        Raises:
            ConfigError: there is no such file, or it is damaged, or of a newer version.
        """
        try:
            found = parse_json(path.read_bytes())
        except OSError as error:
            why = error.strerror or "it cannot be read"
            raise ConfigError(f"{path} cannot be read ({why}); {ADVICE}.") from error
        except ValueError as error:
            raise ConfigError(f"{path} holds no probe (it is no JSON); {ADVICE}.") from error
        if not isinstance(found, dict):
            raise ConfigError(f"{path} holds no probe (it is no table of figures); {ADVICE}.")
        version = found.pop("version", None)
        if version != VERSION:
            raise ConfigError(f"{path} is of version {version!r:.40}, not {VERSION}; {ADVICE}.")
        wrong = _wrong(found, {one.name: one.type for one in fields(cls)})
        if wrong:
            raise ConfigError(f"{path} holds no probe ({wrong}); {ADVICE}.")
        return cls(**found)


def _wrong(found: dict[str, Any], types: dict[str, Any]) -> str:
    """Return what is wrong with the fields of a probe; nothing if all are right."""
    for name in types:
        if name not in found:
            return f"{name} is missing"
    for name, value in found.items():
        if name not in types:
            return f"{name!r:.40} is no figure of a probe"
        if name == "recipe":
            if not isinstance(value, str):
                return "recipe is no text"
        elif isinstance(value, bool) or not isinstance(value, int | float):
            return f"{name} is no number"
        elif not math.isfinite(value) or (value < 0 and name != "log_mean"):
            return f"{name} is no number from 0 up"
        elif types[name] == "int" and not isinstance(value, int):
            return f"{name} is no whole number"
        elif value < 1 and name in COUNTS:
            return f"{name} is not 1 or more"
    return "" if found["unit"] > 0 and found["alone"] > 0 else "unit or alone is 0"
