"""Workers as processes of this machine, connected by pipes; nothing listens on the network.

A worker is a Python process with one thread that ends with the training process: on Linux the
kernel kills it, and elsewhere it checks once a second that its parent runs. Two threads per worker
move messages, so that a paused worker does not block the training process.
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
from sparring.core.process import gpu_variables
from sparring.engine.workers.fleet.base import WorkerMessage

CODE = "import sys; sys.path[:] = {path!r}; from {module} import main; main({read_fd}, {write_fd})"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
PR_SET_PDEATHSIG = 1  # Linux's option for the signal that a process gets when its parent ends


class PythonProcess(ChildProcess):
    """A Python process with one thread, which runs a module.

    Args:
        number: number of the process among the workers.
        settings: the first message to the process.
        mailbox: receives (process, message), and (process, None) when the process has ended.
        module: the module whose ``main`` is called with the descriptors of the two pipes.
        environment: variables that are added to the variables of this process.
    """

    def __init__(
        self,
        number: int,
        settings: bytes,
        mailbox: Mailbox[Any],
        *,
        module: str = __name__,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        def command(read_fd: int, write_fd: int) -> list[str]:
            code = CODE.format(path=sys.path, module=module, read_fd=read_fd, write_fd=write_fd)
            return [sys.executable, "-c", code]

        super().__init__(
            number,
            settings,
            mailbox,
            command=command,
            environment={**ONE_THREAD, **(environment or {})},
        )


class ProcessFleet:
    """Worker processes.

    Args:
        config: the run's configuration, as values of JSON.
        workers: number of workers.
        carry: whether weights travel through the pipes. If false, workers read the files.
        gpus: GPUs of this machine, assigned in turn, one to each worker. Empty: workers see the
            GPUs that this process sees.
    """

    has_processes, elastic = True, False

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
        self._mailbox: Mailbox[tuple[PythonProcess, bytes | None]] = Mailbox()
        self._children: dict[int, PythonProcess] = {}
        self._mutex = threading.Lock()  # guards ``_children``

    def now(self) -> float:
        """Return the time in seconds; see ``Fleet``."""
        return time.monotonic()

    def start(self, worker: int) -> None:
        """Start a worker; see ``Fleet``."""
        self.end(worker)
        variables = self._gpus and gpu_variables(
            [self._gpus[worker % len(self._gpus)]], "scale.gpus"
        )
        child = PythonProcess(worker, self._settings, self._mailbox, environment=variables or None)
        with self._mutex:
            self._children[worker] = child

    def send(self, worker: int, message: bytes, files: Mapping[str, Path]) -> None:
        """Send a worker a message; see ``Fleet``."""
        with self._mutex:
            child = self._children.get(worker)
        if child is not None:
            child.send(message, files if self._carry else {})

    def tell(self, message: bytes) -> None:
        """Announce newer weights; do nothing if weights would travel through the pipes."""
        if self._carry:
            return
        with self._mutex:
            children = list(self._children.values())
        for child in children:
            child.send(message, {})

    def poll(self, seconds: float) -> list[WorkerMessage]:
        """Return the messages that have arrived; see ``Fleet``."""
        messages: list[WorkerMessage] = []
        with contextlib.suppress(queue.Empty):
            while True:
                child, message = self._mailbox.get(timeout=0 if messages else max(seconds, 0.001))
                messages += self._messages_of(child, message)
        if not messages:
            with self._mutex:
                children = list(self._children.values())
            messages = [
                worker_message
                for ended_child in children
                if ended_child.has_ended()
                for worker_message in self._messages_of(ended_child)
            ]
        return messages

    def _messages_of(
        self, child: PythonProcess, message: bytes | None = None
    ) -> list[WorkerMessage]:
        """Return a process's message, or the message of its end; [] if the fleet ended it."""
        with self._mutex:
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
        with self._mutex:
            child = self._children.pop(worker, None)
        if child is not None:
            child.kill()
            child.wait_until_gone()

    def close(self) -> None:
        """End all workers; see ``Fleet``."""
        with self._mutex:
            children, self._children = list(self._children.values()), {}
        for child in children:
            child.kill()
        for child in children:
            child.wait_until_gone()

    @property
    def pids(self) -> dict[int, int]:
        """The process id of each running worker."""
        with self._mutex:
            return {number: child.process.pid for number, child in self._children.items()}


def main(read_fd: int, write_fd: int) -> None:
    """Run a worker process.

    Args:
        read_fd: file descriptor of the pipe for tasks.
        write_fd: file descriptor of the pipe for answers.
    """
    end_with_parent()
    from sparring.engine.workers.worker import Message, serve

    pipe = Connection(read_fd, writable=False)

    def receive() -> Message:
        digests, message = json.loads(pipe.recv_bytes()), pipe.recv_bytes()
        return message, {digest: pipe.recv_bytes() for digest in digests}

    serve(receive, Connection(write_fd, readable=False).send_bytes, pipe.poll)


def end_with_parent() -> None:
    """End this process as soon as its parent has ended."""
    parent = os.getppid()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    def watch_parent() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch_parent, name="parent", daemon=True).start()
