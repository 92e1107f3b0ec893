"""Workers as processes of this machine, over pipes: nothing listens anywhere.

A worker is a Python of its own with one thread. It ends when the training process does, however
that ends: the kernel kills it (Linux), and it looks for its parent once a second (elsewhere). Two
threads per worker move messages, so that a worker that is stopped blocks nobody.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from sparring.core.child_process import ChildProcess, Mailbox
from sparring.core.process import visible_gpus
from sparring.engine.workers.fleet.base import WorkerMessage

CODE = "import sys; sys.path[:] = {path!r}; from {module} import main; main({hear}, {say})"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
DEATH = 1  # PR_SET_PDEATHSIG of Linux: the signal that comes when the parent ends


class Child(ChildProcess):
    """A Python with one thread, which runs a module.

    Args:
        number: of it, for whoever listens.
        settings: the first message that it is sent.
        heard: takes (this, message) of all that comes, and (this, None) when it is gone.
        module: whose function ``main`` it runs, given the descriptors of its two pipes.
        environment: variables that it is given besides those of this process.
    """

    def __init__(
        self,
        number: int,
        settings: bytes,
        heard: Mailbox[Any],
        *,
        module: str = __name__,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        def command(hear: int, say: int) -> list[str]:
            code = CODE.format(path=sys.path, module=module, hear=hear, say=say)
            return [sys.executable, "-c", code]

        super().__init__(
            number,
            settings,
            heard,
            command=command,
            environment={**ONE_THREAD, **(environment or {})},
        )


class Processes:
    """Worker processes.

    Args:
        config: of the run, as values of JSON.
        workers: how many there are to be.
        carry: whether weights travel over the pipes. If not, workers read their files.
        gpus: of this machine, shared out among the workers in their order: each sees one of them
            alone. Empty: all see what this process sees.
    """

    apart, elastic = True, False

    def __init__(
        self,
        config: Mapping[str, Any],
        workers: int,
        *,
        carry: bool = False,
        gpus: Sequence[int] = (),
    ) -> None:
        self.workers, self._gpus = workers, gpus
        self._settings, self._carry = json.dumps(config).encode(), carry
        self._heard: Mailbox[tuple[Child, bytes | None]] = Mailbox()
        self._children: dict[int, Child] = {}
        self._held = threading.Lock()  # while ``_children`` changes

    def now(self) -> float:
        """Return the seconds on its clock; see ``Fleet``."""
        return time.monotonic()

    def start(self, worker: int) -> None:
        """Start a worker; see ``Fleet``."""
        self.end(worker)
        own = self._gpus and visible_gpus([self._gpus[worker % len(self._gpus)]], "scale.gpus")
        child = Child(worker, self._settings, self._heard, environment=own or None)
        with self._held:
            self._children[worker] = child

    def send(self, worker: int, message: bytes, files: Mapping[str, Path]) -> None:
        """Send a worker a message; see ``Fleet``."""
        with self._held:
            child = self._children.get(worker)
        if child is not None:
            child.send(message, files if self._carry else {})

    def tell(self, message: bytes) -> None:
        """Tell workers of newer weights; see ``Fleet``. Nothing where weights go over the pipes:
        what a worker is slow to take would pile up.
        """
        if self._carry:
            return
        with self._held:
            children = list(self._children.values())
        for child in children:
            child.send(message, {})

    def poll(self, seconds: float) -> list[WorkerMessage]:
        """Return what has come, waiting so long for the first; see ``Fleet``."""
        found: list[WorkerMessage] = []
        with contextlib.suppress(queue.Empty):
            while True:
                child, message = self._heard.get(timeout=0 if found else max(seconds, 0.001))
                found += self._heard_of(child, message)
        if not found:
            with self._held:
                children = list(self._children.values())
            found = [one for own in children if own.has_ended() for one in self._heard_of(own)]
        return found

    def _heard_of(self, child: Child, message: bytes | None = None) -> list[WorkerMessage]:
        """Return what a process said, or that it is gone; nothing of one that was ended before."""
        with self._held:
            if self._children.get(child.number) is not child:
                return []
            if message is None:
                self._children.pop(child.number)
        if message is None:
            child.kill()
            child.wait_until_gone()
        return [WorkerMessage(child.number, message)]

    def end(self, worker: int) -> None:
        """End a worker at once; see ``Fleet``."""
        with self._held:
            child = self._children.pop(worker, None)
        if child is not None:
            child.kill()
            child.wait_until_gone()

    def close(self) -> None:
        """End all workers; see ``Fleet``."""
        with self._held:
            children, self._children = list(self._children.values()), {}
        for child in children:
            child.kill()
        for child in children:
            child.wait_until_gone()

    @property
    def pids(self) -> dict[int, int]:
        """The process of each worker that is there."""
        with self._held:
            return {number: child.process.pid for number, child in self._children.items()}


def main(hear: int, say: int) -> None:
    """Be a worker process.

    Args:
        hear: file descriptor of the pipe that tasks come from.
        say: of the one that answers go to.
    """
    end_with_parent()
    from sparring.engine.workers.worker import Message, serve

    pipe = Connection(hear, writable=False)

    def heard() -> Message:
        digests, message = json.loads(pipe.recv_bytes()), pipe.recv_bytes()
        return message, {digest: pipe.recv_bytes() for digest in digests}

    serve(heard, Connection(say, readable=False).send_bytes, pipe.poll)


def end_with_parent() -> None:
    """End this process as soon as the one that started it has ended."""
    parent = os.getppid()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(DEATH, signal.SIGKILL)

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=look, name="parent", daemon=True).start()
