"""A learner of several whose weights are split (``learner.sharding: fsdp2``): a process of its own.

Beside what other learners are sent (``rank_process.py``) it is asked to bring the weights together
(``weights``) and the optimiser's state (``moments``). Learner 0 writes them.
"""

from __future__ import annotations

import json
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed
from torch.distributed.device_mesh import init_device_mesh

from sparring.engine.local import Policy
from sparring.engine.ranks.messages import PATIENCE, LearnMessage, LostError
from sparring.engine.ranks.rank_process import Rank, learn
from sparring.engine.ranks.rank_process import main as be
from sparring.learn.gradient_step import Means
from sparring.learn.learner import Learner
from sparring.learn.split import (
    save_streamed,
    split_learner,
    take_moments,
    take_weights,
    whole_moments,
    whole_weights,
)
from sparring.learn.weight_files import update_reference, updated
from sparring.models.language_model import LanguageModel

LOST = ("gloo", "NCCL", "Connection", "Timed out", "TCPStore", "FileStore")  # words of its errors


class Shard(Rank):
    """A learner that holds a part of everything; see the top of this file."""

    def meet(self) -> None:
        """Find the other learners, and split what is to be learnt.

        Raises:
            LostError: they have not found each other.
        """
        dist: Any = torch.distributed
        store = dist.FileStore(str(self._store), self.ranks)
        trained = {name: self.engine.policies[name].trained for name in self.engine.learners}
        kinds = {own.model.device.type for own in trained.values()}
        try:
            dist.init_process_group(
                "gloo" if kinds == {"cpu"} else "cpu:gloo,cuda:nccl",
                store=store,
                rank=self.rank,
                world_size=self.ranks,
                timeout=timedelta(seconds=PATIENCE),
            )
            meshes = {kind: init_device_mesh(kind, (self.ranks,)) for kind in sorted(kinds)}
        except RuntimeError as error:
            raise LostError(error) from error
        self._figures: list[bytes] = []
        each_pass = self.engine.config.learner.gradient_sync == "pass"
        for own in trained.values():
            split_learner(own, meshes[own.model.device.type], self, each_pass=each_pass)

    def counted(self, own: Means) -> None:
        """Keep one's own figures, which the training process counts; see ``RankGroup``."""
        self._figures = [own.to_bytes(), *(part.to_bytes() for part in own.parts)]

    def answer(self, data: bytes) -> bytes:
        """Do what a message asks for, and return what is said to it.

        Raises:
            SparringError: as learning alone would.
            LostError: another learner is gone.
        """
        head, _, rest = data.partition(b"\n")
        try:
            return self._answer(json.loads(head), rest)
        except RuntimeError as error:
            if any(word in str(error) for word in LOST):
                raise LostError(error) from error
            raise

    def _answer(self, said: dict[str, Any], rest: bytes) -> bytes:
        """Do what ``answer`` does."""
        (what,) = said
        if what == "take":
            name, folder, version = said[what]
            self._take(self.engine.policies[name], Path(folder), version)
            return b"{}\n"
        if what == "refer":
            (name,) = said[what]
            own = self.engine.policies[name]
            update_reference(own.trained.snapshots, own.model)
            return b"{}\n"
        if what in ("weights", "moments"):
            name, *paths = said[what]
            own = self.engine.policies[name]
            (self._weights if what == "weights" else self._moments)(own.trained, *paths)
            return b"{}\n"
        lesson = LearnMessage.from_bytes(said[what], rest)
        own = self.engine.policies[lesson.policy]
        if what == "imitate":
            return json.dumps({"loss": own.imitate(lesson.episodes)}).encode() + b"\n"
        learn(own, lesson)
        answer = json.dumps({"parts": [len(part) for part in self._figures]}).encode()
        return b"".join([answer, b"\n", *self._figures])

    def _take(self, own: Policy, folder: Path, version: int) -> None:
        part = partial(take_weights, rank=self.rank, ranks=self.ranks)
        part(own.model, folder / own.file("model"))
        own.model.version = version
        for one in own.kept:
            part(one.model, folder / own.file(one.purpose))
        take_moments(own.trained, folder / own.file("optimizer"), self.rank, self.ranks)

    def _weights(self, own: Learner, path: str, averages: str) -> None:
        self._whole(own.model, path)
        if own.average is not None:
            self._whole(own.average.model, averages)

    def _whole(self, model: LanguageModel, path: str) -> None:
        shapes = {name: (one.dtype, tuple(one.shape)) for name, one in model.tensors().items()}
        save_streamed(whole_weights(model), shapes, self._written(path), "The weight")

    def _moments(self, own: Learner, path: str) -> None:
        found = whole_moments(own)
        state = own.optimizer.state
        kept = [state.get(parameter, {}) for parameter in updated(own.optimizer)]
        shapes = {
            f"{index}.{key}": (value.dtype, tuple(value.shape))
            for index, fields in enumerate(kept)
            for key, value in fields.items()
        }
        save_streamed(found, shapes, self._written(path), "The optimiser's")

    def _written(self, path: str) -> Path | None:
        """Return the file that this learner writes; None where another one does."""
        return None if self.rank else Path(path)


def main(hear: int, say: int) -> None:
    """Be such a learner; see ``rank.main``."""
    be(hear, say, Shard)
