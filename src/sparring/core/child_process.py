"""A child process on this machine, connected by two pipes, without network sockets.

Each process has two threads that move messages, so a paused process does not block the others.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

EXIT_SECONDS = 10.0  # longest wait for the end of a killed process
# Not a SimpleQueue: its get in CPython 3.11 may never return if the kernel suspends the thread for
# longer than the timeout just before the wait.
Mailbox = queue.Queue


class ChildProcess:
    """A child process and its pipes.

    Args:
        number: index of the process among the workers, for names and messages.
        settings: the first message to the process.
        mailbox: receives (this object, message) per message, and (this object, None) at the end.
        command: function of the child's file descriptors (input, output), for its command line.
        environment: variables that are added to the variables of this process.
        output: file descriptor for the output of the child; None: this process's stderr.
    """

    def __init__(
        self,
        number: int,
        settings: bytes,
        mailbox: Mailbox[Any],
        *,
        command: Callable[[int, int], Sequence[str]],
        environment: Mapping[str, str],
        output: int | None = None,
    ) -> None:
        child_input, to_child = os.pipe()
        from_child, child_output = os.pipe()
        stderr = sys.__stderr__.fileno() if sys.__stderr__ else subprocess.DEVNULL
        try:
            self.process = subprocess.Popen(
                command(child_input, child_output),
                pass_fds=(child_input, child_output),
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=stderr if output is None else output,
                stderr=output,
                process_group=0,  # an interrupt from the terminal does not reach the child
            )
        except OSError:
            os.close(to_child)
            os.close(from_child)
            raise
        finally:
            os.close(child_input)
            os.close(child_output)
        self._to_child = Connection(to_child, readable=False)
        self._from_child = Connection(from_child, writable=False)
        self._outbox: queue.SimpleQueue[tuple[bytes, Mapping[str, Path]] | None]
        self._outbox = queue.SimpleQueue()
        self._number, self._mailbox = number, mailbox
        for loop in (self._write, self._read):
            threading.Thread(target=loop, name=f"worker-{number}", daemon=True).start()
        self.send(settings, {})

    def send(self, message: bytes, files: Mapping[str, Path]) -> None:
        """Queue a message, and the contents of files, for sending."""
        self._outbox.put((message, files))

    def _write(self) -> None:
        with contextlib.suppress(OSError):
            while (entry := self._outbox.get()) is not None:
                message, files = entry
                self._to_child.send_bytes(json.dumps(list(files)).encode())
                self._to_child.send_bytes(message)
                for path in files.values():
                    self._to_child.send_bytes(path.read_bytes())
        self._to_child.close()

    def _read(self) -> None:
        with contextlib.suppress(EOFError, OSError, MemoryError, OverflowError):
            while True:
                self._mailbox.put((self, self._from_child.recv_bytes()))
        self._mailbox.put((self, None))
        self._from_child.close()

    @property
    def number(self) -> int:
        """Number of the process among the workers."""
        return self._number

    def has_ended(self) -> bool:
        """Return whether the process has ended, even if its children keep the pipe open."""
        with contextlib.suppress(AttributeError, ChildProcessError):  # no waitid on other systems
            # WNOWAIT: not reaped, so the process id stays valid until ``kill``
            status = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            return status is not None
        return self.process.poll() is not None

    def is_stopped(self) -> bool:
        """Return whether a signal such as SIGSTOP has paused the process."""
        with contextlib.suppress(AttributeError, ChildProcessError):
            options = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self.process.pid, options) is not None
        return False

    def kill(self) -> None:
        """Kill the process and its process group."""
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self._outbox.put(None)

    def wait_until_gone(self) -> None:
        """Wait at most ``EXIT_SECONDS`` for the end of the process."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(EXIT_SECONDS)
