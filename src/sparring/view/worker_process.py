"""Work in a process of its own: environments and their plug-ins may be slow, hang, or crash.

The page goes on then, and the next question starts a new process. Both sides speak JSON, so that
nothing is unpickled.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Mapping
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any

from sparring.config.plugins.guard import CallWatch
from sparring.core.files import parse_json
from sparring.view.http_requests import Refused, json_bytes, one_line

SECONDS = 20.0  # that an answer may take, the start of the process included
STARTS = multiprocessing.get_context("spawn")


class Aside:
    """A process that answers one question at a time; threads may share it.

    Args:
        module: its function ``answer`` takes a mapping of JSON and returns one.
        seconds: that an answer may take.
    """

    def __init__(self, module: str, seconds: float = SECONDS) -> None:
        self._module, self._seconds = module, seconds
        self._lock = threading.Lock()
        self._process: Any = None
        self._pipe: Connection | None = None

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a question.

        Raises:
            Refused: there is none: what was asked cannot be done, took too long, or crashed.
        """
        with self._lock:
            pipe = self._running()
            try:
                pipe.send_bytes(json_bytes(question))
                came = pipe.poll(self._seconds)
                found: dict[str, Any] | None = parse_json(pipe.recv_bytes()) if came else None
            except (EOFError, OSError, ValueError):
                self._stop()
                raise Refused(503, "the process that was asked has crashed") from None
            if found is None:
                self._stop()
                raise Refused(503, f"no answer came within {self._seconds:.0f} s")
        if "error" in found:
            raise Refused(404, found["error"])
        return found

    def close(self) -> None:
        """End the process, if there is one."""
        with self._lock:
            self._stop()

    def _running(self) -> Connection:
        """Return the pipe to the process, which is started if there is none."""
        if self._pipe is None or not self._process.is_alive():
            self._stop()
            self._pipe, theirs = STARTS.Pipe()
            self._process = STARTS.Process(
                target=_answering, args=(theirs, self._module), daemon=True
            )
            self._process.start()
            theirs.close()
        return self._pipe

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join(5)
        if self._pipe is not None:
            self._pipe.close()
        self._process = self._pipe = None


def _answering(pipe: Connection, module: str) -> None:
    """Answer questions until the other side is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the server, which ends this process
    # also while an answer is being made; no signal of the kernel's, which comes when a thread ends
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    os.environ["HF_HUB_OFFLINE"] = "1"  # no request leaves the machine
    with CallWatch():
        while True:
            try:
                question = parse_json(pipe.recv_bytes())
            except (EOFError, OSError):
                return
            try:
                answer = import_module(module).answer(question)
            except Exception as error:  # of anything that an environment does
                answer = {"error": one_line(error)}
            pipe.send_bytes(json_bytes(answer))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
