"""The plays of a run on workers: cut into units, sent, collected in the order of the specs.

Which worker plays what is the scheduler's to say; this does what it says. With the sampler
``in_process``, whose replies have bits of their own, an episode is the same whoever plays it, so a
run is the same to the last byte for any number of workers, whatever becomes of them.

Where workers work by themselves a thread listens to them, so that they never wait for the
training process while it learns.

The weights that workers play with are files, one per player and version. Plays that are begun pin
what they are played with: a file stays as long as plays ask for it, also when the policy has learnt
on, or a snapshot has left the league.

Timing, in timing.jsonl:
    workers                 workers that were ready at the end of the step, where there are any
    workers_idle            share of the workers' time since the step before in which they did not
                            play
    lost_workers            workers that died, hung, or answered what cannot be read, in the step
    resent_units            units that were played again for it
    timed_out_units         units whose worker had not answered in scale.timeout
    duplicate_units         answers to units that somebody else had answered before
    refused_weights         files of weights that a worker found damaged, and that were written anew
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
from sparring.engine.protocol import Judging, Pinned, WeightKey
from sparring.engine.workers.fleet.base import Fleet, WorkerMessage
from sparring.engine.workers.scheduler import Command, End, Scheduler, Send, Start, Utilisation
from sparring.engine.workers.units import (
    Unit,
    UnreadableError,
    Weights,
    answer_of,
    cut,
    error_of,
    head_of,
    held_after,
    task_bytes,
)
from sparring.engine.workers.worker import check_same
from sparring.learn.weight_files import save_weights
from sparring.models.language_model import LanguageModel
from sparring.play.rollout import Begun, Rollout, RolloutCounts
from sparring.play.spec import EpisodeSpec


class PublishedWeights:
    """Files of weights in a folder of their own; those that nobody asks for any more are removed.

    Args:
        players: whose weights they are.
        folder: is made anew, and removed by ``close``.
    """

    def __init__(self, players: Players, folder: Path) -> None:
        self.folder = folder.absolute()
        self._players = players
        self._written: dict[WeightKey, Weights] = {}
        self._pinned: list[Pinned] = []
        with disk_errors(self.folder):
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(parents=True)

    def pin(self, seated: Iterable[PlayerRef]) -> Pinned:
        """Write the weights of now that these players speak with; keep them until ``release``.

        Raises:
            RunError: the disk is full or not writable.
            DivergedError: one of them is not finite.
        """
        models: dict[str, LanguageModel] = {}
        for who in sorted({player for player in seated if player.kind in OWN}, key=str):
            found = self._model(who)
            if found is not None:
                models[found[0]] = found[1]
        for name, model in models.items():
            if (name, model.version) not in self._written:
                self._write(name, model)
        return self.keep(tuple((name, model.version) for name, model in models.items()))

    def every(self) -> Pinned:
        """Pin the weights of now of every policy, and of every snapshot of one."""
        past = [one for member in self._players.members for one in self._players.parts(member)]
        return self.pin([*self._own(), *past])

    def newest(self) -> Pinned:
        """Pin the weights of now of every policy."""
        return self.pin(self._own())

    def _own(self) -> list[PlayerRef]:
        kinds = refs(("learner", "policy"))
        return [who.of(name) for name in self._players.policies for who in kinds]

    def keep(self, keys: Pinned) -> Pinned:
        """Pin files that are there.

        Raises:
            CheckpointError: one of them is not there.
        """
        missing = [key for key in keys if key not in self._written]
        if missing:
            raise CheckpointError(
                f"The weights of {missing[0][0]} after {missing[0][1]} updates, which a step is "
                "played with that was not learnt from yet, are not in the checkpoint. Take an "
                "earlier one, or start anew with --overwrite."
            )
        self._pinned.append(keys)
        return keys

    def release(self, keys: Pinned) -> None:
        """Let pinned files go; those that nobody else has pinned are removed."""
        self._pinned.remove(keys)
        wanted = {key for pinned in self._pinned for key in pinned}
        for key in self._written.keys() - wanted:
            Path(self._written.pop(key).file).unlink(missing_ok=True)

    def files(self, keys: Pinned) -> tuple[Weights, ...]:
        """Return pinned files."""
        return tuple(self._written[key] for key in keys)

    def again(self, keys: Pinned) -> int:
        """Write those of these files anew that are damaged, from the weights of now.

        Return how many were.

        Raises:
            CheckpointError: the weights have moved on since: they are only in the file.
        """
        damaged = [key for key in keys if not _is_whole(self._written[key])]
        for name, version in damaged:
            found = self._model(ref(name))
            if found is None or found[1].version != version:
                raise CheckpointError(
                    f"{self._written[name, version].file} was damaged after it was written, and "
                    "the policy has learnt on. Go on from the last checkpoint with --resume, on "
                    "another disk."
                )
            self._write(name, found[1])
        return len(damaged)

    def save(self, folder: Path) -> dict[str, list[Any]]:
        """Link everything that is pinned into a checkpoint's folder; return what names the files.

        Raises:
            OSError: the disk is full or not writable.
        """
        found = {}
        for pinned in self._pinned:
            for key in pinned:
                one = self._written[key]
                name = f"open-{Path(one.file).name}"
                if name not in found and not link_or_copy(Path(one.file), folder / name):
                    raise OSError(f"{one.file} cannot be copied to {folder}")
                found[name] = [*key, one.digest]
        return found

    def restore(self, folder: Path, saved: Mapping[str, Sequence[Any]]) -> None:
        """Take back what ``save`` linked, to be pinned again.

        Raises:
            RunError: the disk is full or not writable.
        """
        for name, (player, version, digest) in saved.items():
            path = self._path(player, version)
            with disk_errors(path):
                link_or_copy(folder / name, path)
            self._written[player, version] = Weights(player, str(path), digest, version)

    def _model(self, who: PlayerRef) -> tuple[str, LanguageModel] | None:
        """Return a player's name and model at a worker; None where it has no trained weights."""
        own = self._players.policies.get(who.name or MAIN)
        frozen = own is None or own.frozen or who.kind == "demonstrator"
        model = None if own is None or frozen else own.model_of(who)
        if own is None or model is None:
            return None
        return str(LEARNER.of(own.name)) if model is own.model else str(who), model

    def _path(self, player: str, version: int) -> Path:
        return self.folder / f"{player}-v{version:06d}.safetensors"

    def _write(self, name: str, model: LanguageModel) -> None:
        path = self._path(name, model.version)
        temporary = path.with_name(f"{TEMPORARY}{path.name}")
        with disk_errors(path):
            save_weights(model, temporary)
            digest = file_digest(temporary)
            os.replace(temporary, path)
        self._written[name, model.version] = Weights(name, str(path), digest, model.version)

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _is_whole(one: Weights) -> bool:
    try:
        return file_digest(Path(one.file)) == one.digest
    except OSError:
        return False


HERE = "scale.workers=0 scale.fleet=here"  # where errors show: in the training process
HERE_IN_ORDER = f"scale.order=pinned {HERE}"  # for a run in fresh order


def given_up(why: str, unit: Unit | None, run: Path, steps: int) -> RolloutError:
    """Return the error of plays that cannot be had.

    Args:
        why: they cannot.
        unit: that cannot be played; None: nothing can.
        run: the run folder.
        steps: of the run.
    """
    if unit is None:
        return RolloutError(
            f"The plays of this step cannot go on: {why}. Play with fewer workers "
            f"(scale.workers), or with none, where errors show: {HERE}."
        )
    specs = unit.specs
    return RolloutError(
        f"The plays {specs[0].episode_id} to {specs[-1].episode_id} of this step of "
        f"{specs[0].game.name} cannot be played: {why}, perhaps for lack of memory. "
        "Smaller units (scale.unit_games) or fewer workers need less; in this process, where "
        f"errors show: {_alone(unit, run, steps)}."
    )


def _alone(unit: Unit, run: Path, steps: int) -> str:
    if unit.fresh:
        return HERE_IN_ORDER
    if unit.progress is None:  # of the warm-up, or played on after a turn: no step's own
        return HERE
    step = round(unit.progress * steps) + 1
    return f"sparring replay-unit {shlex.quote(str(run))} {step} {unit.place}"


REFUSALS = 3  # of one worker in succession, after which something else is wrong


class WorkerWeights:
    """The weights of every worker that is there.

    Args:
        published: the files.
    """

    def __init__(self, published: PublishedWeights) -> None:
        self.refusing: list[int] = []  # workers that were sent damaged weights
        self.refused = 0  # files that were written anew
        self._published = published
        self._held: dict[int, dict[str, Weights]] = {}  # by each worker that is there
        self._refusals = Counter[int]()  # of each worker, since it last answered

    def __contains__(self, worker: int) -> bool:
        """Whether a worker is there."""
        return worker in self._held

    def begin(self, worker: int) -> None:
        """Take note that a worker is started: it holds nothing."""
        self._held[worker] = {}

    def end(self, worker: int) -> None:
        """Take note that a worker is gone."""
        del self._held[worker]
        self.refusing = [one for one in self.refusing if one != worker]

    def answered(self, worker: int) -> None:
        """Take note that a worker could read what it was sent."""
        self._refusals.pop(worker, None)

    def sent(self, worker: int, units: Iterable[Unit]) -> dict[str, Path]:
        """Take note that a worker is sent units; return the files that it does not hold."""
        held, files = self._held[worker], dict[str, Path]()
        for unit in units:
            new = [one for one in unit.weights if held.get(one.player) != one]
            files |= {one.digest: Path(one.file) for one in new}
            held = held_after(held, unit.weights)
        self._held[worker] = held
        return files

    def write_again(self, worker: int, units: Iterable[Unit]) -> None:
        """Write the weights of units anew that a worker has refused.

        Raises:
            RunError: it has refused them again and again.
        """
        self._refusals[worker] += 1
        if self._refusals[worker] > REFUSALS:
            raise RunError(
                f"A worker has refused the weights in {self._published.folder} "
                f"{self._refusals[worker]} times: what it reads is not what was written. Choose a "
                "run folder on another disk, which all workers can read."
            )
        named = {(one.player, one.version) for unit in units for one in unit.weights}
        self.refused += self._published.again(tuple(sorted(named)))
        self._held[worker] = {}


log = logging.getLogger(__name__)
LOOK = 1.0  # seconds between looks at the time, at most


class Distributed:
    """Plays on workers.

    Args:
        players: of the training process, whose weights are played with.
        fleet: where the workers run.
        folder: where weights are written for them.
    """

    def __init__(self, players: Players, fleet: Fleet, folder: Path) -> None:
        scale = players.config.scale
        self._fleet, self._unit_games = fleet, scale.unit_games
        self._players, self.published = players, PublishedWeights(players, folder)
        self._mixed, self._run = scale.mixed, folder.parent
        self._scheduler = Scheduler(
            max(fleet.workers, 1),
            timeout=scale.timeout,
            restarts=scale.restarts,
            elastic=fleet.elastic,
        )
        self._numbers = itertools.count()
        self._begun = Counter[float | None]()  # units of each step
        self._open: dict[int, Unit] = {}  # units without an answer
        self._found: dict[int, Rollout] = {}
        self._holding = WorkerWeights(self.published)
        self._before, self._lanes = dict[str, float](), Utilisation()
        self._changed = threading.Condition()  # guards everything but the fleet
        self._error: BaseException | None = None
        self._closed = False
        self._do(self._scheduler.tick(fleet.now()))
        self._listener = threading.Thread(target=self._listen, name="fleet", daemon=True)
        if fleet.apart:
            self._listener.start()

    def begin(
        self,
        specs: Sequence[EpisodeSpec],
        judging: Judging | None = None,
        pinned: Pinned | None = None,
    ) -> Begun:
        """Have these games played.

        Args:
            specs: the games.
            judging: what judges replies; see ``Players.play``.
            pinned: the weights they are played with, from ``published``; None: those of now.

        Raises:
            RolloutError: a unit has ended several workers, or there are none left.
            SparringError: what playing has met.
        """
        seated = self._players.seated(specs)
        players = {player for spec in seated for player in spec.players}
        own = None if pinned is not None else self.published.pin(players)
        weights = self.published.files(pinned if pinned is not None else own or ())
        progress = judging.progress if judging else None
        parts, first = cut(seated, self._unit_games), self._begun[progress]
        self._begun[progress] += len(parts)
        units = [
            Unit(part, weights, progress, place) for place, part in enumerate(parts, start=first)
        ]
        with self._changed:
            self._check()
            numbered = {next(self._numbers): unit for unit in units}
            self._open |= numbered
            self._do(self._scheduler.issued(numbered, self._fleet.now()))
        numbers = frozenset(numbered)
        return Begun(
            partial(self._wait, tuple(numbered), own), lambda: numbers <= self._found.keys()
        )

    def play(self, specs: Sequence[EpisodeSpec], judging: Judging | None = None) -> Rollout:
        """Play these games; see ``Players.play``.

        Raises:
            SparringError: as ``begin``.
        """
        return self.begin(specs, judging).result()

    def _wait(self, numbers: Sequence[int], own: Pinned | None) -> Rollout:
        """Return the rollout of units once all are answered; ``own`` are weights pinned for it."""
        with self._changed:
            while not self._found.keys() >= set(numbers):
                self._moment()
            parts = [self._found.pop(number) for number in numbers]
        if own is not None:
            self.published.release(own)
        counts = sum((part.counts for part in parts), RolloutCounts())
        return Rollout([episode for part in parts for episode in part.episodes], counts)

    def _moment(self) -> None:
        self._check()
        while self._holding.refusing:
            self._do(self._write_again(self._holding.refusing.pop()))
        if self._fleet.apart:
            self._changed.wait(LOOK)
        else:
            self._listen_once()

    def close(self) -> None:
        """End the workers, and remove the weights that were written for them."""
        with self._changed:
            self._closed = True
        self._fleet.close()
        if self._listener.is_alive():
            self._listener.join()
        self.published.close()

    def timing(self) -> dict[str, float]:
        """Return the figures listed above and those of ``Utilisation``, since the last call."""
        with self._changed:
            now = self._fleet.now()
            busy, ready = self._scheduler.busy(now), self._scheduler.ready
            own = self._lanes.since(self._scheduler.lanes(now), now)
            total = {**asdict(self._scheduler.counts), "refused_weights": self._holding.refused}
            total |= {"busy": busy, "clock": now}
            since = {name: value - self._before.get(name, 0.0) for name, value in total.items()}
            first, self._before = not self._before, total
        whole, played = since.pop("clock") * self._scheduler.workers, since.pop("busy")
        idle = 1 - played / whole if whole and not first else 0.0
        return {"workers": float(ready), "workers_idle": max(idle, 0.0), **since, **own}

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _listen(self) -> None:
        """Listen to the workers until ``close``, or an error that ``_wait`` raises."""
        while not self._closed:
            try:
                self._listen_once()
            except BaseException as error:  # is the training process's to handle
                with self._changed:
                    self._error = error
                    self._changed.notify_all()
                return

    def _listen_once(self) -> None:
        with self._changed:
            now = self._fleet.now()
            patience = min(self._scheduler.wait(now), LOOK)
        found = self._fleet.poll(patience)
        with self._changed:
            if self._closed:
                return
            now = self._fleet.now()  # one for all: nobody is started again among what one has said
            for heard in found:
                self._do(self._hear(heard, now))
            self._do(self._scheduler.tick(self._fleet.now()))
            self._changed.notify_all()

    def _do(self, commands: Sequence[Command]) -> None:
        for command in commands:
            if isinstance(command, Start):
                self._holding.begin(command.worker)
                self._fleet.start(command.worker)
            elif isinstance(command, Send):
                task = {number: self._sending(number) for number in command.units}
                files = self._holding.sent(command.worker, task.values())
                self._fleet.send(command.worker, task_bytes(task), files)
            elif isinstance(command, End):
                log.warning("Ended: %s.", command.why)
                self._do(self._lost(command.worker, self._fleet.now()))
            else:
                lost = None if command.unit is None else self._open[command.unit]
                raise given_up(command.why, lost, self._run, self._players.config.steps)

    def _sending(self, number: int) -> Unit:
        """Return a unit as it is sent now."""
        return self._open[number]

    def _losing(self, units: Sequence[int]) -> None:
        """Take note of the units that a worker is lost with; here they are played again, and that
        is all."""

    def _hear(self, heard: WorkerMessage, now: float) -> Sequence[Command]:
        """Take a message of a worker; return what follows."""
        worker, message = heard
        if worker not in self._holding:
            return []  # it was ended when this was on its way
        if message is None:
            log.warning("Worker %d is gone; what it played is played again.", worker)
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
                self._holding.refusing.append(worker)  # weights may change now: see ``_wait``
                return []
            answer = answer_of(message, self._open)
        except UnreadableError as error:
            log.warning("Worker %d is ended: %s", worker, error)
            return self._lost(worker, now)
        self._holding.answered(worker)
        self._found.update(answer.rollouts)
        for number in answer.rollouts:
            self._open.pop(number)
        return self._scheduler.answered(worker, answer.units, now)

    def _lost(self, worker: int, now: float) -> Sequence[Command]:
        """End a worker, or what is left of it; return what follows."""
        self._losing(self._scheduler.playing(worker))
        self._holding.end(worker)
        self._fleet.end(worker)
        return self._scheduler.lost(worker, now)

    def _write_again(self, worker: int) -> Sequence[Command]:
        """Write the weights anew that a worker has refused; return what follows."""
        playing = self._scheduler.playing(worker)
        units = [self._sending(unit) for unit in playing if unit in self._open]
        self._holding.write_again(worker, units)
        return self._scheduler.returned(worker, self._fleet.now())
