"""Several learners of one run whose weights, gradients and optimiser are split among them.

They are processes of this machine (``shard_process.py``), learner 0 among them, each on the CPU or
on a GPU of its own. The training process plays, and so holds whole weights (on learner 0's GPU,
where there are GPUs); it holds no gradients and no optimiser. After an update the weights come
together in a file of the run folder, one tensor at a time, and the training process reads them.

Checkpoints are those of a run with one learner. So it may go on with any number of learners, and
with or without splitting. Torch's distributed checkpoints would hold a file for each learner, and a
list of contents that is a pickle, which is never read here.
"""

from __future__ import annotations

import contextlib
import itertools
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
from sparring.engine.ranks.data_parallel import STATE, Ranks, lesson_of
from sparring.engine.ranks.messages import PATIENCE, LearnMessage, LostError
from sparring.learn.gradient_step import Means
from sparring.learn.weight_files import check_optimizer, save_optimizer, save_weights
from sparring.models.language_model import LanguageModel

LOOPBACK = "lo" if sys.platform == "linux" else "lo0"  # the interface on which gloo and nccl listen
# weights come together and go all the time; the C library keeps what is freed, in pieces, unless it
# is told that what is larger than so many bytes is given back at once
FREED = {"MALLOC_MMAP_THRESHOLD_": str(1 << 20)}
WEIGHTS, AVERAGE = "weights.safetensors", "average.safetensors"  # files that they come together in


class Shards(Ranks):
    """The learners of a run whose weights are split, as the training process sees them."""

    module = "sparring.engine.ranks.shard_process"

    def __init__(self, config: RunConfig, folder: Path) -> None:
        super().__init__(config, folder)
        self._others = range(self.ranks)
        names = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
        self._environment = {**dict.fromkeys(names, LOOPBACK), **FREED}
        self._policies: dict[str, Policy] = {}
        # by policy: the version of its weights and the file of its optimiser, not yet sent
        self._states: dict[str, tuple[int, Path]] = {}
        self._gone: dict[str, int] = {}  # the version at which an optimiser's state was lost

    def serve(self, policies: Iterable[Policy]) -> None:
        """Hold these policies' optimisers from now on.

        Raises:
            ConfigError: they are on GPUs, of which this machine has fewer than learners.
        """
        self._policies = {own.name: own for own in policies}
        super().serve(self._policies.values())
        for own in self._policies.values():
            own.moments = self

    def end(self) -> None:
        """Learn no more: the policies' optimisers begin anew."""
        super().end()
        for own in self._policies.values():
            own.moments = None

    def learn(
        self, own: Policy, batch: Batch, credit: Credit, *, step: int, progress: float
    ) -> dict[str, float]:
        """Update a policy's weights once; see ``Policy.learn``.

        Raises:
            RunError: a learner has ended; or the disk is full.
            SparringError: as learning alone would.
        """
        if not len(batch.pack.turn_of):
            return own.learn(batch, credit, step=step, progress=progress)
        lesson = lesson_of(batch, credit, step, progress).to_bytes()
        found = self._learnt(own, lesson)
        figures = [_figures(*one) for one in found]
        whole = figures[0][0]  # what is of no leaf is the same for all
        places = zip(*(parts for _, *parts in figures), strict=True)
        whole.parts = [part for place in places for part in place]  # in the order of the leaves
        return {**whole.result(), "learning_rate": own.trained.learning_rate(progress)}

    def imitate(self, policy: Policy, episodes: Sequence[Episode]) -> float:
        """Take one supervised step; see ``Policy.imitate``.

        Raises:
            RunError: a learner has ended; or the disk is full.
        """
        lesson = LearnMessage(policy.name, 0, 0.0, {}, list(episodes)).to_bytes("imitate")
        found = self._learnt(policy, lesson)
        loss: float = sum(head["loss"] for head, _ in found)
        return loss

    def refer(self, policy: str) -> None:
        """Take what a policy has learnt so far as its reference.

        Who holds other weights than ours is sent ours, with the reference, before it learns.

        Raises:
            RunError: a learner has ended.
        """
        if self._held.get(policy) == self._policies[policy].model.version:
            with self._ended_by_errors():
                self._ask({"refer": [policy]})

    def save(self, policy: str, path: Path) -> None:
        """Write the state of a policy's optimiser; see ``Moments``.

        Raises:
            RunError: a learner has ended.
            DivergedError: something of it is not finite.
            OSError: the disk is full or not writable.
        """
        own = self._policies[policy]
        if self._held.get(policy) == own.model.version:
            with self._ended_by_errors():
                self._ask({"moments": [policy, str(path)]})
            return
        self._write_state(own, path)

    def keep(self, policy: str, path: Path) -> None:
        """Take the state of a policy's optimiser from a file that may go; see ``Moments``.

        Raises:
            RunError: the disk is full or not writable.
            CheckpointError: it is the state of other parameters.
        """
        own = self._policies[policy]
        check_optimizer(own.trained.optimizer, path)
        with disk_errors(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            kept = self._folder / f"kept-{policy}.safetensors"
            kept.unlink(missing_ok=True)
        link_or_copy(path, kept)
        self._states[policy] = own.model.version, kept
        self._gone.pop(policy, None)

    def close(self) -> None:
        """End the learners; what they alone hold is gone."""
        self._gone |= self._held
        super().close()

    def _write_state(self, own: Policy, path: Path) -> None:
        version, kept = self._states.get(own.name, (None, path))
        found = version == own.model.version
        if self._gone.get(own.name) == own.model.version or (found and not kept.exists()):
            raise RunError(
                f"The optimiser's state of the policy {own.name!r} went with learners that have "
                "ended. The run goes on from its last checkpoint with --resume."
            )
        if found:
            link_or_copy(kept, path)
        else:
            save_optimizer(own.trained.optimizer, path)  # it has seen nothing

    def _learnt(self, own: Policy, lesson: bytes) -> list[tuple[dict[str, Any], bytes]]:
        with self._ended_by_errors():
            self._start()
            self._bring(own)
            found = self._all(lesson)
            paths = [self._folder / WEIGHTS, self._folder / AVERAGE]
            self._ask({"weights": [own.name, *map(str, paths)]})
            average = own.trained.average
            _read(own.model, paths[0])
            if average is not None:
                _read(average.model, paths[1])
        self._held[own.name] = own.model.version
        return found

    def _bring(self, own: Policy) -> None:
        if self._held.get(own.name) == own.model.version:
            return
        with disk_errors(self._folder):
            folder = Path(tempfile.mkdtemp(prefix=STATE, dir=self._folder))
            self._write_state(own, folder / own.file("optimizer"))
            save_weights(own.model, folder / own.file("model"))
            for one in own.kept:
                one.save(folder / own.file(one.purpose))
        self._ask({"take": [own.name, str(folder), own.model.version]})
        shutil.rmtree(folder, ignore_errors=True)
        self._states.pop(own.name, (0, folder))[1].unlink(missing_ok=True)

    def _ask(self, what: dict[str, Any]) -> None:
        self._all(json.dumps(what).encode() + b"\n")

    def _all(self, message: bytes) -> list[tuple[dict[str, Any], bytes]]:
        self._tell(message)
        return [self._answer(child, PATIENCE) for child in self._children]

    def _meet(self) -> None:
        """Nothing: learners find each other without the training process."""

    @contextlib.contextmanager
    def _ended_by_errors(self) -> Iterator[None]:
        try:
            yield
        except LostError as error:
            raise self._lost(error) from error
        except BaseException:
            self.close()
            raise


def _figures(head: dict[str, Any], rest: bytes) -> list[Means]:
    ends = itertools.accumulate(head["parts"], initial=0)
    return [Means.from_bytes(rest[begin:end]) for begin, end in itertools.pairwise(ends)]


@torch.no_grad()
def _read(model: LanguageModel, path: Path) -> None:
    with safe_open(path, framework="pt") as file:
        for name, tensor in model.tensors().items():
            tensor.copy_(file.get_tensor(name))
    model.version += 1
