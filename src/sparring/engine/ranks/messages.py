"""What the learners of one run send each other: what is to be learnt from, and sums of gradients.

A ``LearnMessage`` begins with a line of JSON, ``learn``. After it come the arrays that are named
there, in float64, and the plays in the store's columns. Sums go by torch's gloo:
the learners find each other through a file, and listen on the loopback interface alone. Nothing of
this is torch's default group of processes, which whoever calls Sparring may use.
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
    """What a policy learns from in a step."""

    policy: str
    step: int
    progress: float
    arrays: Mapping[str, FloatArray]  # those of ``ARRAYS`` that there are
    episodes: list[Episode]

    def to_bytes(self, what: str = "learn") -> bytes:
        """Return it as it travels.

        Args:
            what: is to be done with it, "learn" or "imitate".
        """
        sizes = {name: len(self.arrays[name]) for name in ARRAYS if name in self.arrays}
        head = {what: [self.policy, self.step, self.progress, sizes]}
        arrays = (np.asarray(self.arrays[name], np.float64).tobytes() for name in sizes)
        spoken = [(self.step, episode) for episode in self.episodes if episode.turns]
        return b"".join([json.dumps(head).encode(), b"\n", *arrays, to_stream(spoken)])

    @classmethod
    def from_bytes(cls, fields: Any, rest: bytes) -> LearnMessage:
        """Return what ``to_bytes`` was given, but for plays in which nobody was asked."""
        policy, step, progress, sizes = fields
        arrays: dict[str, FloatArray] = {}
        begin = 0
        for name, size in sizes.items():
            arrays[name] = np.frombuffer(rest, np.float64, size, begin)
            begin += 8 * size
        episodes = [episode for _, episode in from_stream(rest[begin:])]
        return cls(policy, step, progress, arrays, episodes)


dist: Any = torch.distributed  # what is read of it has no types
LOOPBACK = "127.0.0.1"
PATIENCE = 1800.0  # seconds that a learner waits for another one
LOOK = 1.0  # seconds between two looks at whether the others are there
Result = TypeVar("Result")


class LostError(RunError):
    """A learner cannot reach another one.

    Args:
        why: as torch says it, whose file and advice are left out, or whoever has waited.
    """

    def __init__(self, why: object) -> None:
        self.why = re.sub(r"^\[[^]]*\] ", "", str(why)).partition("\n")[0].partition(". ")[0]
        super().__init__(
            f"A learner cannot reach another one: {self.why}. The run goes on from its last "
            "checkpoint with --resume."
        )


class Sums:
    """One of several learners, who adds what all have.

    Args:
        rank: which of them this is.
        ranks: how many there are, a power of 2.
        store: the file through which they find each other; new for each such group.

    Raises:
        LostError: they have not found each other.
    """

    def __init__(self, rank: int, ranks: int, store: Path) -> None:
        self.rank, self.ranks = rank, ranks
        gloo = dist.ProcessGroupGloo
        options = gloo._Options()
        options._devices = [gloo.create_device(hostname=LOOPBACK)]
        options._timeout = timedelta(seconds=PATIENCE)
        try:
            file_store = dist.FileStore(str(store), ranks)
            self._group = gloo(dist.PrefixStore("sums", file_store), rank, ranks, options)
        except RuntimeError as error:
            raise LostError(error) from error

    def added(self, leaf_sum: Tensor) -> Tensor:
        """Return the sum of what all learners have, added along a binary tree.

        At each level a learner and its partner send each other the sums of their subtrees; as
        a + b = b + a to the bit, both have the same. So have all after the last level.

        Args:
            own: the sum over this one's leaves, 1-D.

        Raises:
            LostError: a learner is gone, or has not answered in ``PATIENCE`` seconds.
        """
        total, distance = leaf_sum.cpu(), 1
        while distance < self.ranks:
            theirs, partner = torch.empty_like(total), self.rank ^ distance
            try:
                sent = self._group.send([total], partner, 0)
                self._group.recv([theirs], partner, 0).wait()
                sent.wait()
            except RuntimeError as error:
                raise LostError(error) from error
            total, distance = total + theirs, 2 * distance
        return total.to(leaf_sum.device)


def in_a_thread(work: Callable[[], Result], look: Callable[[], None]) -> Result:
    """Return what a call returns in which torch waits for other learners.

    It has a thread of its own, as torch lets no interrupt through while it waits, and does not see
    that a process has ended that it has not reached yet.

    Args:
        work: the call.
        look: called once a second; if it raises, the call is not waited for.
    """
    done: Future[Result] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="sums", daemon=True).start()
    while not wait([done], LOOK).done:
        look()
    return done.result()
