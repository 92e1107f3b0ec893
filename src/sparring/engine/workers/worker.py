"""A worker: it makes the players of a run once, and plays the units that it is sent.

It holds nothing that matters. Weights come as files; what it answers is a function of what it was
asked and of the configuration, so anybody else would answer the same bytes.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import platform
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import safetensors.torch
import torch

from sparring.config import resolve
from sparring.config.plugins.guard import CallWatch
from sparring.config.sections import FRESH
from sparring.core import version
from sparring.core.errors import RolloutError, RunError, SparringError
from sparring.core.files import file_digest, sha256_hex
from sparring.core.records import MAIN, ref
from sparring.engine.logprob_check import scored
from sparring.engine.players import Players
from sparring.engine.protocol import Judging, rewards_of
from sparring.engine.workers.units import (
    Answer,
    Unit,
    Weights,
    answer_bytes,
    held_after,
    is_news,
    known_games,
    news_of,
    task_of,
)
from sparring.methods.oracles.judge import configured_oracles
from sparring.play.rollout import Rollout, RolloutCounts


def facts() -> dict[str, Any]:
    """Return the threads that torch takes, and whether there is a GPU that it can use."""
    return {"torch_threads": torch.get_num_threads(), "cuda": torch.cuda.is_available()}


def fingerprint() -> dict[str, str]:
    """Return what the bits of a computation depend on here: versions, processor, and compilers."""
    return {
        "sparring": version(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "processor": torch.backends.cpu.get_cpu_capability(),
        "machine": platform.machine(),
        "compiler": os.environ.get("CC", ""),
    }


def check_same(theirs: object) -> None:
    """Refuse a worker that computes other bits.

    Raises:
        RunError: it runs on another processor, or other versions.
    """
    ours = fingerprint()
    if theirs == ours:
        return
    known: Mapping[Any, Any] = theirs if isinstance(theirs, dict) else {}
    name = next(name for name in ours if ours[name] != known.get(name))
    raise RunError(
        f"A worker has {name} {known.get(name)!r} and the training process {ours[name]!r}, so that "
        "its replies would have other bits. Install the same on both, or leave that machine out; "
        "scale.mixed=true lets it play, and no bytes are promised."
    )


log = logging.getLogger(__name__)
Message = tuple[bytes, Mapping[str, bytes]]  # a task, and contents of files by their SHA-256


class RefusedError(Exception):
    """A file of weights is not what it should be."""


class Worker:
    """The players of a run, asked for units.

    Args:
        config: of the run, as values of JSON.
        threads: of the processor that it may use; with one, its replies have bits of their own.
            0: as many as this process does.
    """

    def __init__(self, config: Mapping[str, Any], *, threads: int = 1) -> None:
        self.config = resolve({**config, "threads": threads})
        self.players = Players(self.config)
        games = [game for game, _ in self.players.environments]
        self._games, self._known = games, known_games(games)
        self._oracles = configured_oracles(self.config.environments, games)
        self._rewards = rewards_of(self.config) if self.config.rollout.candidates.count > 1 else ()
        self._held: dict[str, Weights] = {}  # by player

    def answer(
        self, data: bytes, files: Mapping[str, bytes], between: Callable[[], None] | None = None
    ) -> bytes:
        """Return the answer to a task, or what is wrong with its weights.

        Args:
            data: the task.
            files: contents of files that it names, by their SHA-256; others are read.
            between: called where no reply is awaited, and between two tokens where the sampler can
                be held there; it may ``renew`` the weights.

        Raises:
            SparringError: as playing here would.
        """
        task, rollouts = task_of(data, self._known), dict[int, Rollout]()
        self.players.between = between
        try:
            for _, alike in itertools.groupby(task.items(), lambda one: one[1][1:]):
                rollouts.update(self._played(dict(alike), files))
        except RefusedError as refusal:
            log.warning("A worker refuses weights: %s.", refusal)
            return json.dumps({"refused": str(refusal)}).encode()
        return answer_bytes(Answer(rollouts))

    def take(self, weights: Sequence[Weights], files: Mapping[str, bytes]) -> None:
        """Take the weights that are not held.

        Args:
            weights: that units are played with.
            files: contents of files by their SHA-256; others are read.

        Raises:
            RefusedError: a file is not what it should be.
        """
        now = held_after(self._held, weights)
        for member in self.players.members:
            if not {str(one) for one in self.players.parts(member)} & now.keys():
                self.players.drop_member(member)
        self._held = {name: one for name, one in self._held.items() if name in now}
        for one in weights:
            before = self._held.pop(one.player, None)  # without it, if the new ones are refused
            if before is None or before[2:] != one[2:]:
                who, tensors = ref(one.player), _tensors(one, files.get(one.digest))
                self.players.policies[who.name or MAIN].take(who, tensors, one.version)
            self._held[one.player] = one

    def renew(self, data: bytes, files: Mapping[str, bytes]) -> None:
        """Take newer weights of policies, also while their players are at play.

        What cannot be read is left: the next task names what it is played with.

        Args:
            data: as ``news_bytes`` gives it.
            files: contents of files that it names, by their SHA-256; others are read.
        """
        newer = [one for one in news_of(data) if self._is_newer(one)]
        past = [one for one in self._held.values() if ref(one.player).step is not None]
        if not newer:
            return
        before = self._held
        try:
            self.take([*past, *newer], files)
        except RefusedError as refusal:  # there may be newer ones already, and this file be gone
            log.info("A worker plays on with older weights: %s.", refusal)
            self._held = {**before, **self._held}
        self.players.renew()

    def _is_newer(self, one: Weights) -> bool:
        held = self._held.get(one.player)
        return held is not None and one.version > held.version

    def _played(
        self, units: Mapping[int, Unit], files: Mapping[str, bytes]
    ) -> Iterator[tuple[int, Rollout]]:
        """Yield the rollouts of units that are played with the same weights: in one, as that is
        quicker, and an episode is the same whatever is played beside it.

        Where something failed, each is played by itself, so that each has counts of its own.
        """
        first = next(iter(units.values()))
        self.take(first.weights, files)
        judging = self._judging(first.progress)
        specs = [spec for unit in units.values() for spec in unit.specs]
        episodes, counts = self.players.play(specs, judging)
        if len(units) > 1 and (counts.retried or counts.dropped_groups):
            for number, unit in units.items():
                yield number, self._scored(self.players.play(unit.specs, judging), judging)
            return
        left = iter(episodes)
        for number, unit in units.items():
            share = counts.judging * len(unit.specs) / len(specs)
            own = counts if len(units) == 1 else RolloutCounts(judging=share)
            rollout = Rollout(list(itertools.islice(left, len(unit.specs))), own)
            yield number, self._scored(rollout, judging)

    def _scored(self, rollout: Rollout, judging: Judging | None) -> Rollout:
        if judging is None or not self.config.scale.lag:
            return rollout
        found = scored(self.players, rollout.episodes)
        return rollout._replace(counts=replace(rollout.counts, scored=found))

    def _judging(self, progress: float | None) -> Judging | None:
        if progress is None:
            return None
        oracles, rewards = self._oracles, self._rewards
        return Judging.of(self.config, self._games, progress, oracles=oracles, rewards=rewards)


def _tensors(one: Weights, content: bytes | None) -> Any:
    try:
        found = file_digest(Path(one.file)) if content is None else sha256_hex(content)
    except OSError as error:
        raise RefusedError(f"{one.file} cannot be read: {error}") from error
    if found != one.digest:
        raise RefusedError(f"{one.file} is not what was written")
    load = safetensors.torch.load_file
    return load(one.file) if content is None else safetensors.torch.load(content)


def serve(
    hear: Callable[[], Message], say: Callable[[bytes], None], waits: Callable[[], bool] = bool
) -> None:
    """Be a worker, until whoever asks is gone.

    The first message that comes holds the configuration; the first that goes says that the worker
    is ready, and on what it runs.

    Args:
        hear: returns the next message, or raises EOFError.
        say: sends one.
        waits: whether there is a next one already. While a task is played in fresh order that is
            news of weights: nobody is sent a task who has not answered the one before.
    """

    def news() -> None:
        last = None
        while waits():
            last = hear()
        if last is not None:
            worker.renew(*last)

    try:
        worker = Worker(json.loads(hear()[0]))
        say(ready())
        fresh = worker.config.scale.order == FRESH
        with CallWatch(worker.config.call_seconds):
            while True:
                message = hear()
                if is_news(message[0]):
                    worker.renew(*message)
                else:
                    say(answered(worker, *message, news if fresh else None))
    except SparringError as error:
        say(failed(error))
    except (EOFError, OSError):
        return


def ready() -> bytes:
    """Return the message that a worker is ready, and on what it runs."""
    return json.dumps({"ready": fingerprint()}).encode()


def answered(
    worker: Worker,
    data: bytes,
    files: Mapping[str, bytes],
    between: Callable[[], None] | None = None,
) -> bytes:
    """Return a worker's answer to a task, or the error that it has met."""
    try:
        return worker.answer(data, files, between)
    except SparringError as error:
        return failed(error)
    except Exception as error:
        return unexpected(error, "A worker", RolloutError)


def failed(error: SparringError) -> bytes:
    """Return an error of Sparring's as a message."""
    return _error(type(error).__name__, str(error))


def unexpected(error: Exception, who: str, kind: type[SparringError]) -> bytes:
    """Log an error that nobody foresaw, and return it as a message: what it is, and where.

    Args:
        error: as it was caught.
        who: has met it, as a sentence begins.
        kind: what whoever hears of it raises.
    """
    log.exception("%s failed.", who)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(frame.filename).name}:{frame.lineno}"
    return _error(kind.__name__, f"{who} failed at {where}: {error!r}.")


def _error(kind: str, message: str) -> bytes:
    return json.dumps({"error": [kind, message]}).encode()
