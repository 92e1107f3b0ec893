"""A learner with split weights (``learner.sharding: fsdp2``), in a process.

Besides the messages of ``rank_process.py`` there are requests to gather the weights (``weights``)
and the optimiser's state (``moments``), which learner 0 writes to files.
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
from sparring.engine.ranks.rank_process import main as run_learner
from sparring.learn.gradient_step import Means
from sparring.learn.learner import Learner
from sparring.learn.split import (
    load_optimizer_rows,
    load_weight_rows,
    save_streamed,
    split_learner,
    whole_moments,
    whole_weights,
)
from sparring.learn.weight_files import parameters_of, update_reference
from sparring.models.language_model import LanguageModel

LOST = ("gloo", "NCCL", "Connection", "Timed out", "TCPStore", "FileStore")  # in torch's errors


class Shard(Rank):
    """A learner that holds a part of weights, gradients and optimiser."""

    def connect(self) -> None:
        """Connect to the other learners, and split the models.

        Raises:
            LostError: the learners have not found each other.
        """
        dist: Any = torch.distributed
        store = dist.FileStore(str(self._store), self.ranks)
        trained = {name: self.engine.policies[name].trained for name in self.engine.learners}
        kinds = {learner.model.device.type for learner in trained.values()}
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
        for learner in trained.values():
            split_learner(learner, meshes[learner.model.device.type], self, each_pass=each_pass)

    def collect_means(self, means: Means) -> None:
        """Keep this learner's figures, which the training process collects; see ``RankGroup``."""
        self._figures = [means.to_bytes(), *(part.to_bytes() for part in means.parts)]

    def answer(self, data: bytes) -> bytes:
        """Carry out a message, and return the reply.

        Raises:
            SparringError: learning failed.
            LostError: another learner has ended.
        """
        head, _, payload = data.partition(b"\n")
        try:
            return self._answer(json.loads(head), payload)
        except RuntimeError as error:
            if any(word in str(error) for word in LOST):
                raise LostError(error) from error
            raise

    def _answer(self, request: dict[str, Any], payload: bytes) -> bytes:
        (kind,) = request
        if kind == "take":
            name, folder, version = request[kind]
            self._take_weights(self.engine.policies[name], Path(folder), version)
            return b"{}\n"
        if kind == "refer":
            (name,) = request[kind]
            policy = self.engine.policies[name]
            update_reference(policy.trained.snapshots, policy.model)
            return b"{}\n"
        if kind in ("weights", "moments"):
            name, *paths = request[kind]
            policy = self.engine.policies[name]
            save = self._save_all_weights if kind == "weights" else self._save_moments
            save(policy.trained, *paths)
            return b"{}\n"
        message = LearnMessage.from_bytes(request[kind], payload)
        policy = self.engine.policies[message.policy]
        if kind == "imitate":
            return json.dumps({"loss": policy.imitate(message.episodes)}).encode() + b"\n"
        learn(policy, message)
        answer = json.dumps({"parts": [len(part) for part in self._figures]}).encode()
        return b"".join([answer, b"\n", *self._figures])

    def _take_weights(self, policy: Policy, folder: Path, version: int) -> None:
        part = partial(load_weight_rows, rank=self.rank, ranks=self.ranks)
        part(policy.model, folder / policy.file("model"))
        policy.model.version = version
        for copied in policy.saved_snapshots:
            part(copied.model, folder / policy.file(copied.purpose))
        load_optimizer_rows(
            policy.trained, folder / policy.file("optimizer"), self.rank, self.ranks
        )

    def _save_all_weights(self, learner: Learner, path: str, ema_path: str) -> None:
        self._save_weights(learner.model, path)
        if learner.average is not None:
            self._save_weights(learner.average.model, ema_path)

    def _save_weights(self, model: LanguageModel, path: str) -> None:
        shapes = {
            name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in model.tensors().items()
        }
        save_streamed(whole_weights(model), shapes, self._path_if_first(path), "The weight")

    def _save_moments(self, learner: Learner, path: str) -> None:
        moments = whole_moments(learner)
        state = learner.optimizer.state
        fields_of = [state.get(parameter, {}) for parameter in parameters_of(learner.optimizer)]
        shapes = {
            f"{index}.{key}": (value.dtype, tuple(value.shape))
            for index, fields in enumerate(fields_of)
            for key, value in fields.items()
        }
        save_streamed(moments, shapes, self._path_if_first(path), "The optimiser's")

    def _path_if_first(self, path: str) -> Path | None:
        """Return the file that this learner writes; None if another learner writes it."""
        return None if self.rank else Path(path)


def main(read_fd: int, write_fd: int) -> None:
    """Run a learner with split weights; see ``rank_process.main``."""
    run_learner(read_fd, write_fd, Shard)
