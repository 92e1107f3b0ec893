"""Workers beside a run, as long as it lasts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from sparring.config import RunConfig
from sparring.engine.distributed import Distributed
from sparring.engine.fleet.base import Fleet
from sparring.engine.fleet.processes import Processes
from sparring.engine.local import LocalEngine

WEIGHTS = "weights"  # folder of a run while workers play


def fleet_of(config: RunConfig) -> Fleet:
    """Return the fleet that a configuration asks for."""
    scale = config.scale
    return Processes(config.model_dump(mode="json"), scale.count, carry=scale.weights == "pipe")


@contextlib.contextmanager
def playing(engine: LocalEngine, folder: Path) -> Iterator[None]:
    """Let the plays of an engine be played where its configuration says, as a context.

    Args:
        engine: of a run.
        folder: of the run.
    """
    scale = engine.config.scale
    if not scale.workers:
        yield
        return
    fleet = fleet_of(engine.config)
    try:
        engine.elsewhere = Distributed(engine, fleet, folder / WEIGHTS)
        yield
    finally:
        fleet.close()
        if engine.elsewhere is not None:
            engine.elsewhere.close()
            engine.elsewhere = None
