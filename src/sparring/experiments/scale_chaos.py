"""A run without workers and the same one on workers that are harmed: their bytes compared.

In fresh order there are no bytes to compare: the harmed run's plays are counted instead.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparring.config import RunConfig, resolve
from sparring.engine.admission import Account
from sparring.engine.fleet.base import Fleet
from sparring.engine.fleet.chaos import Chaos, Harm
from sparring.engine.local import LocalEngine
from sparring.engine.workers import playing
from sparring.recipe import to_yaml
from sparring.run.events import METRICS, TIMING, read_lines
from sparring.run.folder import RunFolder
from sparring.run.fresh import account_of
from sparring.run.loop import train
from sparring.system.files import file_digest

RESTARTS = 100_000  # in an hour: whoever kills workers does not want them to be given up for it
COUNTED = (
    "lost_workers",
    "resent_units",
    "timed_out_units",
    "duplicate_units",
    "refused_weights",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """How a run ended: SHA-256 of its last weights and of its figures, and how long it took."""

    weights: str
    metrics: str
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """A quiet run, a harmed one, what was done to it, and what it counted."""

    quiet: Ended
    harmed: Ended
    done: dict[str, int]
    counted: dict[str, int]

    @property
    def same(self) -> bool:
        """Whether both ended with the same bytes."""
        found = [(ended.weights, ended.metrics) for ended in (self.quiet, self.harmed)]
        return found[0] == found[1]


@dataclass(frozen=True, kw_only=True, slots=True)
class Accounted:
    """A harmed run in fresh order: what became of its plays after each step, what was done to it,
    what it counted, and how long it took.
    """

    accounts: tuple[Account, ...]
    done: dict[str, int]
    counted: dict[str, int]
    seconds: float

    @property
    def balances(self) -> bool:
        """Whether after every step each play that was issued is in one place."""
        return bool(self.accounts) and all(account.balances for account in self.accounts)


def accounted(
    config: RunConfig,
    folder: Path,
    harm: Harm,
    *,
    fleet: str = "processes",
    workers: int = 2,
    seed: int = 0,
    tell: Callable[[str], None] = lambda line: None,
) -> Accounted:
    """Train in fresh order on workers that are harmed; see ``compare``.

    Raises:
        SparringError: the run cannot be had.
    """
    path = folder / "harmed"
    tell(f"training in fresh order on {workers} workers that are harmed")
    ended, done = _harmed(on(config, fleet, workers), path, harm, seed)
    return Accounted(
        accounts=tuple(account_of(line) for line in read_lines(path / METRICS)),
        done=done,
        counted=_counted(path),
        seconds=ended.seconds,
    )


def compare(
    config: RunConfig,
    folder: Path,
    harm: Harm,
    *,
    fleet: str = "processes",
    workers: int = 2,
    seed: int = 0,
    tell: Callable[[str], None] = lambda line: None,
) -> Compared:
    """Train without workers, and then on workers that are harmed.

    Args:
        config: of the run; it is trained with one thread, as bytes are promised for that.
        folder: where the folders of the two runs are made, ``quiet`` and ``harmed``.
        harm: what is done.
        fleet: where the workers run, as in the configuration.
        workers: how many there are.
        seed: of the harm.
        tell: called with a line when something begins.

    Raises:
        SparringError: a run cannot be had.
    """
    path = folder / "harmed"
    tell("training without workers")
    quiet = trained(on(config, "here", 0), folder / "quiet")
    tell(f"training on {workers} workers that are harmed")
    wild, done = _harmed(on(config, fleet, workers), path, harm, seed)
    return Compared(quiet=quiet, harmed=wild, done=done, counted=_counted(path))


def _harmed(config: RunConfig, path: Path, harm: Harm, seed: int) -> tuple[Ended, dict[str, int]]:
    """Train on workers that are harmed; return how it ended, and what was done."""
    made: list[Chaos] = []

    def through(fleet: Fleet) -> Fleet:
        made.append(Chaos(fleet, seed, harm))
        return made[0]

    ended = trained(config, path, through)
    return ended, made[0].counts()


def _counted(path: Path) -> dict[str, int]:
    """Return what a run has counted, over all of its steps."""
    counted = Counter[str]()
    for line in read_lines(path / TIMING):
        counted.update({name: int(line.get(name, 0)) for name in COUNTED})
    return dict(counted)


def on(config: RunConfig, fleet: str, workers: int) -> RunConfig:
    """Return a configuration with one thread, played on a fleet."""
    values: dict[str, Any] = config.model_dump(mode="json")
    own = {"fleet": fleet, "workers": workers, "restarts": RESTARTS}
    return resolve({**values, "threads": 1, "scale": {**values["scale"], **own}})


def trained(
    config: RunConfig, path: Path, through: Callable[[Fleet], Fleet] | None = None
) -> Ended:
    """Train in a folder; return how it ended."""
    began, engine = time.perf_counter(), LocalEngine(config)
    folder = RunFolder.create(path, to_yaml(config))
    with folder, playing(engine, path, through):
        train(config, engine, folder)
    seconds = time.perf_counter() - began
    files = sorted(folder.checkpoint().path.glob("*.safetensors"))
    weights = hashlib.sha256(json.dumps([[f.name, file_digest(f)] for f in files]).encode())
    return Ended(weights=weights.hexdigest(), metrics=file_digest(path / METRICS), seconds=seconds)
