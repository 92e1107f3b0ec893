"""Several learners of a run that split weights, gradients and optimiser among them.

Each learner is a process of this machine (``shard_process.py``), learner 0 included, on the CPU or
on a GPU. The training process plays, and therefore holds complete weights (on learner 0's GPU, if
there are GPUs), but no gradients and no optimiser. After an update the weights are gathered in a
file of the run folder, one tensor at a time, and the training process reads the file.

Checkpoints are those of a run with one learner, so a run may resume with any number of learners,
split or not. Torch's distributed checkpoints would need a file per learner and a pickle as index,
and Sparring reads no pickles.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from sparring.config import RunConfig
from sparring.core.errors import RunError
from sparring.core.files import disk_errors, link_or_copy
from sparring.core.records import Credit, Episode
from sparring.engine.local import Policy
from sparring.engine.protocol import Batch
from sparring.engine.ranks.data_parallel import (
    STATE_PREFIX,
    RankZero,
    make_learn_message,
    read_means,
)
from sparring.engine.ranks.messages import TIMEOUT_SECONDS, LearnMessage, LostError
from sparring.learn.weight_files import check_optimizer, save_optimizer, save_weights
from sparring.models.language_model import LanguageModel

LOOPBACK = "lo" if sys.platform == "linux" else "lo0"  # interface on which gloo and nccl listen
# Gathered weights are allocated and freed often. The C library returns freed blocks above this size
# to the system at once, so that memory does not fragment.
MALLOC_SETTINGS = {"MALLOC_MMAP_THRESHOLD_": str(1 << 20)}
WEIGHTS, AVERAGE = "weights.safetensors", "average.safetensors"  # files of gathered weights


class ShardedRanks(RankZero):
    """The learners of a run with split weights, as the training process sees them."""

    module = "sparring.engine.ranks.shard_process"

    def __init__(self, config: RunConfig, folder: Path) -> None:
        super().__init__(config, folder)
        self._other_ranks = range(self.num_ranks)
        names = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
        self._environment = {**dict.fromkeys(names, LOOPBACK), **MALLOC_SETTINGS}
        self._policies: dict[str, Policy] = {}
        # policy -> (version of its weights, file of its optimiser's state), until they are sent
        self._states: dict[str, tuple[int, Path]] = {}
        self._lost_versions: dict[str, int] = {}  # policy -> its version when its state was lost

    def serve(self, policies: Iterable[Policy]) -> None:
        """Take over the optimisers of these policies.

        Raises:
            ConfigError: the policies are on GPUs, and this machine has fewer GPUs than learners.
        """
        self._policies = {policy.name: policy for policy in policies}
        super().serve(self._policies.values())
        for policy in self._policies.values():
            policy.moments = self

    def end(self) -> None:
        """End the learners; optimisers then start again without a state."""
        super().end()
        for policy in self._policies.values():
            policy.moments = None

    def learn(
        self, policy: Policy, batch: Batch, credit: Credit, *, step: int, progress: float
    ) -> dict[str, float]:
        """Update a policy's weights once; see ``Policy.learn``.

        Raises:
            RunError: a learner has ended, or the disk is full.
            SparringError: learning failed.
        """
        if not len(batch.pack.turn_of):
            return policy.learn(batch, credit, step=step, progress=progress)
        message = make_learn_message(batch, credit, step, progress).to_bytes()
        answers = self._learn_on_all(policy, message)
        means_of_ranks = [read_means(*answer) for answer in answers]
        total = means_of_ranks[0][0]  # means that belong to no leaf are equal at all learners
        by_leaf = zip(*(leaves for _, *leaves in means_of_ranks), strict=True)
        total.parts = [leaf for leaves in by_leaf for leaf in leaves]  # in the order of the leaves
        return {**total.result(), "learning_rate": policy.trained.learning_rate(progress)}

    def imitate(self, policy: Policy, episodes: Sequence[Episode]) -> float:
        """Make one supervised update; see ``Policy.imitate``.

        Raises:
            RunError: a learner has ended, or the disk is full.
        """
        message = LearnMessage(policy.name, 0, 0.0, {}, list(episodes)).to_bytes("imitate")
        answers = self._learn_on_all(policy, message)
        loss: float = sum(header["loss"] for header, _ in answers)
        return loss

    def set_reference(self, policy: str) -> None:
        """Make a policy's current weights its reference.

        If the learners have other weights, the next update sends the weights and the reference.

        Raises:
            RunError: a learner has ended.
        """
        if self._sent_versions.get(policy) == self._policies[policy].model.version:
            with self._close_on_error():
                self._ask({"refer": [policy]})

    def save(self, policy: str, path: Path) -> None:
        """Write the state of a policy's optimiser; see ``Moments``.

        Raises:
            RunError: a learner has ended.
            DivergedError: a value of the state is not finite.
            OSError: the disk is full or not writable.
        """
        owner = self._policies[policy]
        if self._sent_versions.get(policy) == owner.model.version:
            with self._close_on_error():
                self._ask({"moments": [policy, str(path)]})
            return
        self._write_state(owner, path)

    def keep(self, policy: str, path: Path) -> None:
        """Take the state of a policy's optimiser from a file that may be deleted; see ``Moments``.

        Raises:
            RunError: the disk is full or not writable.
            CheckpointError: the state belongs to different parameters.
        """
        owner = self._policies[policy]
        check_optimizer(owner.trained.optimizer, path)
        with disk_errors(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            state_file = self._folder / f"kept-{policy}.safetensors"
            state_file.unlink(missing_ok=True)
        link_or_copy(path, state_file)
        self._states[policy] = owner.model.version, state_file
        self._lost_versions.pop(policy, None)

    def close(self) -> None:
        """End the learners; optimiser states that only they have are lost."""
        self._lost_versions |= self._sent_versions
        super().close()

    def _write_state(self, policy: Policy, path: Path) -> None:
        version, state_file = self._states.get(policy.name, (None, path))
        is_current = version == policy.model.version
        is_lost = self._lost_versions.get(policy.name) == policy.model.version
        if is_lost or (is_current and not state_file.exists()):
            raise RunError(
                f"The optimiser's state of policy {policy.name!r} was lost with learners that have "
                "ended. Resume from the last checkpoint with --resume."
            )
        if is_current:
            link_or_copy(state_file, path)
        else:
            save_optimizer(policy.trained.optimizer, path)  # no update yet

    def _learn_on_all(self, policy: Policy, message: bytes) -> list[tuple[dict[str, Any], bytes]]:
        with self._close_on_error():
            self._start()
            self._send_policy(policy)
            answers = self._request_all(message)
            paths = [self._folder / WEIGHTS, self._folder / AVERAGE]
            self._ask({"weights": [policy.name, *map(str, paths)]})
            average = policy.trained.average
            _load_weights(policy.model, paths[0])
            if average is not None:
                _load_weights(average.model, paths[1])
        self._sent_versions[policy.name] = policy.model.version
        return answers

    def _send_policy(self, policy: Policy) -> None:
        if self._sent_versions.get(policy.name) == policy.model.version:
            return
        with disk_errors(self._folder):
            folder = Path(tempfile.mkdtemp(prefix=STATE_PREFIX, dir=self._folder))
            self._write_state(policy, folder / policy.file_name("optimizer"))
            save_weights(policy.model, folder / policy.file_name("model"))
            for snapshot in policy.saved_snapshots:
                snapshot.save(folder / policy.file_name(snapshot.purpose))
        self._ask({"take": [policy.name, str(folder), policy.model.version]})
        shutil.rmtree(folder, ignore_errors=True)
        self._states.pop(policy.name, (0, folder))[1].unlink(missing_ok=True)

    def _ask(self, request: dict[str, Any]) -> None:
        self._request_all(json.dumps(request).encode() + b"\n")

    def _request_all(self, message: bytes) -> list[tuple[dict[str, Any], bytes]]:
        self._broadcast(message)
        return [self._read_message(child, TIMEOUT_SECONDS) for child in self._children]

    def _connect(self) -> None:
        """Do nothing, because the learners connect without the training process."""

    @contextlib.contextmanager
    def _close_on_error(self) -> Iterator[None]:
        try:
            yield
        except LostError as error:
            raise self._close_after(error) from error
        except BaseException:
            self.close()
            raise


@torch.no_grad()
def _load_weights(model: LanguageModel, path: Path) -> None:
    with safe_open(path, framework="pt") as file:
        for name, tensor in model.tensors().items():
            tensor.copy_(file.get_tensor(name))
    model.version += 1
