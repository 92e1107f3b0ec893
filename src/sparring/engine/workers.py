"""Workers and further learners beside a run, as long as it lasts."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from sparring.config import RunConfig
from sparring.config.scale import FRESH
from sparring.engine.fleet.base import Fleet
from sparring.engine.local import LocalEngine
from sparring.engine.placing import check_there, for_worker

WEIGHTS, LEARNERS = "weights", "learners"  # folders of a run while workers play or several learn


def fleet_of(config: RunConfig) -> Fleet | None:
    """Return the fleet that a configuration asks for; None: the engine plays by itself."""
    scale, settings = config.scale, config.model_dump(mode="json")
    if scale.fleet == "here":
        if not scale.lag:
            return None
        from sparring.engine.fleet.here import Here

        return Here(settings)
    check_there(scale.gpus, f"scale.gpus={list(scale.gpus)}")
    if scale.fleet == "ray":
        from sparring.engine.fleet.ray import RayFleet

        return RayFleet(settings)
    from sparring.engine.fleet.processes import Processes

    own = for_worker(settings, 1 if scale.gpus else 0)
    return Processes(own, scale.count, carry=scale.weights == "pipe", gpus=scale.gpus)


@contextlib.contextmanager
def playing(engine: LocalEngine, folder: Path) -> Iterator[None]:
    """Let the plays of an engine be played where its configuration says, as a context.

    Args:
        engine: of a run.
        folder: of the run.
    """
    fleet = fleet_of(engine.config)
    if fleet is None:
        yield
        return
    from sparring.engine.distributed import Distributed
    from sparring.engine.fresh import FreshWorkers

    try:
        kind = FreshWorkers if engine.config.scale.order == FRESH else Distributed
        engine.elsewhere = kind(engine, fleet, folder / WEIGHTS)
        yield
    finally:
        fleet.close()
        if engine.elsewhere is not None:
            engine.elsewhere.close()
            engine.elsewhere = None
        shutil.rmtree(folder / WEIGHTS, ignore_errors=True)  # also where no worker could be started


@contextlib.contextmanager
def learning(engine: LocalEngine, folder: Path) -> Iterator[None]:
    """Let an engine learn with as many learners as its configuration says, as a context.

    Args:
        engine: of a run.
        folder: of the run.
    """
    if engine.config.learner.ranks == 1:
        shutil.rmtree(folder / LEARNERS, ignore_errors=True)  # of several that were killed
        yield
        return
    from sparring.engine.ranks import Ranks
    from sparring.engine.shards import Shards

    kind = Shards if engine.config.learner.shards else Ranks
    engine.ranks = kind(engine.config, folder / LEARNERS)
    engine.ranks.serve(engine.policies[name] for name in engine.learners)
    try:
        yield
    finally:
        engine.ranks.end()
        engine.ranks = None
