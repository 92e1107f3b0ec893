"""Messages between the learners of a run: batches to learn from, and sums of gradients.

A ``LearnMessage`` begins with a line of JSON. The arrays that it names follow in float64,
then the episodes in the store's columns. Sums travel by torch's gloo: the learners find each other
through a file, and listen only on the loopback interface. Torch's default process group is not
used, so the caller of Sparring may use it.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
import torch.distributed
from torch import Tensor

from sparring.core.errors import RunError
from sparring.core.records import Episode, FloatArray
from sparring.play.store import from_stream, to_stream

ARRAYS = ("advantages", "value_targets", "trained")


class LearnMessage(NamedTuple):
    """The batch that a policy learns from in a step, as it is sent to the other learners."""

    policy: str
    step: int
    progress: float
    arrays: Mapping[str, FloatArray]  # keys: names of ``ARRAYS``
    episodes: list[Episode]

    def to_bytes(self, request: str = "learn") -> bytes:
        """Return the message as bytes.

        Args:
            request: "learn" or "imitate".
        """
        lengths = {name: len(self.arrays[name]) for name in ARRAYS if name in self.arrays}
        header = {request: [self.policy, self.step, self.progress, lengths]}
        arrays = (np.asarray(self.arrays[name], np.float64).tobytes() for name in lengths)
        episodes = [(self.step, episode) for episode in self.episodes if episode.turns]
        return b"".join([json.dumps(header).encode(), b"\n", *arrays, to_stream(episodes)])

    @classmethod
    def from_bytes(cls, fields: Any, payload: bytes) -> LearnMessage:
        """Return the message of ``to_bytes``, without the episodes that have no turns."""
        policy, step, progress, lengths = fields
        arrays: dict[str, FloatArray] = {}
        offset = 0
        for name, length in lengths.items():
            arrays[name] = np.frombuffer(payload, np.float64, length, offset)
            offset += 8 * length
        episodes = [episode for _, episode in from_stream(payload[offset:])]
        return cls(policy, step, progress, arrays, episodes)


dist: Any = torch.distributed  # the module has no types
LOOPBACK = "127.0.0.1"
TIMEOUT_SECONDS = 1800.0  # longest time for which a learner waits for another one
CHECK_SECONDS = 1.0  # time between two checks that the other learners run
Result = TypeVar("Result")


class LostError(RunError):
    """A learner cannot reach another one.

    Args:
        reason: the reason, or torch's error, whose file names and advice are dropped.
    """

    def __init__(self, reason: object) -> None:
        self.reason = re.sub(r"^\[[^]]*\] ", "", str(reason)).partition("\n")[0].partition(". ")[0]
        super().__init__(
            f"A learner cannot reach another one: {self.reason}. Resume from the last checkpoint "
            "with --resume."
        )


class GradientSums:
    """Adds tensors over the learners of a run.

    Args:
        rank: rank of this learner, from 0.
        num_ranks: number of learners, a power of 2.
        store: the file through which the learners find each other; each group has a new file.

    Raises:
        LostError: the learners have not found each other.
    """

    def __init__(self, rank: int, num_ranks: int, store: Path) -> None:
        self.rank, self.num_ranks = rank, num_ranks
        gloo = dist.ProcessGroupGloo
        options = gloo._Options()
        options._devices = [gloo.create_device(hostname=LOOPBACK)]
        options._timeout = timedelta(seconds=TIMEOUT_SECONDS)
        try:
            file_store = dist.FileStore(str(store), num_ranks)
            self._group = gloo(dist.PrefixStore("sums", file_store), rank, num_ranks, options)
        except RuntimeError as error:
            raise LostError(error) from error

    def sum_over_ranks(self, leaf_sum: Tensor) -> Tensor:
        """Return the sum of a tensor over all learners, added along a binary tree.

        At each level two partners exchange the sums of their subtrees. Both get exactly the same
        sum, because a + b = b + a. After the last level all learners have the same sum.

        Args:
            leaf_sum: the sum over this learner's leaves, 1-D.

        Raises:
            LostError: a learner has ended, or has not answered within ``TIMEOUT_SECONDS`` seconds.
        """
        total, distance = leaf_sum.cpu(), 1
        while distance < self.num_ranks:
            partner_sum, partner = torch.empty_like(total), self.rank ^ distance
            try:
                send_request = self._group.send([total], partner, 0)
                self._group.recv([partner_sum], partner, 0).wait()
                send_request.wait()
            except RuntimeError as error:
                raise LostError(error) from error
            total, distance = total + partner_sum, 2 * distance
        return total.to(leaf_sum.device)


def run_in_thread(work: Callable[[], Result], check: Callable[[], None]) -> Result:
    """Return the result of a call in which torch waits for other learners.

    A thread is needed because torch, while it waits, allows no interrupt and does not notice that a
    process ended before it connected.

    Args:
        work: the function to call.
        check: function that is called once a second; if it raises, the call is abandoned.
    """
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="sums", daemon=True).start()
    while not wait([future], CHECK_SECONDS).done:
        check()
    return future.result()
