"""A worker makes the players of a run once, and then plays all units of episodes that it receives.

Any other worker can replace it: weights come as files, and an answer depends only on the task and
the configuration, so all workers give the same bytes.
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
from sparring.engine.logprob_check import check_logprobs
from sparring.engine.players import Players
from sparring.engine.protocol import ReplyJudges, rewards_of
from sparring.engine.workers.units import (
    WeightsFile,
    WorkerAnswer,
    WorkUnit,
    answer_bytes,
    is_weights_message,
    known_games,
    task_of,
    weights_after,
    weights_of_message,
)
from sparring.methods.oracles.judge import configured_oracles
from sparring.play.rollout import Rollout, RolloutCounts


def facts() -> dict[str, Any]:
    """Return ``torch_threads``, and as ``cuda`` whether torch can use a GPU."""
    return {"torch_threads": torch.get_num_threads(), "cuda": torch.cuda.is_available()}


def fingerprint() -> dict[str, str]:
    """Return the versions, processor and compiler, on which exact results depend."""
    return {
        "sparring": version(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "processor": torch.backends.cpu.get_cpu_capability(),
        "machine": platform.machine(),
        "compiler": os.environ.get("CC", ""),
    }


def check_same_versions(other_versions: object) -> None:
    """Check that a worker computes exactly the same numbers as this process.

    Raises:
        RunError: the worker runs on another processor, or other versions.
    """
    own_versions = fingerprint()
    if other_versions == own_versions:
        return
    versions: Mapping[Any, Any] = other_versions if isinstance(other_versions, dict) else {}
    name = next(name for name in own_versions if own_versions[name] != versions.get(name))
    raise RunError(
        f"A worker has {name} {versions.get(name)!r}, the training process {own_versions[name]!r}, "
        "so its replies would differ slightly. Install the same on both machines, or run without "
        "this worker. scale.mixed=true lets it play, but then a run cannot be repeated exactly."
    )


log = logging.getLogger(__name__)
Message = tuple[bytes, Mapping[str, bytes]]  # a task, and contents of files by their SHA-256


class RefusedError(Exception):
    """A weights file is missing or differs from its digest."""


class Worker:
    """Plays units with the players of a run.

    Args:
        config: the run's configuration, as values of JSON.
        threads: number of threads; 0: as many as this process has. With 1 thread, a
            reply has exactly the same numbers with any other replies.
    """

    def __init__(self, config: Mapping[str, Any], *, threads: int = 1) -> None:
        self.config = resolve({**config, "threads": threads})
        self.players = Players(self.config)
        games = [game for game, _ in self.players.environments]
        self._games, self._games_by_json = games, known_games(games)
        self._oracles = configured_oracles(self.config.environments, games)
        self._rewards = rewards_of(self.config) if self.config.rollout.candidates.count > 1 else ()
        self._weights_of: dict[str, WeightsFile] = {}  # the current weights of each player

    def answer(
        self, message: bytes, files: Mapping[str, bytes], on_pause: Callable[[], None] | None = None
    ) -> bytes:
        """Return the answer to a task, or an error about its weights.

        Args:
            message: the task.
            files: contents of weights files by their SHA-256; other files are read from disk.
            on_pause: function that is called while no reply is pending, and between two tokens if
                the sampler can pause there; it may call ``load_newer_weights``.

        Raises:
            SparringError: playing failed.
        """
        task, rollouts = task_of(message, self._games_by_json), dict[int, Rollout]()
        self.players.on_pause = on_pause
        try:
            for _, same_weights in itertools.groupby(task.items(), lambda item: item[1][1:]):
                rollouts.update(self._play_units(dict(same_weights), files))
        except RefusedError as refusal:
            log.warning("A worker refuses weights: %s.", refusal)
            return json.dumps({"refused": str(refusal)}).encode()
        return answer_bytes(WorkerAnswer(rollouts))

    def load_weights(self, weights: Sequence[WeightsFile], files: Mapping[str, bytes]) -> None:
        """Load the weights that the worker does not hold yet.

        Args:
            weights: the weights of the units.
            files: contents of files by their SHA-256; other files are read from disk.

        Raises:
            RefusedError: a file is missing or differs from its digest.
        """
        latest = weights_after(self._weights_of, weights)
        for member in self.players.members:
            if not {str(file) for file in self.players.parts(member)} & latest.keys():
                self.players.drop_member(member)
        self._weights_of = {name: file for name, file in self._weights_of.items() if name in latest}
        for file in weights:
            previous = self._weights_of.pop(file.player, None)  # the new file may be refused
            if previous is None or previous[2:] != file[2:]:
                player, tensors = ref(file.player), _read_tensors(file, files.get(file.digest))
                policy = self.players.policies[player.name or MAIN]
                policy.load_weights(player, tensors, file.version)
            self._weights_of[file.player] = file

    def load_newer_weights(self, message: bytes, files: Mapping[str, bytes]) -> None:
        """Load newer weights of policies, also while their players are playing.

        A file that cannot be read is ignored, because the next task names its own weights.

        Args:
            message: a message of ``weights_message``.
            files: contents of weights files by their SHA-256; other files are read from disk.
        """
        newer_files = [file for file in weights_of_message(message) if self._is_newer(file)]
        if not newer_files:
            return
        previous = self._weights_of
        snapshot_files = [file for file in previous.values() if ref(file.player).step is not None]
        try:
            self.load_weights([*snapshot_files, *newer_files], files)
        except RefusedError as refusal:  # even newer weights may have replaced this file
            log.info("A worker continues with older weights: %s.", refusal)
            self._weights_of = {**previous, **self._weights_of}
        self.players.update_samplers()

    def _is_newer(self, weights: WeightsFile) -> bool:
        current = self._weights_of.get(weights.player)
        return current is not None and weights.version > current.version

    def _play_units(
        self, units: Mapping[int, WorkUnit], files: Mapping[str, bytes]
    ) -> Iterator[tuple[int, Rollout]]:
        """Yield the rollouts of units that share their weights.

        All units are played in one rollout, which is faster and gives the same episodes. After a
        failure each unit is played separately, so that each has its own counts.
        """
        first_unit = next(iter(units.values()))
        self.load_weights(first_unit.weights, files)
        judging = self._make_judges(first_unit.progress)
        specs = [spec for unit in units.values() for spec in unit.specs]
        episodes, counts = self.players.play(specs, judging)
        if len(units) > 1 and (counts.retried or counts.dropped_groups):
            for number, unit in units.items():
                yield number, self._add_checks(self.players.play(unit.specs, judging), judging)
            return
        remaining_episodes = iter(episodes)
        for number, unit in units.items():
            seconds = counts.judging_seconds * len(unit.specs) / len(specs)
            unit_counts = counts if len(units) == 1 else RolloutCounts(judging_seconds=seconds)
            unit_episodes = list(itertools.islice(remaining_episodes, len(unit.specs)))
            rollout = Rollout(unit_episodes, unit_counts)
            yield number, self._add_checks(rollout, judging)

    def _add_checks(self, rollout: Rollout, judging: ReplyJudges | None) -> Rollout:
        if judging is None or not self.config.scale.lag:
            return rollout
        checks = check_logprobs(self.players, rollout.episodes)
        return rollout._replace(counts=replace(rollout.counts, scored=checks))

    def _make_judges(self, progress: float | None) -> ReplyJudges | None:
        if progress is None:
            return None
        oracles, rewards = self._oracles, self._rewards
        return ReplyJudges.of(self.config, self._games, progress, oracles=oracles, rewards=rewards)


def _read_tensors(weights: WeightsFile, content: bytes | None) -> Any:
    try:
        digest = file_digest(Path(weights.file)) if content is None else sha256_hex(content)
    except OSError as error:
        raise RefusedError(f"{weights.file} cannot be read: {error}") from error
    if digest != weights.digest:
        raise RefusedError(f"{weights.file} has changed since it was written")
    load = safetensors.torch.load_file
    return load(weights.file) if content is None else safetensors.torch.load(content)


def serve(
    receive: Callable[[], Message],
    send: Callable[[bytes], None],
    has_message: Callable[[], bool] = bool,
) -> None:
    """Run a worker until the sender of its messages has ended.

    The first message to the worker holds the configuration. The worker's first answer says that it
    is ready, with its fingerprint.

    Args:
        receive: returns the next message, or raises EOFError.
        send: sends a message.
        has_message: returns whether a message has arrived. A message that arrives during a task in
            fresh order announces weights, because the next task is sent after the answer.
    """

    def load_newest_weights() -> None:
        newest = None
        while has_message():
            newest = receive()
        if newest is not None:
            worker.load_newer_weights(*newest)

    try:
        worker = Worker(json.loads(receive()[0]))
        send(ready_message())
        is_fresh = worker.config.scale.order == FRESH
        with CallWatch(worker.config.call_seconds):
            while True:
                message = receive()
                if is_weights_message(message[0]):
                    worker.load_newer_weights(*message)
                else:
                    send(task_answer(worker, *message, load_newest_weights if is_fresh else None))
    except SparringError as error:
        send(error_message(error))
    except (EOFError, OSError):
        return


def ready_message() -> bytes:
    """Return the message that a worker is ready, with its fingerprint."""
    return json.dumps({"ready": fingerprint()}).encode()


def task_answer(
    worker: Worker,
    message: bytes,
    files: Mapping[str, bytes],
    on_pause: Callable[[], None] | None = None,
) -> bytes:
    """Return a worker's answer to a task, or its error as a message."""
    try:
        return worker.answer(message, files, on_pause)
    except SparringError as error:
        return error_message(error)
    except Exception as error:
        return unexpected_error_message(error, "A worker", RolloutError)


def error_message(error: SparringError) -> bytes:
    """Return a SparringError as a message."""
    return _error_bytes(type(error).__name__, str(error))


def unexpected_error_message(
    error: Exception, subject: str, error_class: type[SparringError]
) -> bytes:
    """Log an unexpected error, and return it as a message that says where it was raised.

    Args:
        error: the error.
        subject: the subject of the sentence, capitalised.
        error_class: the error class that the receiver raises.
    """
    log.exception("%s failed.", subject)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place_in_code = f"{Path(frame.filename).name}:{frame.lineno}"
    return _error_bytes(error_class.__name__, f"{subject} failed at {place_in_code}: {error!r}.")


def _error_bytes(error_class: str, message: str) -> bytes:
    return json.dumps({"error": [error_class, message]}).encode()
