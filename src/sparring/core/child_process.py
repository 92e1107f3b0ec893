"""A process of this machine, a pipe to it and one from it: nothing listens anywhere.

Two threads per process move messages, so that one that is stopped blocks nobody.
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

PATIENCE = 10.0  # seconds for a process that was killed to be gone
# What processes say, heard with a timeout. No SimpleQueue: where the kernel holds a thread up for
# longer than the timeout just before it waits, its get of CPython 3.11 never returns: what is
# left of the timeout is negative by then, which it takes for no timeout.
Mailbox = queue.Queue


class ChildProcess:
    """A process, its pipes, and what is to be sent to it.

    Args:
        number: of it, for whoever listens.
        settings: the first message that it is sent.
        heard: takes (this, message) of all that comes, and (this, None) when it is gone.
        command: returns what it runs, given the descriptors that it hears by and says by.
        environment: variables that it is given besides those of this process.
        output: descriptor of the file that takes what it prints; None: this process's errors.
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
        theirs, ours = os.pipe()
        back, forth = os.pipe()
        printed = sys.__stderr__.fileno() if sys.__stderr__ else subprocess.DEVNULL
        try:
            self.process = subprocess.Popen(
                command(theirs, forth),
                pass_fds=(theirs, forth),
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=printed if output is None else output,
                stderr=output,
                process_group=0,  # an interrupt from the terminal is this process's to handle
            )
        except OSError:
            os.close(ours)
            os.close(back)
            raise
        finally:
            os.close(theirs)
            os.close(forth)
        self._to, self._from = Connection(ours, readable=False), Connection(back, writable=False)
        self._wanted: queue.SimpleQueue[tuple[bytes, Mapping[str, Path]] | None]
        self._wanted = queue.SimpleQueue()
        self._number, self._heard = number, mailbox
        for work in (self._write, self._read):
            threading.Thread(target=work, name=f"worker-{number}", daemon=True).start()
        self.send(settings, {})

    def send(self, message: bytes, files: Mapping[str, Path]) -> None:
        """Send a message, and the contents of files, when there is room for it."""
        self._wanted.put((message, files))

    def _write(self) -> None:
        """Send what is wanted until the process is gone."""
        with contextlib.suppress(OSError):
            while (item := self._wanted.get()) is not None:
                message, files = item
                self._to.send_bytes(json.dumps(list(files)).encode())
                self._to.send_bytes(message)
                for path in files.values():
                    self._to.send_bytes(path.read_bytes())
        self._to.close()

    def _read(self) -> None:
        """Take what comes until the process is gone, or says what has no length."""
        with contextlib.suppress(EOFError, OSError, MemoryError, OverflowError):
            while True:
                self._heard.put((self, self._from.recv_bytes()))
        self._heard.put((self, None))
        self._from.close()

    @property
    def number(self) -> int:
        """The worker that it is."""
        return self._number

    def has_ended(self) -> bool:
        """Return whether the process has ended; a process that it began may hold its pipe."""
        with contextlib.suppress(AttributeError, ChildProcessError):  # elsewhere: reaped at once
            # looked at, not reaped, so that its number stays its own until ``kill``
            status = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            return status is not None
        return self.process.poll() is not None

    def is_stopped(self) -> bool:
        """Return whether a signal has stopped the process, such as SIGSTOP; it may go on."""
        with contextlib.suppress(AttributeError, ChildProcessError):
            options = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self.process.pid, options) is not None
        return False

    def kill(self) -> None:
        """End it at once, with all processes that it began and that did not leave its group."""
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self._wanted.put(None)

    def gone(self) -> None:
        """Wait until the process is gone."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(PATIENCE)
