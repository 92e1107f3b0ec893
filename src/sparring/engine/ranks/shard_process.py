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
from sparring.engine.ranks.messages import TIMEOUT_SECONDS, LearnMessage, LostError
from sparring.engine.ranks.rank_process import FurtherLearner, learn
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

# words that occur in torch's errors about lost connections
CONNECTION_WORDS = ("gloo", "NCCL", "Connection", "Timed out", "TCPStore", "FileStore")


class ShardedLearner(FurtherLearner):
    """A learner that holds a part of the weights, the gradients and the optimiser's state."""

    def connect(self) -> None:
        """Connect to the other learners, and split the models.

        Raises:
            LostError: the learners have not found each other.
        """
        dist: Any = torch.distributed
        store = dist.FileStore(str(self._store), self.num_ranks)
        learners = [self.engine.policies[name].trained for name in self.engine.learners]
        device_types = {learner.model.device.type for learner in learners}
        try:
            dist.init_process_group(
                "gloo" if device_types == {"cpu"} else "cpu:gloo,cuda:nccl",
                store=store,
                rank=self.rank,
                world_size=self.num_ranks,
                timeout=timedelta(seconds=TIMEOUT_SECONDS),
            )
            shape = (self.num_ranks,)
            meshes = {name: init_device_mesh(name, shape) for name in sorted(device_types)}
        except RuntimeError as error:
            raise LostError(error) from error
        self._means: list[bytes] = []
        each_pass = self.engine.config.learner.gradient_sync == "pass"
        for learner in learners:
            split_learner(learner, meshes[learner.model.device.type], self, each_pass=each_pass)

    def collect_means(self, means: Means) -> None:
        """Store this learner's means, which the training process collects; see ``RankGroup``."""
        self._means = [means.to_bytes(), *(part.to_bytes() for part in means.parts)]

    def answer(self, message: bytes) -> bytes:
        """Carry out a message, and return the answer.

        Raises:
            SparringError: learning failed.
            LostError: another learner has ended.
        """
        header, _, payload = message.partition(b"\n")
        try:
            return self._carry_out(json.loads(header), payload)
        except RuntimeError as error:
            if any(word in str(error) for word in CONNECTION_WORDS):
                raise LostError(error) from error
            raise

    def _carry_out(self, request: dict[str, Any], payload: bytes) -> bytes:
        (command,) = request
        if command == "take":
            name, folder, version = request[command]
            self._take_weights(self.engine.policies[name], Path(folder), version)
            return b"{}\n"
        if command == "refer":
            (name,) = request[command]
            policy = self.engine.policies[name]
            update_reference(policy.trained.snapshots, policy.model)
            return b"{}\n"
        if command in ("weights", "moments"):
            name, *paths = request[command]
            policy = self.engine.policies[name]
            save = self._save_all_weights if command == "weights" else self._save_moments
            save(policy.trained, *paths)
            return b"{}\n"
        message = LearnMessage.from_bytes(request[command], payload)
        policy = self.engine.policies[message.policy]
        if command == "imitate":
            return json.dumps({"loss": policy.imitate(message.episodes)}).encode() + b"\n"
        learn(policy, message)
        header = json.dumps({"parts": [len(part) for part in self._means]}).encode()
        return b"".join([header, b"\n", *self._means])

    def _take_weights(self, policy: Policy, folder: Path, version: int) -> None:
        load_rows = partial(load_weight_rows, rank=self.rank, ranks=self.num_ranks)
        load_rows(policy.model, folder / policy.file_name("model"))
        policy.model.version = version
        for snapshot in policy.saved_snapshots:
            load_rows(snapshot.model, folder / policy.file_name(snapshot.purpose))
        load_optimizer_rows(
            policy.trained, folder / policy.file_name("optimizer"), self.rank, self.num_ranks
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
        parameters = parameters_of(learner.optimizer)
        shapes = {
            f"{index}.{key}": (value.dtype, tuple(value.shape))
            for index, parameter in enumerate(parameters)
            for key, value in state.get(parameter, {}).items()
        }
        save_streamed(moments, shapes, self._path_if_first(path), "The optimiser's")

    def _path_if_first(self, path: str) -> Path | None:
        """Return the path if this learner has rank 0, which writes the file; None otherwise."""
        return None if self.rank else Path(path)


def main(read_fd: int, write_fd: int) -> None:
    """Run a learner with split weights; see ``rank_process.main``."""
    run_learner(read_fd, write_fd, ShardedLearner)
