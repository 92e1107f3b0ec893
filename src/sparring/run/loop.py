"""The training loop.

    for each step:  seat -> play -> credit -> update -> league -> measure -> record -> health ->
    checkpoint

Config, seed and code determine a run; its whole state is in the engine and in one RunState, and a
checkpoint holds both. Random streams have no state. A resumed run first removes the lines written
after its checkpoint. So it ends with the same weights and metrics as an uninterrupted run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sparring.config import RunConfig
from sparring.config.sections import FRESH
from sparring.core.errors import DivergedError, PluginError
from sparring.core.files import disk_errors
from sparring.core.process import GracefulStop, settled_heap
from sparring.core.schedule import parse
from sparring.engine.protocol import Engine
from sparring.league.meta_game import apart_keys
from sparring.measure.initial_states import SeenInitialStates
from sparring.play.store import CreditStore, EpisodeStore
from sparring.run import checkpoint
from sparring.run.config_checks import SAVED, fixed_settings, write_configuration
from sparring.run.evaluation import Evaluator, answer_of
from sparring.run.events import HealthMonitor, MetricsWriter, Sinks, stop_message
from sparring.run.folder import RunFolder
from sparring.run.league_step import begin_league, league_step, restart_learners
from sparring.run.pipeline import FreshSteps, Prefetch
from sparring.run.state import RunState
from sparring.run.step import Methods, StepSource, play_round
from sparring.run.warmup import WarmupReport, warm_up


@dataclass(frozen=True, kw_only=True, slots=True)
class StepReport:
    """The results of a step, for a progress display."""

    step: int  # finished steps
    steps: int  # all steps of the run
    metrics: Mapping[str, float]
    seconds: float  # wall-clock time of the step
    games: int
    timing: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()  # messages of health rules with a new finding


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSummary:
    """The end of a run: steps, last metrics, and the message of a health rule that stopped it."""

    steps: int
    finished: bool
    metrics: Mapping[str, float]
    folder: Path
    stopped_by: str = ""


@settled_heap()
def train(
    config: RunConfig,
    engine: Engine,
    folder: RunFolder,
    *,
    resume: bool = False,
    watch: Callable[[StepReport], None] | None = None,
    on_warmup: Callable[[WarmupReport], None] | None = None,
    on_evaluation: Callable[[int, int], None] | None = None,
    stop: GracefulStop | None = None,
) -> RunSummary:
    """Train until all steps are done, or a caller or a health rule stops the run.

    Whenever the function returns, the folder has a checkpoint to resume from.

    Args:
        config: the resolved configuration.
        engine: an engine that runs the model, newly made from ``config``.
        folder: the run folder, locked by the caller.
        resume: whether to resume from the folder's last good checkpoint, or from the start if
            there is none.
        watch: called after every step.
        on_warmup: called after every update of the warm-up.
        on_evaluation: called with the number of finished games of an evaluation, and of all games.
        stop: checked after every step, and before every update of the warm-up.

    Raises:
        RunError: the folder cannot be written or read.
        RolloutError: games fail beyond all retries.
        DivergedError: a value is not finite; this step is not saved.
    """
    games = [game for game, _ in engine.environments]
    methods, seen_states = Methods.of(config, games), SeenInitialStates(config, games)
    evaluator = Evaluator(games, config.evaluation, methods.oracles, seen_states, on_evaluation)
    state, saved_path, notes = _restore(config, engine, folder, resume)
    current_step, halt = 0, ""  # step 0 is the warm-up; ``halt`` is the text of a stopping rule
    writer = MetricsWriter(folder.path, Sinks.of(config, folder.path, state.step))
    store, credit = EpisodeStore(folder.path / "episodes"), CreditStore(folder.path / "credit")
    for record in (writer, store, credit):
        record.truncate_after(state.step)
    source = step_source(config, engine, methods)
    last_metrics: dict[str, float] = writer.latest()
    monitor = HealthMonitor(config.health, config.steps, writer.lines(), config.policies)
    try:
        if state.step == 0:
            warm_up(config, engine, watch=on_warmup, stop=stop)
        state = begin_league(config, engine, state)
        while state.step < config.steps and not halt and not (stop is not None and stop.requested):
            step_start, current_step = time.perf_counter(), state.step + 1
            recorded = config.store.every > 0 and current_step % config.store.every == 0
            state = restart_learners(config, engine, state)
            outcome = play_round(config, engine, methods, state, recorded=recorded, source=source)
            state, step = outcome.state, outcome.state.step
            metrics, timing, episodes = outcome.metrics, outcome.timing, outcome.episodes
            state = league_step(config, engine, methods, state, episodes, writer.record_snapshots)
            if config.evaluation.is_due(step, config.steps):
                stream = engine.root.child("evaluation").child(step)
                apart = bool(apart_keys(config))
                answer = answer_of(engine, state.payoffs, config.league.answer, apart=apart)
                metrics = {**metrics, **evaluator.measure(answer, stream)}
                seconds = time.perf_counter() - step_start - timing["seconds/round"]
                timing = {**timing, "seconds/evaluation": seconds}
            if outcome.learned:
                store.append(step, outcome.episodes)
                credit.append(step, outcome.episodes, outcome.learned)
            writer.write(step, metrics, timing)
            last_metrics.update(metrics)
            findings = monitor.observe(step, metrics)
            writer.record(step, [finding.event() for finding in findings])
            warnings = tuple(finding.message for finding in findings)
            halt = stop_message(findings)
            if step % config.checkpoint.every == 0 or step == config.steps:
                saved_path = save(config, engine, folder, state, saved_path)
            if watch is not None:
                report = StepReport(
                    step=step,
                    steps=config.steps,
                    metrics=metrics,
                    seconds=time.perf_counter() - step_start,
                    games=len(outcome.episodes),
                    timing=timing,
                    notes=(*notes, *evaluator.new_notes()),
                    warnings=warnings,
                )
                watch(report)
                notes = ()
        if state.step < config.steps and state.step % config.checkpoint.every:
            save(config, engine, folder, state, saved_path)
    except (DivergedError, PluginError) as error:
        note = f"{_describe_step(config, current_step)} {checkpoint.describe_latest(folder.path)}"
        raise type(error)(f"{error} {note}") from error
    finally:
        writer.close()
    return RunSummary(
        steps=state.step,
        finished=state.step >= config.steps,
        metrics=last_metrics,
        folder=folder.path,
        stopped_by=halt,
    )


def step_source(config: RunConfig, engine: Engine, methods: Methods) -> StepSource | None:
    """Return the source of steps that are played ahead of the learner; None without such steps."""
    if config.scale.order == FRESH:
        return FreshSteps(config, engine, methods)
    return Prefetch(config, engine, methods) if config.scale.lag else None


def _describe_step(config: RunConfig, step: int) -> str:
    if not step:
        return "This happened in the warm-up."
    rate = parse(config.learner.learning_rate)((step - 1) / config.steps)
    step_text = f"step {step} of {config.steps}"
    return f"This happened in {step_text}, where learner.learning_rate is {rate:g}."


def save(
    config: RunConfig, engine: Engine, folder: RunFolder, state: RunState, earlier: Path | None
) -> Path:
    """Remove old stored episodes, write a checkpoint, and return its folder.

    ``earlier`` is the last checkpoint that was saved or restored.
    """
    for store in (EpisodeStore(folder.path / "episodes"), CreditStore(folder.path / "credit")):
        with disk_errors(store.folder):
            store.prune(max(config.store.every, 1), config.store.keep)

    def write(target: Path) -> None:
        engine.save(target, earlier)
        state.save(target, **{SAVED: fixed_settings(config)})

    path = checkpoint.save(
        folder.path, state.step, write, keep=config.checkpoint.keep, earlier=earlier
    )
    folder.settle()  # deletes the run that this one replaces
    return path


def _restore(
    config: RunConfig, engine: Engine, folder: RunFolder, resume: bool
) -> tuple[RunState, Path | None, tuple[str, ...]]:
    latest = checkpoint.load_latest(folder.path) if resume else None
    checkpoint.tidy(folder.path, latest, config.checkpoint.keep)
    write_configuration(folder, config, latest)
    if latest is None:
        return (
            RunState(),
            None,
            ("No checkpoint yet: starting from the beginning.",) if resume else (),
        )
    engine.restore(latest.path)
    return (
        RunState.restored(latest.path, latest.step, latest.state, ignored_keys=frozenset({SAVED})),
        latest.path,
        latest.notes,
    )
