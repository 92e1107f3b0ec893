"""The optional supervised warm-up of a run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from sparring.config import RunConfig
from sparring.core.process import GracefulStop
from sparring.core.records import DEMONSTRATOR
from sparring.engine.protocol import Engine
from sparring.play.spec import EpisodeSpec


class WarmupReport(NamedTuple):
    """An update of the warm-up."""

    update: int  # number of the update, from 1
    updates: int
    loss: float  # mean over the policies, nats per token
    seconds: float  # duration of this update


def warm_up(
    config: RunConfig,
    engine: Engine,
    *,
    watch: Callable[[WarmupReport], None] | None = None,
    stop: GracefulStop | None = None,
) -> None:
    """Imitate a random legal player, or ``warmup.player``, for ``warmup.updates`` updates.

    The resulting weights are the reference policy of the run.

    Args:
        config: the run's configuration.
        engine: the engine whose policies are trained.
        watch: called after every update.
        stop: checked before every update.
    """
    root = engine.root.child("warmup")
    for update in range(config.warmup.updates):
        if stop is not None and stop.requested:
            return
        specs, start = [], time.perf_counter()
        for number in range(config.warmup.games * len(config.league.tags)):
            name = list(config.league.tags)[number // config.warmup.games]
            index = number % config.warmup.games  # each learner imitates the same episodes
            stream = root.child(update).child(index)
            game = engine.environments[index % len(engine.environments)][0]
            specs.append(
                EpisodeSpec(
                    game=game,
                    episode_id=number,
                    group_id=number,
                    deal=stream.child("deal"),
                    stream=stream.child("play"),
                    seats=(DEMONSTRATOR.for_policy(name),) * game.num_seats,
                    trained=(True,) * game.num_seats,
                )
            )
        loss = engine.imitate(engine.play(specs).require_any().episodes)
        if watch is not None:
            seconds = time.perf_counter() - start
            watch(WarmupReport(update + 1, config.warmup.updates, loss, seconds))
    if config.warmup.updates:
        engine.set_reference()
