"""Several learners of a run with equal weights: each computes leaves (parts) of every minibatch.

Rank 0 is the training process, and only it writes checkpoints. The others are processes of this
machine, each with the run's number of threads, and with one GPU on GPUs (``gpu_placement.py``).
Rank 0 sends them the episodes and advantages of a step, and all sum their gradients
(``learn/gradient_step.py``, ``engine/ranks/messages.py``). With ``threads: 1`` the bits of a run
depend on ``learner.leaves``, and not on ``learner.ranks``.

If a learner ends, the run ends with an error; the run resumes from its last checkpoint, with any
number of learners.
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
    CHECK_SECONDS,
    PATIENCE,
    LearnMessage,
    LostError,
    Sums,
    run_in_thread,
)
from sparring.engine.workers.fleet.processes import ONE_THREAD, PythonProcess
from sparring.engine.workers.gpu_placement import gpus_of_learners, learner_settings
from sparring.engine.workers.units import error_of
from sparring.learn.gradient_step import Means
from sparring.learn.weight_files import fingerprint

log = logging.getLogger(__name__)
GRACE = 10.0  # seconds to wait for messages that say why a learner ended
STATE = "state-"  # prefix of folders with a policy's weights and optimiser


class Ranks:
    """The learners of a run, as rank 0 sees them; they start with the first update.

    Args:
        config: the run's configuration.
        folder: folder through which learners exchange files; removed at the end.
    """

    rank = 0
    module = "sparring.engine.ranks.rank_process"  # that the other learners run

    def __init__(self, config: RunConfig, folder: Path) -> None:
        self.ranks, self._config, self._folder = config.learner.ranks, config, folder
        self._children: list[PythonProcess] = []
        self._mailbox: Mailbox[tuple[PythonProcess, bytes | None]] = Mailbox()
        self._stopped: set[int] = set()  # numbers of stopped learners that a warning has named
        self._received: dict[int, list[bytes | None]] = {}  # messages by learner; None: ended
        self._learning: Policy | None = None  # the policy that is being updated
        self._versions_held: dict[str, int] = {}  # by policy: version of weights at all learners
        self._sums: Sums | None = None
        self._others = range(1, self.ranks)  # ranks of the processes
        self._environment: dict[str, str] = {}  # variables of the processes
        self._gpus: tuple[int, ...] = ()  # one for each learner; empty: on the CPU
        shutil.rmtree(folder, ignore_errors=True)  # files of a killed run

    def serve(self, policies: Iterable[Policy]) -> None:
        """Prepare to learn with these policies.

        Raises:
            ConfigError: the policies are on GPUs, and this machine has fewer GPUs than learners.
        """
        self._gpus = gpus_of_learners(self._config, [policy.model.device for policy in policies])

    def end(self) -> None:
        """End the learners."""
        self.close()

    def learn(
        self, policy: Policy, batch: Batch, credit: Credit, *, step: int, progress: float
    ) -> dict[str, float]:
        """Update a policy's weights once, together with the other learners; see ``Policy.learn``.

        Raises:
            RunError: a learner has ended, or has other weights afterwards; or the disk is full.
            SparringError: learning failed.
        """
        if not len(batch.pack.turn_of):
            return policy.learn(batch, credit, step=step, progress=progress)
        try:
            self._start()
            self._send_policy(policy)
            self._broadcast(learn_message_of(batch, credit, step, progress).to_bytes())
            self._learning = policy
            policy.trained.share(self)
            metrics = policy.learn(batch, credit, step=step, progress=progress)
        except LostError as error:
            raise self._close_after(error) from error
        except BaseException:  # an interrupt leaves the others in the middle of an update
            self.close()
            raise
        finally:
            policy.trained.share(None)
        self._versions_held[policy.name] = policy.model.version
        for folder in self._folder.glob(f"{STATE}*"):  # read by now
            shutil.rmtree(folder, ignore_errors=True)
        return metrics

    def sum_over_ranks(self, total: Tensor) -> Tensor:
        """Return the sum over all leaves; see ``RankGroup``.

        Raises:
            LostError: a learner has ended, or cannot be reached.
        """
        assert self._sums is not None, "_connect was called"
        return run_in_thread(partial(self._sums.sum_over_ranks, total), self._check_children)

    def collect_means(self, means: Means) -> None:
        """Collect the parts of all learners, in the order of the leaves; see ``RankGroup``.

        Raises:
            RunError: a learner has ended, or has other weights now.
        """
        assert self._learning is not None, "learn was called"
        parts, weights = {self.rank: means.parts}, fingerprint(self._learning.model)
        for child in self._children:
            head, payload = self._answer(child, PATIENCE)
            ends = list(itertools.accumulate(head["parts"], initial=0))
            chunks = [payload[begin:end] for begin, end in itertools.pairwise(ends)]
            parts[child.number] = [Means.from_bytes(part) for part in chunks]
            if head["weights"] != weights:
                raise RunError(
                    f"Learner {child.number} has other weights than the training process after the "
                    "same update. The run goes on from its last checkpoint with --resume; "
                    "threads: 1 gives equal bits."
                )
        per_rank = self._learning.config.learner.leaves // self.ranks
        updates = len(means.parts) // per_rank
        means.parts = [
            part
            for update in range(updates)
            for rank in range(self.ranks)
            for part in parts[rank][update * per_rank : (update + 1) * per_rank]
        ]

    def _start(self) -> None:
        if self._children:
            return
        with disk_errors(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
        config = self._config.model_dump(mode="json")
        settings = {
            "config": learner_settings(config) if self._gpus else config,
            "ranks": self.ranks,
            "store": str(self._folder / "store"),
            "threads": torch.get_num_threads(),
        }
        threads = dict.fromkeys(ONE_THREAD, str(torch.get_num_threads()))
        environment = {**threads, **self._environment}
        for rank in self._others:
            first = json.dumps({**settings, "rank": rank}).encode()
            variables = visible_gpus([self._gpus[rank]], "learner.gpus") if self._gpus else {}
            child = PythonProcess(
                *(rank, first, self._mailbox),
                module=self.module,
                environment={**environment, **variables},
            )
            self._children.append(child)
        for child in self._children:
            self._answer(child, PATIENCE)
        self._connect()

    def _connect(self) -> None:
        connect = partial(Sums, self.rank, self.ranks, self._folder / "store")
        self._sums = run_in_thread(connect, self._check_children)

    def _check_children(self) -> None:
        for child in self._children:
            if child.has_ended():
                raise LostError(f"learner {child.number} has ended")
        self._warn_of_stopped()

    def _warn_of_stopped(self) -> None:
        """Warn once of each learner that a signal has stopped."""
        stopped = {
            child.number: child.process.pid for child in self._children if child.is_stopped()
        }
        for number in sorted(stopped.keys() - self._stopped):
            log.warning(
                "Learner %d is stopped, and the run waits for it for at most %.0f minutes. "
                "`kill -CONT %d` continues it; a second interrupt ends the run.",
                number,
                PATIENCE / 60,
                stopped[number],
            )
        self._stopped = set(stopped)

    def _send_policy(self, policy: Policy) -> None:
        if self._versions_held.get(policy.name) == policy.model.version:
            return
        with disk_errors(self._folder):
            folder = Path(tempfile.mkdtemp(prefix=STATE, dir=self._folder))
            policy.save_learner(folder)
        self._broadcast(
            json.dumps({"take": [policy.name, str(folder), policy.model.version]}).encode()
        )

    def forget(self) -> None:
        """Make the next update send all weights and optimisers again."""
        self._versions_held.clear()

    def close(self) -> None:
        """End the other learners; the next update starts them again."""
        for child in self._children:
            child.kill()
        for child in self._children:
            child.wait_until_gone()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._children, self._sums = [], None
        self._received.clear()
        self._mailbox = Mailbox()
        self.forget()

    def _broadcast(self, message: bytes) -> None:
        for child in self._children:
            child.send(message, {})

    def _answer(
        self, child: PythonProcess, seconds: float, *, ignore_others: bool = False
    ) -> tuple[dict[str, Any], bytes]:
        """Return a learner's next line of JSON and the rest, unless another learner has ended."""
        until = time.monotonic() + seconds
        while not self._received.get(child.number):
            remaining = max(until - time.monotonic(), 0.001)
            try:
                sender, message = self._mailbox.get(timeout=min(remaining, CHECK_SECONDS))
            except queue.Empty:
                self._warn_of_stopped()
                if remaining > CHECK_SECONDS:
                    continue
                raise LostError(
                    f"learner {child.number} has not answered in {seconds:.0f} s"
                ) from None
            self._received.setdefault(sender.number, []).append(message)
            if message is None and sender is not child and not ignore_others:
                raise LostError(f"learner {sender.number} has ended")
        reply = self._received[child.number].pop(0)
        if reply is None:
            raise RunError(
                f"Learner {child.number} has ended, perhaps by a signal or for lack of memory. The "
                "run goes on from its last checkpoint with --resume, or with fewer: learner.ranks."
            )
        head, _, content = reply.partition(b"\n")
        result: dict[str, Any] = json.loads(head)
        if "lost" in result:
            self._received[child.number].insert(0, reply)  # so that later calls see it too
            raise LostError(result["lost"])
        if "error" in result:
            raise error_of(result["error"])
        return result, content

    def _close_after(self, error: LostError) -> SparringError:
        cause = self._find_cause(error)
        self.close()
        return cause

    def _find_cause(self, lost_error: LostError) -> SparringError:
        """Return the error that a learner reported when it ended; otherwise ``lost_error``."""
        until = time.monotonic() + GRACE
        for child in self._children:
            try:
                self._answer(child, until - time.monotonic(), ignore_others=True)
            except LostError:
                continue  # this learner has lost another one too
            except SparringError as error:
                return error
        return lost_error


def learn_message_of(batch: Batch, credit: Credit, step: int, progress: float) -> LearnMessage:
    """Return the message from which the other learners learn."""
    arrays = {"advantages": batch.advantages(credit)}
    if credit.value_targets is not None:
        arrays["value_targets"] = credit.value_targets
    trained = batch.trained(credit)
    if trained is not None:
        arrays["trained"] = trained.astype(np.float64)
    return LearnMessage(batch.policy, step, progress, arrays, list(batch.episodes))
