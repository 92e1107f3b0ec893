"""Rollouts on workers: episodes are split into units, sent, and returned in the order of the specs.

The scheduler decides which worker plays which unit; this module carries out its commands. With the
sampler ``in_process`` an episode is exactly the same on any worker. A run is then the same to the
last byte for any number of workers, even if workers crash.

If workers run in other processes, a thread listens to them, so that they do not wait while the
training process learns.

Timing, in timing.jsonl:
    workers                 number of workers that were ready at the end of the step
    workers_idle            share of the workers' time since the previous step in which they were
                            not playing
    lost_workers            workers that ended, hung, or sent an unreadable answer, in the step
    resent_units            units that were played again after the loss of their worker
    timed_out_units         units whose worker had not answered in scale.timeout
    duplicate_units         answers to units that another worker had answered before
    refused_weights         files of weights that a worker found damaged; they were rewritten
"""

from __future__ import annotations

import itertools
import logging
import shlex
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from sparring.core.errors import RolloutError
from sparring.engine.players import Players
from sparring.engine.protocol import Pinned, ReplyJudges
from sparring.engine.workers.fleet.base import Fleet, WorkerMessage
from sparring.engine.workers.unit_scheduler import (
    Command,
    EndWorker,
    SendUnits,
    StartWorker,
    UnitScheduler,
    UtilisationMeter,
)
from sparring.engine.workers.units import (
    UnreadableError,
    WorkUnit,
    answer_of,
    error_of,
    head_of,
    split_into_units,
    task_bytes,
)
from sparring.engine.workers.worker import check_same_versions
from sparring.engine.workers.worker_weights import PublishedWeights, WorkerWeights
from sparring.play.rollout import Rollout, RolloutCounts, StartedRollout
from sparring.play.spec import EpisodeSpec

# options with which errors are raised in the training process, and those for a run in fresh order
IN_PROCESS = "scale.workers=0 scale.fleet=here"
IN_PROCESS_PINNED = f"scale.order=pinned {IN_PROCESS}"


def unplayable_error(reason: str, unit: WorkUnit | None, run: Path, steps: int) -> RolloutError:
    """Return the error of episodes that cannot be played.

    Args:
        reason: the reason.
        unit: the unit that cannot be played; None: no unit can be played.
        run: the run folder.
        steps: number of steps of the run.
    """
    if unit is None:
        return RolloutError(
            f"The plays of this step cannot go on: {reason}. Play with fewer workers "
            f"(scale.workers), or with none, where errors show: {IN_PROCESS}."
        )
    specs = unit.specs
    return RolloutError(
        f"The plays {specs[0].episode_id} to {specs[-1].episode_id} of this step of "
        f"{specs[0].game.name} cannot be played: {reason}, perhaps because memory ran out. "
        "Smaller units (scale.unit_games) or fewer workers need less; in this process, where "
        f"errors show: {_replay_command(unit, run, steps)}."
    )


def _replay_command(unit: WorkUnit, run: Path, steps: int) -> str:
    if unit.is_fresh:
        return IN_PROCESS_PINNED
    if unit.progress is None:  # a unit of the warm-up or of playouts
        return IN_PROCESS
    step = round(unit.progress * steps) + 1
    return f"sparring replay-unit {shlex.quote(str(run))} {step} {unit.index_in_step}"


log = logging.getLogger(__name__)
MAX_WAIT = 1.0  # seconds between two ticks


class DistributedRollouts:
    """Rollouts on workers.

    Args:
        players: players of the training process, with the current weights.
        fleet: the fleet that starts the workers and exchanges messages with them.
        folder: folder for the workers' weights.
    """

    def __init__(self, players: Players, fleet: Fleet, folder: Path) -> None:
        scale = players.config.scale
        self._fleet, self._unit_games = fleet, scale.unit_games
        self._players, self.published = players, PublishedWeights(players, folder)
        self._mixed, self._run = scale.mixed, folder.parent
        self._scheduler = UnitScheduler(
            max(fleet.workers, 1),
            timeout=scale.timeout,
            restarts=scale.restarts,
            elastic=fleet.elastic,
        )
        self._numbers = itertools.count()
        self._units_of_step = Counter[float | None]()  # number of units by progress
        self._open: dict[int, WorkUnit] = {}  # unanswered units
        self._rollouts: dict[int, Rollout] = {}
        self._weights = WorkerWeights(self.published)
        self._previous_totals, self._utilisation = dict[str, float](), UtilisationMeter()
        self._changed = threading.Condition()  # guards all attributes except ``_fleet``
        self._error: BaseException | None = None
        self._closed = False
        self._execute(self._scheduler.tick(fleet.now()))
        self._listener = threading.Thread(target=self._listen, name="fleet", daemon=True)
        if fleet.has_processes:
            self._listener.start()

    def begin(
        self,
        specs: Sequence[EpisodeSpec],
        judging: ReplyJudges | None = None,
        pinned: Pinned | None = None,
    ) -> StartedRollout:
        """Start to play episodes.

        Args:
            specs: the episodes.
            judging: the judges of replies; see ``Players.play``.
            pinned: weights of the episodes, from ``published``; None: the current weights.

        Raises:
            RolloutError: a unit has ended several workers, or no worker is left.
            SparringError: playing failed.
        """
        named_specs = self._players.with_named_policies(specs)
        players = {player for spec in named_specs for player in spec.players}
        new_pin = None if pinned is not None else self.published.pin(players)
        weights = self.published.files(pinned if pinned is not None else new_pin or ())
        progress = judging.progress if judging else None
        first_index = self._units_of_step[progress]
        specs_of_units = split_into_units(named_specs, self._unit_games)
        self._units_of_step[progress] += len(specs_of_units)
        units = [
            WorkUnit(unit_specs, weights, progress, index)
            for index, unit_specs in enumerate(specs_of_units, start=first_index)
        ]
        with self._changed:
            self._raise_error()
            new_units = {next(self._numbers): unit for unit in units}
            self._open |= new_units
            self._execute(self._scheduler.issued(new_units, self._fleet.now()))
        numbers = frozenset(new_units)
        return StartedRollout(
            partial(self._wait, tuple(new_units), new_pin), lambda: numbers <= self._rollouts.keys()
        )

    def play(self, specs: Sequence[EpisodeSpec], judging: ReplyJudges | None = None) -> Rollout:
        """Play episodes; see ``Players.play``.

        Raises:
            SparringError: as for ``begin``.
        """
        return self.begin(specs, judging).result()

    def _wait(self, numbers: Sequence[int], new_pin: Pinned | None) -> Rollout:
        """Return the rollout of units once all are answered, and release ``new_pin``."""
        with self._changed:
            while not self._rollouts.keys() >= set(numbers):
                self._wait_for_change()
            rollouts = [self._rollouts.pop(number) for number in numbers]
        if new_pin is not None:
            self.published.release(new_pin)
        counts = sum((rollout.counts for rollout in rollouts), RolloutCounts())
        return Rollout([episode for rollout in rollouts for episode in rollout.episodes], counts)

    def _wait_for_change(self) -> None:
        self._raise_error()
        while self._weights.refusing_workers:
            self._execute(self._rewrite_refused(self._weights.refusing_workers.pop()))
        if self._fleet.has_processes:
            self._changed.wait(MAX_WAIT)
        else:
            self._listen_once()

    def close(self) -> None:
        """End the workers, and remove their weights files."""
        with self._changed:
            self._closed = True
        self._fleet.close()
        if self._listener.is_alive():
            self._listener.join()
        self.published.close()

    def timing(self) -> dict[str, float]:
        """Return the figures listed above and those of ``UtilisationMeter`` since the last call."""
        with self._changed:
            now = self._fleet.now()
            busy, num_ready = self._scheduler.busy_seconds(now), self._scheduler.num_ready
            utilisation = self._utilisation.since_last_call(self._scheduler.utilisation(now), now)
            total = {**asdict(self._scheduler.counts), "busy": busy, "clock": now}
            total |= {"refused_weights": self._weights.num_rewritten}
            previous, self._previous_totals = self._previous_totals, total
            change = {name: value - previous.get(name, 0.0) for name, value in total.items()}
        worker_seconds = change.pop("clock") * self._scheduler.num_workers
        busy_share = change.pop("busy") / worker_seconds if worker_seconds else 1.0
        idle_share = max(1 - busy_share, 0.0) if previous else 0.0
        return {"workers": float(num_ready), "workers_idle": idle_share, **change, **utilisation}

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _listen(self) -> None:
        """Listen to the workers until ``close``, or until an error, which ``_wait`` raises."""
        while not self._closed:
            try:
                self._listen_once()
            except BaseException as error:  # the training process handles it
                with self._changed:
                    self._error = error
                    self._changed.notify_all()
                return

    def _listen_once(self) -> None:
        with self._changed:
            now = self._fleet.now()
            seconds = min(self._scheduler.seconds_to_wait(now), MAX_WAIT)
        messages = self._fleet.poll(seconds)
        with self._changed:
            if self._closed:
                return
            now = self._fleet.now()  # one time for all messages: no worker restarts between two
            for worker_message in messages:
                self._execute(self._handle_message(worker_message, now))
            self._execute(self._scheduler.tick(self._fleet.now()))
            self._changed.notify_all()

    def _execute(self, commands: Sequence[Command]) -> None:
        for command in commands:
            if isinstance(command, StartWorker):
                self._weights.begin(command.worker)
                self._fleet.start(command.worker)
            elif isinstance(command, SendUnits):
                task = {number: self._unit_to_send(number) for number in command.units}
                files = self._weights.record_sent(command.worker, task.values())
                self._fleet.send(command.worker, task_bytes(task), files)
            elif isinstance(command, EndWorker):
                log.warning("Ended: %s.", command.why)
                self._execute(self._handle_loss(command.worker, self._fleet.now()))
            else:
                unit = None if command.unit is None else self._open[command.unit]
                raise unplayable_error(command.why, unit, self._run, self._players.config.steps)

    def _unit_to_send(self, number: int) -> WorkUnit:
        return self._open[number]

    def _record_loss(self, units: Sequence[int]) -> None:
        """Record the units of a lost worker; a subclass may count them."""

    def _handle_message(self, worker_message: WorkerMessage, now: float) -> Sequence[Command]:
        worker, message = worker_message
        if not self._weights.is_running(worker):
            return []  # the worker was ended before its message arrived
        if message is None:
            log.warning("Worker %d has ended; its units are played again.", worker)
            return self._handle_loss(worker, now)
        try:
            header = head_of(message)
            if "error" in header:
                raise error_of(header["error"])
            if "ready" in header:
                if not self._mixed:
                    check_same_versions(header["ready"])
                return self._scheduler.joined(worker, now)
            if "refused" in header:
                self._weights.refusing_workers.append(worker)  # ``_wait`` rewrites its files
                return []
            answer = answer_of(message, self._open)
        except UnreadableError as error:
            log.warning("Worker %d is ended: %s", worker, error)
            return self._handle_loss(worker, now)
        self._weights.record_answer(worker)
        self._rollouts.update(answer.rollouts)
        for number in answer.rollouts:
            self._open.pop(number)
        return self._scheduler.answered(worker, answer.units, now)

    def _handle_loss(self, worker: int, now: float) -> Sequence[Command]:
        self._record_loss(self._scheduler.playing_units(worker))
        self._weights.end(worker)
        self._fleet.end(worker)
        return self._scheduler.lost(worker, now)

    def _rewrite_refused(self, worker: int) -> Sequence[Command]:
        playing = self._scheduler.playing_units(worker)
        units = [self._unit_to_send(unit) for unit in playing if unit in self._open]
        self._weights.rewrite_refused(worker, units)
        return self._scheduler.returned(worker, self._fleet.now())
