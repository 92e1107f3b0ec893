"""The weights that workers play with, as files: one per player and version.

Plays that are begun pin what they are played with: a file stays as long as plays ask for it, also
when the policy has learnt on, or a snapshot has left the league.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sparring.core.errors import CheckpointError
from sparring.core.files import TEMPORARY, disk_errors, file_digest, link_or_copy
from sparring.core.refs import LEARNER, MAIN, OWN, PlayerRef, ref, refs
from sparring.engine.players import Players
from sparring.engine.protocol import Pinned, WeightKey
from sparring.engine.workers.units import Weights
from sparring.learn.weights import save_weights
from sparring.models.language_model import LanguageModel


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
