"""What learners of one run send each other while they learn: sums of gradients, by torch.

The learners find each other through a file, and listen on the loopback interface alone.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"
INTERFACE = "GLOO_SOCKET_IFNAME"
PATIENCE = 1800.0  # seconds that a learner waits for another one


class Sums:
    """One of several learners, who adds what all have.

    Args:
        rank: which of them this is.
        ranks: how many there are, a power of 2.
        store: the file through which they find each other; new for each such group.
    """

    def __init__(self, rank: int, ranks: int, store: Path) -> None:
        self.rank, self.ranks = rank, ranks
        with _loopback():
            dist.init_process_group(
                "gloo",
                store=torch._C._distributed_c10d.FileStore(str(store), ranks),
                rank=rank,
                world_size=ranks,
                timeout=timedelta(seconds=PATIENCE),
            )

    def added(self, own: Tensor) -> Tensor:
        """Return the sum of what all learners have, added along a binary tree.

        At each level a learner and its partner send each other the sums of their subtrees; as
        a + b = b + a to the bit, both have the same. So have all after the last level.

        Args:
            own: the sum over this one's leaves, 1-D.

        Raises:
            RuntimeError: a learner is gone, or has not answered in ``PATIENCE`` seconds.
        """
        total, distance = own.cpu(), 1
        while distance < self.ranks:
            theirs, partner = torch.empty_like(total), self.rank ^ distance
            sent = dist.isend(total, partner)
            dist.recv(theirs, partner)
            assert sent is not None, "it is of the group"
            sent.wait()
            total, distance = total + theirs, 2 * distance
        return total.to(own.device)

    def close(self) -> None:
        """Leave the others."""
        with contextlib.suppress(RuntimeError, AssertionError):
            dist.destroy_process_group()


@contextlib.contextmanager
def _loopback() -> Iterator[None]:
    """Let what is begun inside listen on the loopback interface alone, as a context."""
    before = os.environ.get(INTERFACE)
    os.environ[INTERFACE] = LOOPBACK
    try:
        yield
    finally:
        if before is None:
            del os.environ[INTERFACE]
        else:
            os.environ[INTERFACE] = before
