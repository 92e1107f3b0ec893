"""Data parallelism: several learners with equal weights share the work of every minibatch.

Each learner computes its part (its *leaves*) of a minibatch. Rank 0 is the training process, and
only it writes checkpoints. The others are processes of this machine. Each has the run's number of
threads, and one GPU if the run uses GPUs (``gpu_placement.py``). Rank 0 sends them the
episodes and advantages of a step, and all ranks sum their gradients (``learn/gradient_step.py``,
``engine/ranks/messages.py``). With ``threads: 1`` the exact numbers of a run depend on
``learner.leaves``, but not on ``learner.ranks``.

If a learner ends, the run ends with an error. The run can be resumed from its last checkpoint,
with any number of learners.
"""

from __future__ import annotations

import itertools
import json
import logging
import queue
import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping
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
from sparring.core.process import gpu_variables
from sparring.core.records import Credit
from sparring.engine.local import Policy
from sparring.engine.protocol import Batch
from sparring.engine.ranks.messages import (
    CHECK_SECONDS,
    TIMEOUT_SECONDS,
    GradientSums,
    LearnMessage,
    LostError,
    run_in_thread,
)
from sparring.engine.workers.fleet.processes import ONE_THREAD, PythonProcess
from sparring.engine.workers.gpu_placement import gpus_of_learners, learner_settings
from sparring.engine.workers.units import error_of
from sparring.learn.gradient_step import Means
from sparring.learn.weight_files import fingerprint

log = logging.getLogger(__name__)
LAST_MESSAGE_SECONDS = 10.0  # seconds to wait for messages that say why a learner ended
STATE_PREFIX = "state-"  # prefix of folders with a policy's weights and optimiser


class RankZero:
    """The learners of a run as rank 0 sees them; the others start with the first update.

    Args:
        config: the run's configuration.
        folder: folder through which learners exchange files; removed at the end.
    """

    rank = 0
    module = "sparring.engine.ranks.rank_process"  # module that the other learners run

    def __init__(self, config: RunConfig, folder: Path) -> None:
        self.num_ranks, self._config, self._folder = config.learner.ranks, config, folder
        self._children: list[PythonProcess] = []
        self._mailbox: Mailbox[tuple[PythonProcess, bytes | None]] = Mailbox()
        self._reported_ranks: set[int] = set()  # paused learners for which a warning was logged
        self._messages: dict[int, list[bytes | None]] = {}  # messages by rank; None: it has ended
        self._current_policy: Policy | None = None  # the policy that is being updated
        self._sent_versions: dict[str, int] = {}  # version of each policy at the other learners
        self._sums: GradientSums | None = None
        self._other_ranks = range(1, self.num_ranks)  # ranks of the processes
        self._environment: dict[str, str] = {}  # variables of the processes
        self._gpus: tuple[int, ...] = ()  # the GPU of each learner; empty: learners are on the CPU
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
            RunError: a learner has ended or has different weights afterwards, or the disk is full.
            SparringError: learning failed.
        """
        if not len(batch.pack.turn_of):
            return policy.learn(batch, credit, step=step, progress=progress)
        try:
            self._start()
            self._send_policy(policy)
            self._broadcast(make_learn_message(batch, credit, step, progress).to_bytes())
            self._current_policy = policy
            policy.trained.split_over(self)
            metrics = policy.learn(batch, credit, step=step, progress=progress)
        except LostError as error:
            raise self._close_after(error) from error
        except BaseException:  # after an interrupt the others are in the middle of an update
            self.close()
            raise
        finally:
            policy.trained.split_over(None)
        self._sent_versions[policy.name] = policy.model.version
        for folder in self._folder.glob(f"{STATE_PREFIX}*"):  # all learners have read these files
            shutil.rmtree(folder, ignore_errors=True)
        return metrics

    def sum_over_ranks(self, total: Tensor) -> Tensor:
        """Return the sum over all leaves; see ``RankGroup``.

        Raises:
            LostError: a learner has ended, or cannot be reached.
        """
        assert self._sums is not None, "_connect was called"
        return run_in_thread(partial(self._sums.sum_over_ranks, total), self._require_all_children)

    def collect_means(self, means: Means) -> None:
        """Collect the parts of all learners, in the order of the leaves; see ``RankGroup``.

        Raises:
            RunError: a learner has ended, or has different weights after the update.
        """
        assert self._current_policy is not None, "learn was called"
        weights = fingerprint(self._current_policy.model)
        leaves_by_rank = {self.rank: means.parts}
        for child in self._children:
            header, payload = self._read_message(child, TIMEOUT_SECONDS)
            leaves_by_rank[child.number] = read_means(header, payload)
            if header["weights"] != weights:
                raise RunError(
                    f"Learner {child.number} has different weights from the training process after "
                    "the same update. Resume from the last checkpoint with --resume; write "
                    "threads: 1 so that all learners compute the same numbers."
                )
        num_leaves = self._current_policy.config.learner.leaves // self.num_ranks
        num_updates = len(means.parts) // num_leaves
        means.parts = [
            leaf
            for update in range(num_updates)
            for rank in range(self.num_ranks)
            for leaf in leaves_by_rank[rank][update * num_leaves : (update + 1) * num_leaves]
        ]

    def _start(self) -> None:
        if self._children:
            return
        with disk_errors(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
        config = self._config.model_dump(mode="json")
        settings = {
            "config": learner_settings(config) if self._gpus else config,
            "ranks": self.num_ranks,
            "store": str(self._folder / "store"),
            "threads": torch.get_num_threads(),
        }
        threads = dict.fromkeys(ONE_THREAD, str(torch.get_num_threads()))
        environment = {**threads, **self._environment}
        for rank in self._other_ranks:
            first_message = json.dumps({**settings, "rank": rank}).encode()
            variables = gpu_variables([self._gpus[rank]], "learner.gpus") if self._gpus else {}
            child = PythonProcess(
                *(rank, first_message, self._mailbox),
                module=self.module,
                environment={**environment, **variables},
            )
            self._children.append(child)
        for child in self._children:
            self._read_message(child, TIMEOUT_SECONDS)
        self._connect()

    def _connect(self) -> None:
        connect = partial(GradientSums, self.rank, self.num_ranks, self._folder / "store")
        self._sums = run_in_thread(connect, self._require_all_children)

    def _require_all_children(self) -> None:
        for child in self._children:
            if child.has_ended():
                raise LostError(f"learner {child.number} has ended")
        self._warn_about_paused()

    def _warn_about_paused(self) -> None:
        paused_pids = {
            child.number: child.process.pid for child in self._children if child.is_stopped()
        }
        for rank in sorted(paused_pids.keys() - self._reported_ranks):
            log.warning(
                "Learner %d is paused by a signal; the run waits at most %.0f minutes for it. "
                "`kill -CONT %d` continues it; a second interrupt ends the run.",
                rank,
                TIMEOUT_SECONDS / 60,
                paused_pids[rank],
            )
        self._reported_ranks = set(paused_pids)

    def _send_policy(self, policy: Policy) -> None:
        if self._sent_versions.get(policy.name) == policy.model.version:
            return
        with disk_errors(self._folder):
            folder = Path(tempfile.mkdtemp(prefix=STATE_PREFIX, dir=self._folder))
            policy.save_learner(folder)
        self._broadcast(
            json.dumps({"take": [policy.name, str(folder), policy.model.version]}).encode()
        )

    def clear_sent_versions(self) -> None:
        """Let the next update send all weights and optimisers again."""
        self._sent_versions.clear()

    def close(self) -> None:
        """End the other learners; the next update starts them again."""
        for child in self._children:
            child.kill()
        for child in self._children:
            child.wait_until_gone()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._children, self._sums = [], None
        self._messages.clear()
        self._mailbox = Mailbox()
        self.clear_sent_versions()

    def _broadcast(self, message: bytes) -> None:
        for child in self._children:
            child.send(message, {})

    def _read_message(
        self, child: PythonProcess, seconds: float, *, ignore_others: bool = False
    ) -> tuple[dict[str, Any], bytes]:
        """Return (header, payload) of a learner's next message; LostError if another has ended."""
        deadline = time.monotonic() + seconds
        while not self._messages.get(child.number):
            seconds_left = max(deadline - time.monotonic(), 0.001)
            try:
                sender, message = self._mailbox.get(timeout=min(seconds_left, CHECK_SECONDS))
            except queue.Empty:
                self._warn_about_paused()
                if seconds_left > CHECK_SECONDS:
                    continue
                raise LostError(
                    f"learner {child.number} has not answered in {seconds:.0f} s"
                ) from None
            self._messages.setdefault(sender.number, []).append(message)
            if message is None and sender is not child and not ignore_others:
                raise LostError(f"learner {sender.number} has ended")
        next_message = self._messages[child.number].pop(0)
        if next_message is None:
            raise RunError(
                f"Learner {child.number} has ended, perhaps by a signal or because memory ran out. "
                "Resume from the last checkpoint with --resume, perhaps with a smaller "
                "learner.ranks."
            )
        line, _, payload = next_message.partition(b"\n")
        header: dict[str, Any] = json.loads(line)
        if "lost" in header:
            self._messages[child.number].insert(0, next_message)  # put it back for later calls
            raise LostError(header["lost"])
        if "error" in header:
            raise error_of(header["error"])
        return header, payload

    def _close_after(self, error: LostError) -> SparringError:
        cause = self._find_cause(error)
        self.close()
        return cause

    def _find_cause(self, lost_error: LostError) -> SparringError:
        """Return the error that a learner reported when it ended; otherwise ``lost_error``."""
        deadline = time.monotonic() + LAST_MESSAGE_SECONDS
        for child in self._children:
            try:
                self._read_message(child, deadline - time.monotonic(), ignore_others=True)
            except LostError:
                continue  # this learner only reports that another one has ended
            except SparringError as error:
                return error
        return lost_error


def read_means(header: Mapping[str, Any], payload: bytes) -> list[Means]:
    """Return the means in a learner's message, whose header has their lengths in bytes."""
    ends = itertools.accumulate(header["parts"], initial=0)
    return [Means.from_bytes(payload[begin:end]) for begin, end in itertools.pairwise(ends)]


def make_learn_message(batch: Batch, credit: Credit, step: int, progress: float) -> LearnMessage:
    """Return the message with the episodes and advantages of this update, for other learners."""
    arrays = {"advantages": batch.advantages(credit)}
    if credit.value_targets is not None:
        arrays["value_targets"] = credit.value_targets
    is_trained = batch.trained(credit)
    if is_trained is not None:
        arrays["trained"] = is_trained.astype(np.float64)
    return LearnMessage(batch.policy, step, progress, arrays, list(batch.episodes))
