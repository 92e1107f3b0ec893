"""Training runs in fresh order on workers with injected faults, and the accounts of their episodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from sparring.config import RunConfig, resolve
from sparring.config.recipe import to_yaml
from sparring.engine import run_processes as workers
from sparring.engine.local import LocalEngine
from sparring.engine.workers.episode_budget import EpisodeBudget
from sparring.engine.workers.fleet.base import Fleet
from sparring.run.events import METRICS, TIMING, read_lines
from sparring.run.folder import RunFolder
from sparring.run.loop import train
from tests.engine.fleet.faulty_fleet import FaultPlan, FaultyFleet

MAX_RESTARTS = 100_000  # largest number of restarts per hour, so that killed workers are always started again
COUNT_NAMES = ("lost_workers", "resent_units", "timed_out_units", "duplicate_units", "refused_weights")


@dataclass(frozen=True, kw_only=True, slots=True)
class FaultyRun:
    accounts: tuple[EpisodeBudget, ...]
    done: dict[str, int]
    counted: dict[str, int]

    @property
    def balances(self) -> bool:
        return bool(self.accounts) and all(account.is_balanced for account in self.accounts)


def train_with_faults(
    config: RunConfig, folder: Path, faults: FaultPlan, *, num_workers: int, seed: int = 0
) -> FaultyRun:
    """Train in fresh order on worker processes with injected faults, in the subfolder ``harmed``."""
    path, fleets = folder / "harmed", list[FaultyFleet]()

    def wrap_fleet(fleet: Fleet) -> Fleet:
        fleets.append(FaultyFleet(fleet, seed, faults))
        return fleets[0]

    train_run(with_fleet(config, "processes", num_workers), path, wrap_fleet)
    counts = Counter[str]()
    for line in read_lines(path / TIMING):
        counts.update({name: int(line.get(name, 0)) for name in COUNT_NAMES})
    return FaultyRun(
        accounts=tuple(count_by_state(line) for line in read_lines(path / METRICS)),
        done=fleets[0].counts(),
        counted=dict(counts),
    )


def count_by_state(metrics: Any) -> EpisodeBudget:
    return EpisodeBudget.of({name: metrics[f"{name}_games"] for name in asdict(EpisodeBudget())})


def wrapped_fleet(wrap_fleet: Callable[[Fleet], Fleet] | None) -> AbstractContextManager[Any]:
    if wrap_fleet is None:
        return nullcontext()
    original_make_fleet = workers.make_fleet
    return mock.patch.object(workers, "make_fleet", lambda config: wrap_fleet(original_make_fleet(config)))


def with_fleet(config: RunConfig, fleet: str, num_workers: int) -> RunConfig:
    values: dict[str, Any] = config.model_dump(mode="json")
    changes = {"fleet": fleet, "workers": num_workers, "restarts": MAX_RESTARTS}
    return resolve({**values, "threads": 1, "scale": {**values["scale"], **changes}})


def train_run(config: RunConfig, path: Path, wrap_fleet: Callable[[Fleet], Fleet] | None = None) -> None:
    engine = LocalEngine(config)
    folder = RunFolder.create(path, to_yaml(config))
    with folder, wrapped_fleet(wrap_fleet), workers.run_workers(engine, path):
        train(config, engine, folder)
