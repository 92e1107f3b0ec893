"""The workers' weights: a file for each player and version, and the files that each worker holds.

Episodes pin their weights when they begin. A file stays until its episodes end, even if the policy
is updated or a snapshot leaves the league during these episodes.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sparring.core.errors import CheckpointError, RunError
from sparring.core.files import TEMPORARY, disk_errors, file_digest, link_or_copy
from sparring.core.records import LEARNER, MAIN, POLICY_KINDS, PlayerRef, ref, refs
from sparring.engine.players import Players
from sparring.engine.protocol import Pinned, WeightKey
from sparring.engine.workers.units import WeightsFile, WorkUnit, weights_after
from sparring.learn.weight_files import save_weights
from sparring.models.language_model import LanguageModel


class PublishedWeights:
    """Files of weights in a folder; unpinned files are removed.

    Args:
        players: the players whose weights are written.
        folder: folder of the files; it is emptied first, and removed by ``close``.
    """

    def __init__(self, players: Players, folder: Path) -> None:
        self.folder = folder.absolute()
        self._players = players
        self._files: dict[WeightKey, WeightsFile] = {}
        self._pinned: list[Pinned] = []
        with disk_errors(self.folder):
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(parents=True)

    def pin(self, players: Iterable[PlayerRef]) -> Pinned:
        """Write the current weights of these players, and keep them until ``release``.

        Raises:
            RunError: the disk is full or not writable.
            DivergedError: a weight is not finite.
        """
        models: dict[str, LanguageModel] = {}
        policy_players = {player for player in players if player.kind in POLICY_KINDS}
        for player in sorted(policy_players, key=str):
            named_model = self._find_model(player)
            if named_model is not None:
                models[named_model[0]] = named_model[1]
        for name, model in models.items():
            if (name, model.version) not in self._files:
                self._write(name, model)
        return self.pin_existing(tuple((name, model.version) for name, model in models.items()))

    def pin_all(self) -> Pinned:
        """Pin the current weights of every policy and every snapshot."""
        snapshots = [s for member in self._players.members for s in self._players.parts(member)]
        return self.pin([*self._current_players(), *snapshots])

    def pin_newest(self) -> Pinned:
        """Pin the current weights of every policy."""
        return self.pin(self._current_players())

    def _current_players(self) -> list[PlayerRef]:
        players = refs(("learner", "policy"))
        return [player.for_policy(name) for name in self._players.policies for player in players]

    def pin_existing(self, keys: Pinned) -> Pinned:
        """Pin files that exist.

        Raises:
            CheckpointError: a file does not exist.
        """
        missing_keys = [key for key in keys if key not in self._files]
        if missing_keys:
            raise CheckpointError(
                f"The checkpoint lacks the weights of {missing_keys[0][0]} after "
                f"{missing_keys[0][1]} "
                "updates, with which episodes of the next steps were played. Take an earlier "
                "checkpoint, or start again with --overwrite."
            )
        self._pinned.append(keys)
        return keys

    def release(self, keys: Pinned) -> None:
        """Unpin files, and remove those that nothing else has pinned."""
        self._pinned.remove(keys)
        pinned_keys = {key for pin in self._pinned for key in pin}
        for key in self._files.keys() - pinned_keys:
            Path(self._files.pop(key).file).unlink(missing_ok=True)

    def files(self, keys: Pinned) -> tuple[WeightsFile, ...]:
        """Return pinned files."""
        return tuple(self._files[key] for key in keys)

    def rewrite_damaged(self, keys: Pinned) -> int:
        """Rewrite damaged files from the current weights, and return their number.

        Raises:
            CheckpointError: the policy has been updated since a damaged file was written, so the
                file was the only copy.
        """
        damaged_keys = [key for key in keys if not _is_intact(self._files[key])]
        for name, version in damaged_keys:
            named_model = self._find_model(ref(name))
            if named_model is None or named_model[1].version != version:
                raise CheckpointError(
                    f"{self._files[name, version].file} was damaged after it was written, and "
                    "the policy has been updated since. Resume from the last checkpoint "
                    "(--resume) on another disk."
                )
            self._write(name, named_model[1])
        return len(damaged_keys)

    def save(self, folder: Path) -> dict[str, list[Any]]:
        """Link pinned files into a folder; return file name -> [player, version, digest].

        Raises:
            OSError: the disk is full or not writable.
        """
        entries = {}
        for key in dict.fromkeys(key for pin in self._pinned for key in pin):
            weights = self._files[key]
            file_name = f"open-{Path(weights.file).name}"
            if not link_or_copy(Path(weights.file), folder / file_name):
                raise OSError(f"{weights.file} cannot be copied to {folder}")
            entries[file_name] = [*key, weights.digest]
        return entries

    def restore(self, folder: Path, saved: Mapping[str, Sequence[Any]]) -> None:
        """Restore the files that ``save`` linked, so that they can be pinned again.

        Raises:
            RunError: the disk is full or not writable.
        """
        for file_name, (player, version, digest) in saved.items():
            path = self._path(player, version)
            with disk_errors(path):
                link_or_copy(folder / file_name, path)
            self._files[player, version] = WeightsFile(player, str(path), digest, version)

    def _find_model(self, player: PlayerRef) -> tuple[str, LanguageModel] | None:
        """Return (name of the weights, model) of a player; None if its weights never change."""
        policy = self._players.policies.get(player.name or MAIN)
        is_fixed = policy is None or policy.frozen or player.kind == "demonstrator"
        model = None if policy is None or is_fixed else policy.model_of(player)
        if policy is None or model is None:
            return None
        return str(LEARNER.for_policy(policy.name)) if model is policy.model else str(player), model

    def _path(self, player: str, version: int) -> Path:
        return self.folder / f"{player}-v{version:06d}.safetensors"

    def _write(self, name: str, model: LanguageModel) -> None:
        path = self._path(name, model.version)
        temporary_path = path.with_name(f"{TEMPORARY}{path.name}")
        with disk_errors(path):
            save_weights(model, temporary_path)
            digest = file_digest(temporary_path)
            os.replace(temporary_path, path)
        self._files[name, model.version] = WeightsFile(name, str(path), digest, model.version)

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _is_intact(weights: WeightsFile) -> bool:
    try:
        return file_digest(Path(weights.file)) == weights.digest
    except OSError:
        return False


MAX_REFUSALS = 3  # largest number of refusals of a worker in a row


class WorkerWeights:
    """The weights that each worker holds.

    Args:
        published: the files of weights.
    """

    def __init__(self, published: PublishedWeights) -> None:
        self.refusing_workers: list[int] = []  # workers that refused their weights
        self.num_rewritten = 0  # number of rewritten files
        self._published = published
        self._weights_of: dict[int, dict[str, WeightsFile]] = {}  # of running workers, by player
        self._refusals = Counter[int]()  # by worker, since its last answer

    def is_running(self, worker: int) -> bool:
        """Return whether a worker is running."""
        return worker in self._weights_of

    def begin(self, worker: int) -> None:
        """Record that a worker is started and holds no weights."""
        self._weights_of[worker] = {}

    def end(self, worker: int) -> None:
        """Record that a worker has ended."""
        del self._weights_of[worker]
        self.refusing_workers = [n for n in self.refusing_workers if n != worker]

    def record_answer(self, worker: int) -> None:
        """Record that a worker could read its weights."""
        self._refusals.pop(worker, None)

    def record_sent(self, worker: int, units: Iterable[WorkUnit]) -> dict[str, Path]:
        """Record sent units; return the weights files that the worker lacks, by digest."""
        worker_weights, missing_files = self._weights_of[worker], dict[str, Path]()
        for unit in units:
            new_files = [file for file in unit.weights if worker_weights.get(file.player) != file]
            missing_files |= {file.digest: Path(file.file) for file in new_files}
            worker_weights = weights_after(worker_weights, unit.weights)
        self._weights_of[worker] = worker_weights
        return missing_files

    def rewrite_refused(self, worker: int, units: Iterable[WorkUnit]) -> None:
        """Rewrite the weights of units that a worker has refused.

        Raises:
            RunError: the worker has refused them several times in a row.
        """
        self._refusals[worker] += 1
        if self._refusals[worker] > MAX_REFUSALS:
            raise RunError(
                f"A worker has refused the weights in {self._published.folder} "
                f"{self._refusals[worker]} times: it does not read the bytes that were "
                "written. Choose a run folder on another disk, which all workers can read."
            )
        keys = {(weights.player, weights.version) for unit in units for weights in unit.weights}
        self.num_rewritten += self._published.rewrite_damaged(tuple(sorted(keys)))
        self._weights_of[worker] = {}
