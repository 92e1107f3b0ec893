"""One unit of a step played again in this process, play by play, where errors show.

What a step plays is a function of the run's configuration and of its state before the step, so the
checkpoint of that state is all that is needed. Units before the one that is asked for are played
only where later ones begin in the middle of their plays.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparring.api.load import load_run
from sparring.config import RunConfig, resolve
from sparring.config.sections import FRESH
from sparring.core.errors import CheckpointError, ConfigError
from sparring.engine.local import LocalEngine
from sparring.engine.protocol import ReplyJudges
from sparring.engine.workers.units import split_into_units
from sparring.play.spec import EpisodeSpec
from sparring.run import checkpoint
from sparring.run.config_checks import SAVED
from sparring.run.folder import RunFolder
from sparring.run.league_step import begin_league, restart_learners
from sparring.run.state import RunState
from sparring.run.step import Methods, StepInputs, request_plays
from sparring.run.warmup import warm_up

LOGGER = "sparring.play.rollout"  # says what a play raised that is begun anew


@dataclass(frozen=True, kw_only=True, slots=True)
class Replayed:
    """How a play went: its returns, or that it was given up; how often it was begun anew."""

    spec: EpisodeSpec
    returns: tuple[float, ...] | None
    turns: int
    retried: int
    raised: tuple[str, ...]  # traces of what its code raised


class _Traces(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        args = record.args if isinstance(record.args, tuple) else ()
        errors = [value for value in args if isinstance(value, BaseException)]
        self.found += ["".join(traceback.format_exception(error)).rstrip() for error in errors]


def unit_of(path: Path, step: int, unit: int) -> tuple[LocalEngine, list[EpisodeSpec], ReplyJudges]:
    """Return a run as it was before a step, and the plays of a unit of that step.

    Args:
        path: the run folder.
        step: its number as in metrics.jsonl, from 1.
        unit: its number within the step, from 0.

    Raises:
        CheckpointError: there is no checkpoint of the state before the step.
        ConfigError: there is no such step, or it has fewer units.
    """
    config, engine, state = _before(path, step)
    games = [game for game, _ in engine.environments]
    opened = StepInputs.of(engine, state, step - 1)
    asking = request_plays(config, engine, Methods.of(config, games), opened)
    units, wanted = 0, next(asking, None)
    while wanted is not None:
        if wanted.judging is not None:
            parts = split_into_units(engine.seated(wanted.specs), config.scale.unit_games)
            if unit - units < len(parts):
                return engine, list(parts[unit - units]), wanted.judging
            units += len(parts)
        try:
            wanted = asking.send(engine.play(wanted.specs, wanted.judging))
        except StopIteration:
            break
    raise ConfigError(
        f"Step {step} has {units} units of {config.scale.unit_games} plays "
        f"(scale.unit_games); write a number from 0 to {units - 1}."
    )


def replay(
    engine: LocalEngine, specs: Sequence[EpisodeSpec], judging: ReplyJudges
) -> Iterator[tuple[EpisodeSpec, Replayed | None]]:
    """Yield each play before it is played, with None, and after it, with how it went.

    Raises:
        SparringError: what no retry mends, as in a run.
    """
    traces, logger = _Traces(), logging.getLogger(LOGGER)
    logger.addHandler(traces)
    before, logger.propagate = logger.propagate, False
    try:
        for spec in specs:
            yield spec, None
            traces.found = []
            episodes, counts = engine.play([spec], judging)
            whole = episodes[0] if episodes else None
            yield (
                spec,
                Replayed(
                    spec=spec,
                    returns=None if whole is None else whole.returns,
                    turns=0 if whole is None else len(whole.turns),
                    retried=counts.retried,
                    raised=tuple(traces.found),
                ),
            )
    finally:
        logger.removeHandler(traces)
        logger.propagate = before


def _before(path: Path, step: int) -> tuple[RunConfig, LocalEngine, RunState]:
    """Return a run as it was when a step's plays were begun."""
    folder = RunFolder.open(path)
    config = resolve(folder.config())
    if config.scale.order == FRESH:
        raise ConfigError(
            f"{path} was played in fresh order (scale.order), in which no step has units of its "
            "own and no unit can be played again; look at the plays that it has stored, with "
            f"`sparring replay {path}`."
        )
    if not 1 <= step <= config.steps:
        raise ConfigError(f"{path} has no step {step}; write a number from 1 to {config.steps}.")
    done = max(step - 1 - config.scale.lag, 0)  # steps that had been learnt from
    if not done:
        engine = LocalEngine(config)
        warm_up(config, engine)
        return config, engine, begin_league(config, engine, RunState())
    there = checkpoint.steps(path)
    if done not in there:
        again = sorted(
            {
                *range(1, config.scale.lag + 2),
                *(one + 1 + config.scale.lag for one in there if one < config.steps),
            }
        )
        raise CheckpointError(
            f"Step {step} of {path} begins where step {done} ended, of which there is no "
            f"checkpoint. Steps that can be played again: {', '.join(map(str, again))}. `sparring "
            f"train --run {path} --resume checkpoint.every=1` leaves a checkpoint of every step."
        )
    config, engine, _ = load_run(path, done)
    found = folder.checkpoint(done)
    state = RunState.restored(found.path, found.step, found.state, apart=frozenset({SAVED}))
    return config, engine, restart_learners(config, engine, state)
