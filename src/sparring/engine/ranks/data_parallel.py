"""Several learners of one run: each computes leaves of every minibatch, and all hold equal weights.

Rank 0 is the training process, and alone keeps checkpoints. The others are processes of this
machine, each with the run's number of threads; of GPUs each has its own (``gpu_placement.py``).
They are told the plays and advantages of a step, and add their gradients to those of all
(``learn/gradient_step.py``, ``engine/ranks/messages.py``). With ``threads: 1`` the bits of a run
depend on ``learner.leaves``, and not on ``learner.ranks``.

If one of them ends the run ends with an error; it goes on from its last checkpoint, with as many
learners as one likes.
"""

from __future__ import annotations

import itertools
import json
import logging
import queue
import shutil
import tempfile
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sparring.config import RunConfig
from sparring.core.child_process import Mailbox
from sparring.core.errors import RunError, SparringError
from sparring.core.files import disk_errors
from sparring.core.process import visible_gpus
from sparring.core.records import Credit
from sparring.engine.local import Policy
from sparring.engine.protocol import Batch
from sparring.engine.ranks.messages import (
    LOOK,
    PATIENCE,
    LearnMessage,
    LostError,
    Sums,
    in_a_thread,
)
from sparring.engine.workers.fleet.processes import ONE_THREAD, Child
from sparring.engine.workers.gpu_placement import for_learner, gpus_of_learners
from sparring.engine.workers.units import error_of
from sparring.learn.gradient_step import Means
from sparring.learn.weight_files import fingerprint

log = logging.getLogger(__name__)
GRACE = 10.0  # seconds in which the other learners say why they have ended
STATE = "state-"  # its folders of what a policy's learner holds begin so


class Ranks:
    """The learners of a run, as rank 0 sees them. They are started when they first learn.

    Args:
        config: of the run.
        folder: where they find each other and what they hold is written; it is removed at the end.
    """

    rank = 0
    module = "sparring.engine.ranks.rank_process"  # of the processes

    def __init__(self, config: RunConfig, folder: Path) -> None:
        self.ranks, self._config, self._folder = config.learner.ranks, config, folder
        self._children: list[Child] = []
        self._heard: Mailbox[tuple[Child, bytes | None]] = Mailbox()
        self._stopped: set[int] = set()  # numbers of learners that are stopped, as a warning said
        self._waiting: dict[int, list[bytes | None]] = {}  # messages by learner; None: it has ended
        self._learns: Policy | None = None  # now
        self._held: dict[str, int] = {}  # version of each policy's weights that all hold
        self._sums: Sums | None = None
        self._others = range(1, self.ranks)  # the numbers of the processes
        self._environment: dict[str, str] = {}  # variables that they are given
        self._gpus: tuple[int, ...] = ()  # one for each learner; none: they are on the CPU
        shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed

    def serve(self, policies: Iterable[Policy]) -> None:
        """Be ready to learn with these policies.

        Raises:
            ConfigError: they are on GPUs, of which this machine has fewer than learners.
        """
        self._gpus = gpus_of_learners(self._config, [own.model.device for own in policies])

    def end(self) -> None:
        """Learn no more."""
        self.close()

    def learn(
        self, own: Policy, batch: Batch, credit: Credit, *, step: int, progress: float
    ) -> dict[str, float]:
        """Update a policy's weights once, together with the others; see ``Policy.learn``.

        Raises:
            RunError: one of them has ended, or holds other weights now; or the disk is full.
            SparringError: as learning alone would.
        """
        if not len(batch.pack.turn_of):
            return own.learn(batch, credit, step=step, progress=progress)
        try:
            self._start()
            self._bring(own)
            self._tell(lesson_of(batch, credit, step, progress).to_bytes())
            self._learns = own
            own.trained.share(self)
            found = own.learn(batch, credit, step=step, progress=progress)
        except LostError as error:
            raise self._lost(error) from error
        except BaseException:  # an interrupt leaves the others in the middle of an update
            self.close()
            raise
        finally:
            own.trained.share(None)
        self._held[own.name] = own.model.version
        for folder in self._folder.glob(f"{STATE}*"):  # read by now
            shutil.rmtree(folder, ignore_errors=True)
        return found

    def added(self, own: Tensor) -> Tensor:
        """Return the sum over all leaves; see ``RankGroup``.

        Raises:
            LostError: a learner has ended, or cannot be reached.
        """
        assert self._sums is not None, "started before"
        return in_a_thread(partial(self._sums.added, own), self._look)

    def counted(self, own: Means) -> None:
        """Put the parts of all learners in the order of the leaves; see ``RankGroup``.

        Raises:
            RunError: a learner has ended, or its weights are not the same as ours now.
        """
        assert self._learns is not None, "learn was called"
        parts, weights = {self.rank: own.parts}, fingerprint(self._learns.model)
        for child in self._children:
            head, rest = self._answer(child, PATIENCE)
            ends = list(itertools.accumulate(head["parts"], initial=0))
            found = [rest[begin:end] for begin, end in itertools.pairwise(ends)]
            parts[child.number] = [Means.from_bytes(part) for part in found]
            if head["weights"] != weights:
                raise RunError(
                    f"Learner {child.number} has other weights than the training process after the "
                    "same update. The run goes on from its last checkpoint with --resume; "
                    "threads: 1 gives equal bits."
                )
        each = self._learns.config.learner.leaves // self.ranks
        updates = len(own.parts) // each
        own.parts = [
            part
            for update in range(updates)
            for rank in range(self.ranks)
            for part in parts[rank][update * each : (update + 1) * each]
        ]

    def _start(self) -> None:
        if self._children:
            return
        with disk_errors(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
        config = self._config.model_dump(mode="json")
        settings = {
            "config": for_learner(config) if self._gpus else config,
            "ranks": self.ranks,
            "store": str(self._folder / "store"),
            "threads": torch.get_num_threads(),
        }
        threads = dict.fromkeys(ONE_THREAD, str(torch.get_num_threads()))
        environment = {**threads, **self._environment}
        for rank in self._others:
            first = json.dumps({**settings, "rank": rank}).encode()
            own = visible_gpus([self._gpus[rank]], "learner.gpus") if self._gpus else {}
            child = Child(
                *(rank, first, self._heard), module=self.module, environment={**environment, **own}
            )
            self._children.append(child)
        for child in self._children:
            self._answer(child, PATIENCE)
        self._meet()

    def _meet(self) -> None:
        """Find the other learners; they are there."""
        store = self._folder / "store"
        self._sums = in_a_thread(partial(Sums, self.rank, self.ranks, store), self._look)

    def _look(self) -> None:
        for child in self._children:
            if child.has_ended():
                raise LostError(f"learner {child.number} has ended")
        self._warn_of_stopped()

    def _warn_of_stopped(self) -> None:
        """Say once which learner is waited for because a signal has stopped it."""
        stopped = {
            child.number: child.process.pid for child in self._children if child.is_stopped()
        }
        for number in sorted(stopped.keys() - self._stopped):
            log.warning(
                "Learner %d is stopped, and the run waits for it, at most %.0f minutes. "
                "`kill -CONT %d` lets it go on; interrupting the run a second time ends the run.",
                number,
                PATIENCE / 60,
                stopped[number],
            )
        self._stopped = set(stopped)

    def _bring(self, own: Policy) -> None:
        if self._held.get(own.name) == own.model.version:
            return
        with disk_errors(self._folder):
            folder = Path(tempfile.mkdtemp(prefix=STATE, dir=self._folder))
            own.save_learner(folder)
        self._tell(json.dumps({"take": [own.name, str(folder), own.model.version]}).encode())

    def forget(self) -> None:
        """Send the others everything anew before they next learn."""
        self._held.clear()

    def close(self) -> None:
        """End the other learners; they are started again when they are next needed."""
        for child in self._children:
            child.kill()
        for child in self._children:
            child.wait_until_gone()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._children, self._sums = [], None
        self._waiting.clear()
        self._heard = Mailbox()
        self.forget()

    def _tell(self, message: bytes) -> None:
        for child in self._children:
            child.send(message, {})

    def _answer(
        self, child: Child, seconds: float, *, alone: bool = False
    ) -> tuple[dict[str, Any], bytes]:
        """Return a learner's next line of JSON and the rest; ``alone``: others may have ended."""
        until = time.monotonic() + seconds
        while not self._waiting.get(child.number):
            rest = max(until - time.monotonic(), 0.001)
            try:
                who, message = self._heard.get(timeout=min(rest, LOOK))
            except queue.Empty:
                self._warn_of_stopped()
                if rest > LOOK:
                    continue
                raise LostError(
                    f"learner {child.number} has not answered in {seconds:.0f} s"
                ) from None
            self._waiting.setdefault(who.number, []).append(message)
            if message is None and who is not child and not alone:
                raise LostError(f"learner {who.number} has ended")
        said = self._waiting[child.number].pop(0)
        if said is None:
            raise RunError(
                f"Learner {child.number} has ended, such as by a signal or for want of memory. The "
                "run goes on from its last checkpoint with --resume, or with fewer: learner.ranks."
            )
        head, _, content = said.partition(b"\n")
        found: dict[str, Any] = json.loads(head)
        if "lost" in found:
            self._waiting[child.number].insert(0, said)  # it says so whenever it is asked
            raise LostError(found["lost"])
        if "error" in found:
            raise error_of(found["error"])
        return found, content

    def _lost(self, lost: LostError) -> SparringError:
        reason = self._reason(lost)
        self.close()
        return reason

    def _reason(self, lost: LostError) -> SparringError:
        """Return why another learner cannot be reached, as one that has ended says."""
        until = time.monotonic() + GRACE
        for child in self._children:
            try:
                self._answer(child, until - time.monotonic(), alone=True)
            except LostError:
                continue  # it has lost another one too
            except SparringError as found:
                return found
        return lost


def lesson_of(batch: Batch, credit: Credit, step: int, progress: float) -> LearnMessage:
    """Return what the others learn from."""
    arrays = {"advantages": batch.advantages(credit)}
    if credit.value_targets is not None:
        arrays["value_targets"] = credit.value_targets
    trained = batch.trained(credit)
    if trained is not None:
        arrays["trained"] = trained.astype(np.float64)
    return LearnMessage(batch.policy, step, progress, arrays, list(batch.episodes))
