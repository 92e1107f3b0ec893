"""Rollouts on workers: episodes cut into units, sent, and collected in the order of the specs.

The scheduler decides which worker plays which unit; this module carries it out. With the sampler
``in_process`` the bits of an episode do not depend on the worker. A run is then the same to the
last byte for any number of workers, even if workers crash.

Where workers run in other processes, a thread listens to them, so that they never wait for the
training process while it learns.

The weights of the workers are files, one per player and version. Episodes that are begun pin their
weights: a file stays until they end, also after an update, or after a snapshot has left the league.

Timing, in timing.jsonl:
    workers                 workers that were ready at the end of the step, where there are any
    workers_idle            share of the workers' time since the previous step in which they did not
                            play
    lost_workers            workers that died, hung, or sent an unreadable answer, in the step
    resent_units            units that were played again because of it
    timed_out_units         units whose worker had not answered in scale.timeout
    duplicate_units         answers to units that another worker had answered before
    refused_weights         files of weights that a worker found damaged, and that were rewritten
"""

from __future__ import annotations

import itertools
import logging
import os
import shlex
import shutil
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from sparring.core.errors import CheckpointError, RolloutError, RunError
from sparring.core.files import TEMPORARY, disk_errors, file_digest, link_or_copy
from sparring.core.records import LEARNER, MAIN, OWN, PlayerRef, ref, refs
from sparring.engine.players import Players
from sparring.engine.protocol import Pinned, ReplyJudges, WeightKey
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
    WeightsFile,
    WorkUnit,
    answer_of,
    error_of,
    head_of,
    split_into_units,
    task_bytes,
    weights_after,
)
from sparring.engine.workers.worker import check_same
from sparring.learn.weights import save_weights
from sparring.models.language_model import LanguageModel
from sparring.play.rollout import Begun, Rollout, RolloutCounts
from sparring.play.spec import EpisodeSpec


class PublishedWeights:
    """Files of weights in a folder; a file that nothing pins is removed.

    Args:
        players: whose weights are written.
        folder: for the files; it is emptied first, and removed by ``close``.
    """

    def __init__(self, players: Players, folder: Path) -> None:
        self.folder = folder.absolute()
        self._players = players
        self._written: dict[WeightKey, WeightsFile] = {}
        self._pinned: list[Pinned] = []
        with disk_errors(self.folder):
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(parents=True)

    def pin(self, seated: Iterable[PlayerRef]) -> Pinned:
        """Write the current weights of these players, and keep them until ``release``.

        Raises:
            RunError: the disk is full or not writable.
            DivergedError: one of them is not finite.
        """
        models: dict[str, LanguageModel] = {}
        for who in sorted({player for player in seated if player.kind in OWN}, key=str):
            named_model = self._model(who)
            if named_model is not None:
                models[named_model[0]] = named_model[1]
        for name, model in models.items():
            if (name, model.version) not in self._written:
                self._write(name, model)
        return self.keep(tuple((name, model.version) for name, model in models.items()))

    def pin_all(self) -> Pinned:
        """Pin the current weights of every policy and every snapshot."""
        past = [part for member in self._players.members for part in self._players.parts(member)]
        return self.pin([*self._own(), *past])

    def pin_newest(self) -> Pinned:
        """Pin the current weights of every policy."""
        return self.pin(self._own())

    def _own(self) -> list[PlayerRef]:
        kinds = refs(("learner", "policy"))
        return [who.of(name) for name in self._players.policies for who in kinds]

    def keep(self, keys: Pinned) -> Pinned:
        """Pin files that exist.

        Raises:
            CheckpointError: a file does not exist.
        """
        missing = [key for key in keys if key not in self._written]
        if missing:
            raise CheckpointError(
                f"The weights of {missing[0][0]} after {missing[0][1]} updates, of a step that is "
                "played but not learned from yet, are not in the checkpoint. Take an "
                "earlier checkpoint, or start again with --overwrite."
            )
        self._pinned.append(keys)
        return keys

    def release(self, keys: Pinned) -> None:
        """Unpin files, and remove those that nothing else has pinned."""
        self._pinned.remove(keys)
        still_pinned = {key for pinned in self._pinned for key in pinned}
        for key in self._written.keys() - still_pinned:
            Path(self._written.pop(key).file).unlink(missing_ok=True)

    def files(self, keys: Pinned) -> tuple[WeightsFile, ...]:
        """Return pinned files."""
        return tuple(self._written[key] for key in keys)

    def rewrite_damaged(self, keys: Pinned) -> int:
        """Rewrite the damaged ones of these files from the current weights, and return their
        number.

        Raises:
            CheckpointError: the weights have been updated since, so that only the file held them.
        """
        damaged = [key for key in keys if not _is_whole(self._written[key])]
        for name, version in damaged:
            named_model = self._model(ref(name))
            if named_model is None or named_model[1].version != version:
                raise CheckpointError(
                    f"{self._written[name, version].file} was damaged after it was written, and "
                    "the policy has been updated since. Resume from the last checkpoint "
                    "(--resume) on another disk."
                )
            self._write(name, named_model[1])
        return len(damaged)

    def save(self, folder: Path) -> dict[str, list[Any]]:
        """Link pinned files into a checkpoint's folder, and return [player, version, digest] by
        name.

        Raises:
            OSError: the disk is full or not writable.
        """
        saved = {}
        for pinned in self._pinned:
            for key in pinned:
                weights = self._written[key]
                name = f"open-{Path(weights.file).name}"
                if name not in saved and not link_or_copy(Path(weights.file), folder / name):
                    raise OSError(f"{weights.file} cannot be copied to {folder}")
                saved[name] = [*key, weights.digest]
        return saved

    def restore(self, folder: Path, saved: Mapping[str, Sequence[Any]]) -> None:
        """Restore the files that ``save`` linked, so that they can be pinned again.

        Raises:
            RunError: the disk is full or not writable.
        """
        for name, (player, version, digest) in saved.items():
            path = self._path(player, version)
            with disk_errors(path):
                link_or_copy(folder / name, path)
            self._written[player, version] = WeightsFile(player, str(path), digest, version)

    def _model(self, who: PlayerRef) -> tuple[str, LanguageModel] | None:
        """Return a player's name and model at a worker; None if its weights are not trained."""
        policy = self._players.policies.get(who.name or MAIN)
        frozen = policy is None or policy.frozen or who.kind == "demonstrator"
        model = None if policy is None or frozen else policy.model_of(who)
        if policy is None or model is None:
            return None
        return str(LEARNER.of(policy.name)) if model is policy.model else str(who), model

    def _path(self, player: str, version: int) -> Path:
        return self.folder / f"{player}-v{version:06d}.safetensors"

    def _write(self, name: str, model: LanguageModel) -> None:
        path = self._path(name, model.version)
        temporary = path.with_name(f"{TEMPORARY}{path.name}")
        with disk_errors(path):
            save_weights(model, temporary)
            digest = file_digest(temporary)
            os.replace(temporary, path)
        self._written[name, model.version] = WeightsFile(name, str(path), digest, model.version)

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _is_whole(weights: WeightsFile) -> bool:
    try:
        return file_digest(Path(weights.file)) == weights.digest
    except OSError:
        return False


IN_PROCESS = "scale.workers=0 scale.fleet=here"  # errors show in the training process
IN_PROCESS_PINNED = f"scale.order=pinned {IN_PROCESS}"  # for a run in fresh order


def unplayable_error(why: str, unit: WorkUnit | None, run: Path, steps: int) -> RolloutError:
    """Return the error of episodes that cannot be played.

    Args:
        why: the reason.
        unit: the unit that cannot be played; None: no unit can be played.
        run: the run folder.
        steps: of the run.
    """
    if unit is None:
        return RolloutError(
            f"The plays of this step cannot go on: {why}. Play with fewer workers "
            f"(scale.workers), or with none, where errors show: {IN_PROCESS}."
        )
    specs = unit.specs
    return RolloutError(
        f"The plays {specs[0].episode_id} to {specs[-1].episode_id} of this step of "
        f"{specs[0].game.name} cannot be played: {why}, perhaps for lack of memory. "
        "Smaller units (scale.unit_games) or fewer workers need less; in this process, where "
        f"errors show: {_replay_command(unit, run, steps)}."
    )


def _replay_command(unit: WorkUnit, run: Path, steps: int) -> str:
    if unit.fresh:
        return IN_PROCESS_PINNED
    if unit.progress is None:  # of the warm-up or a playout, not of one step
        return IN_PROCESS
    step = round(unit.progress * steps) + 1
    return f"sparring replay-unit {shlex.quote(str(run))} {step} {unit.place}"


REFUSALS = 3  # largest number of refusals of a worker in a row


class WorkerWeights:
    """The weights that each worker holds.

    Args:
        published: the files.
    """

    def __init__(self, published: PublishedWeights) -> None:
        self.refusing: list[int] = []  # workers that refused their weights
        self.refused = 0  # number of rewritten files
        self._published = published
        self._weights_of: dict[int, dict[str, WeightsFile]] = {}  # by running worker
        self._refusals = Counter[int]()  # by worker, since its last answer

    def __contains__(self, worker: int) -> bool:
        """Return whether a worker is running."""
        return worker in self._weights_of

    def begin(self, worker: int) -> None:
        """Record that a worker is started and holds no weights."""
        self._weights_of[worker] = {}

    def end(self, worker: int) -> None:
        """Record that a worker is gone."""
        del self._weights_of[worker]
        self.refusing = [other for other in self.refusing if other != worker]

    def answered(self, worker: int) -> None:
        """Record that a worker could read its weights."""
        self._refusals.pop(worker, None)

    def record_sent(self, worker: int, units: Iterable[WorkUnit]) -> dict[str, Path]:
        """Record sent units, and return the weights files that the worker lacks, by digest."""
        current, files = self._weights_of[worker], dict[str, Path]()
        for unit in units:
            new = [weights for weights in unit.weights if current.get(weights.player) != weights]
            files |= {weights.digest: Path(weights.file) for weights in new}
            current = weights_after(current, unit.weights)
        self._weights_of[worker] = current
        return files

    def rewrite_refused(self, worker: int, units: Iterable[WorkUnit]) -> None:
        """Rewrite the weights of units that a worker has refused.

        Raises:
            RunError: the worker has refused them several times in a row.
        """
        self._refusals[worker] += 1
        if self._refusals[worker] > REFUSALS:
            raise RunError(
                f"A worker has refused the weights in {self._published.folder} "
                f"{self._refusals[worker]} times: it reads other bytes than were written. Choose a "
                "run folder on another disk, which all workers can read."
            )
        named = {(weights.player, weights.version) for unit in units for weights in unit.weights}
        self.refused += self._published.rewrite_damaged(tuple(sorted(named)))
        self._weights_of[worker] = {}


log = logging.getLogger(__name__)
LOOK = 1.0  # longest seconds between two ticks


class DistributedRollouts:
    """Rollouts on workers.

    Args:
        players: of the training process, with the current weights.
        fleet: starts the workers and talks to them.
        folder: for the weights of the workers.
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
        self._before, self._utilisation = dict[str, float](), UtilisationMeter()
        self._changed = threading.Condition()  # guards all state but the fleet
        self._error: BaseException | None = None
        self._closed = False
        self._execute(self._scheduler.tick(fleet.now()))
        self._listener = threading.Thread(target=self._listen, name="fleet", daemon=True)
        if fleet.apart:
            self._listener.start()

    def begin(
        self,
        specs: Sequence[EpisodeSpec],
        judging: ReplyJudges | None = None,
        pinned: Pinned | None = None,
    ) -> Begun:
        """Start to play episodes.

        Args:
            specs: the episodes.
            judging: judges replies; see ``Players.play``.
            pinned: their weights, from ``published``; None: the current weights.

        Raises:
            RolloutError: a unit has ended several workers, or no worker is left.
            SparringError: as playing raises it.
        """
        seated = self._players.seated(specs)
        players = {player for spec in seated for player in spec.players}
        new_pin = None if pinned is not None else self.published.pin(players)
        weights = self.published.files(pinned if pinned is not None else new_pin or ())
        progress = judging.progress if judging else None
        parts, first = split_into_units(seated, self._unit_games), self._units_of_step[progress]
        self._units_of_step[progress] += len(parts)
        units = [
            WorkUnit(part, weights, progress, place)
            for place, part in enumerate(parts, start=first)
        ]
        with self._changed:
            self._check()
            numbered = {next(self._numbers): unit for unit in units}
            self._open |= numbered
            self._execute(self._scheduler.issued(numbered, self._fleet.now()))
        numbers = frozenset(numbered)
        return Begun(
            partial(self._wait, tuple(numbered), new_pin), lambda: numbers <= self._rollouts.keys()
        )

    def play(self, specs: Sequence[EpisodeSpec], judging: ReplyJudges | None = None) -> Rollout:
        """Play episodes; see ``Players.play``.

        Raises:
            SparringError: as ``begin``.
        """
        return self.begin(specs, judging).result()

    def _wait(self, numbers: Sequence[int], new_pin: Pinned | None) -> Rollout:
        """Return the rollout of units once all are answered, and release ``new_pin``."""
        with self._changed:
            while not self._rollouts.keys() >= set(numbers):
                self._wait_for_change()
            parts = [self._rollouts.pop(number) for number in numbers]
        if new_pin is not None:
            self.published.release(new_pin)
        counts = sum((part.counts for part in parts), RolloutCounts())
        return Rollout([episode for part in parts for episode in part.episodes], counts)

    def _wait_for_change(self) -> None:
        self._check()
        while self._weights.refusing:
            self._execute(self._rewrite_refused(self._weights.refusing.pop()))
        if self._fleet.apart:
            self._changed.wait(LOOK)
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
            busy, ready = self._scheduler.busy(now), self._scheduler.ready
            utilisation = self._utilisation.since_last_call(self._scheduler.utilisation(now), now)
            total = {**asdict(self._scheduler.counts), "refused_weights": self._weights.refused}
            total |= {"busy": busy, "clock": now}
            since = {name: value - self._before.get(name, 0.0) for name, value in total.items()}
            first, self._before = not self._before, total
        available, busy_seconds = since.pop("clock") * self._scheduler.workers, since.pop("busy")
        idle = 1 - busy_seconds / available if available and not first else 0.0
        return {"workers": float(ready), "workers_idle": max(idle, 0.0), **since, **utilisation}

    def _check(self) -> None:
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
            patience = min(self._scheduler.wait(now), LOOK)
        messages = self._fleet.poll(patience)
        with self._changed:
            if self._closed:
                return
            now = self._fleet.now()  # one for all: no worker restarts between its messages
            for worker_message in messages:
                self._execute(self._handle(worker_message, now))
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
                self._execute(self._lost(command.worker, self._fleet.now()))
            else:
                unit = None if command.unit is None else self._open[command.unit]
                raise unplayable_error(command.why, unit, self._run, self._players.config.steps)

    def _unit_to_send(self, number: int) -> WorkUnit:
        return self._open[number]

    def _record_loss(self, units: Sequence[int]) -> None:
        """Record the units that a worker is lost with; nothing to record here."""

    def _handle(self, worker_message: WorkerMessage, now: float) -> Sequence[Command]:
        """Return the commands that follow from a worker's message."""
        worker, message = worker_message
        if worker not in self._weights:
            return []  # ended while this message was on its way
        if message is None:
            log.warning("Worker %d is gone; its units are played again.", worker)
            return self._lost(worker, now)
        try:
            head = head_of(message)
            if "error" in head:
                raise error_of(head["error"])
            if "ready" in head:
                if not self._mixed:
                    check_same(head["ready"])
                return self._scheduler.joined(worker, now)
            if "refused" in head:
                self._weights.refusing.append(worker)  # rewritten in ``_wait``
                return []
            answer = answer_of(message, self._open)
        except UnreadableError as error:
            log.warning("Worker %d is ended: %s", worker, error)
            return self._lost(worker, now)
        self._weights.answered(worker)
        self._rollouts.update(answer.rollouts)
        for number in answer.rollouts:
            self._open.pop(number)
        return self._scheduler.answered(worker, answer.units, now)

    def _lost(self, worker: int, now: float) -> Sequence[Command]:
        """End a worker, and return the commands that follow."""
        self._record_loss(self._scheduler.playing(worker))
        self._weights.end(worker)
        self._fleet.end(worker)
        return self._scheduler.lost(worker, now)

    def _rewrite_refused(self, worker: int) -> Sequence[Command]:
        """Rewrite the weights that a worker has refused, and return the commands that follow."""
        playing = self._scheduler.playing(worker)
        units = [self._unit_to_send(unit) for unit in playing if unit in self._open]
        self._weights.rewrite_refused(worker, units)
        return self._scheduler.returned(worker, self._fleet.now())
