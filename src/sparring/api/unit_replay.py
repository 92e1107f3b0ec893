"""Plays one unit of a step again in this process, one episode at a time, to see its errors.

A unit is the group of episodes that one worker plays at once. The configuration and the state
before a step determine the step's episodes, so the checkpoint of that state is enough. Earlier
units of the step are played only if later units branch from them.
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

LOGGER = "sparring.play.rollout"  # logs the errors of episodes that are restarted


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayedEpisode:
    """Outcome of one episode that was played again; ``returns`` None: it was given up."""

    spec: EpisodeSpec
    returns: tuple[float, ...] | None
    turns: int
    num_restarts: int
    tracebacks: tuple[str, ...]  # tracebacks of the errors of the environment's code


class _TraceCollector(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.traces: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        args = record.args if isinstance(record.args, tuple) else ()
        errors = [value for value in args if isinstance(value, BaseException)]
        self.traces += ["".join(traceback.format_exception(error)).rstrip() for error in errors]


def unit_of(path: Path, step: int, unit: int) -> tuple[LocalEngine, list[EpisodeSpec], ReplyJudges]:
    """Return (engine before the step, episodes of the unit, how replies are judged).

    Args:
        path: the run folder.
        step: number of the step as in metrics.jsonl, from 1.
        unit: number of the unit within the step, from 0.

    Raises:
        CheckpointError: there is no checkpoint of the state before the step.
        ConfigError: there is no such step, or the step has fewer units.
    """
    config, engine, state = _load_before(path, step)
    games = [game for game, _ in engine.environments]
    inputs = StepInputs.of(engine, state, step - 1)
    requests = request_plays(config, engine, Methods.of(config, games), inputs)
    num_units, request = 0, next(requests, None)
    while request is not None:
        if request.judges is not None:
            units = split_into_units(
                engine.with_named_policies(request.specs), config.scale.unit_games
            )
            if unit - num_units < len(units):
                return engine, list(units[unit - num_units]), request.judges
            num_units += len(units)
        try:
            request = requests.send(engine.play(request.specs, request.judges))
        except StopIteration:
            break
    raise ConfigError(
        f"Step {step} has {num_units} units of {config.scale.unit_games} plays "
        f"(scale.unit_games); write a number from 0 to {num_units - 1}."
    )


def replay(
    engine: LocalEngine, specs: Sequence[EpisodeSpec], judging: ReplyJudges
) -> Iterator[tuple[EpisodeSpec, ReplayedEpisode | None]]:
    """Yield (spec, None) before each episode and (spec, outcome) after it.

    Raises:
        SparringError: an error that no retry can correct, as in a run.
    """
    traces, logger = _TraceCollector(), logging.getLogger(LOGGER)
    logger.addHandler(traces)
    old_propagate, logger.propagate = logger.propagate, False
    try:
        for spec in specs:
            yield spec, None
            traces.traces = []
            episodes, counts = engine.play([spec], judging)
            episode = episodes[0] if episodes else None
            yield (
                spec,
                ReplayedEpisode(
                    spec=spec,
                    returns=None if episode is None else episode.returns,
                    turns=0 if episode is None else len(episode.turns),
                    num_restarts=counts.retried,
                    tracebacks=tuple(traces.traces),
                ),
            )
    finally:
        logger.removeHandler(traces)
        logger.propagate = old_propagate


def _load_before(path: Path, step: int) -> tuple[RunConfig, LocalEngine, RunState]:
    folder = RunFolder.open(path)
    config = resolve(folder.config())
    if config.scale.order == FRESH:
        raise ConfigError(
            f"{path} was played in fresh order (scale.order), in which units belong to no step and "
            "cannot be played again; to see the stored episodes, run "
            f"`sparring replay {path}`."
        )
    if not 1 <= step <= config.steps:
        raise ConfigError(f"{path} has no step {step}; write a number from 1 to {config.steps}.")
    last_learned_step = max(step - 1 - config.scale.lag, 0)  # steps that the weights learned from
    if not last_learned_step:
        engine = LocalEngine(config)
        warm_up(config, engine)
        return config, engine, begin_league(config, engine, RunState())
    stored_steps = checkpoint.steps(path)
    if last_learned_step not in stored_steps:
        replayable_steps = sorted(
            {
                *range(1, config.scale.lag + 2),
                *(
                    stored_step + 1 + config.scale.lag
                    for stored_step in stored_steps
                    if stored_step < config.steps
                ),
            }
        )
        raise CheckpointError(
            f"Step {step} of {path} begins where step {last_learned_step} ended, but there is no "
            f"checkpoint of that step. Steps that can be played again: "
            f"{', '.join(map(str, replayable_steps))}. `sparring train --run {path} --resume "
            "checkpoint.every=1` writes a checkpoint of every step."
        )
    config, engine, _ = load_run(path, last_learned_step)
    source = folder.checkpoint(last_learned_step)
    state = RunState.restored(
        source.path, source.step, source.state, ignored_keys=frozenset({SAVED})
    )
    return config, engine, restart_learners(config, engine, state)
