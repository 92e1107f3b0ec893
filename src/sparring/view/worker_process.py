"""A separate process for environments and plug-ins, which may be slow, hang, or crash.

After a failure, the next question starts a new process. Messages are JSON, not pickles.
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
from sparring.view.http_requests import RequestError, json_bytes, one_line

SECONDS = 20.0  # time limit of an answer, including the start of the process
SPAWN = multiprocessing.get_context("spawn")


class WorkerProcess:
    """A process that answers one question at a time; thread-safe.

    Args:
        module: name of a module whose function ``answer`` maps a JSON object to a JSON object.
        seconds: time limit of an answer.
    """

    def __init__(self, module: str, seconds: float = SECONDS) -> None:
        self._module, self._seconds = module, seconds
        self._lock = threading.Lock()
        self._process: Any = None
        self._pipe: Connection | None = None

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a question.

        Raises:
            RequestError: the question cannot be answered, took too long, or crashed the process.
        """
        with self._lock:
            pipe = self._ensure_started()
            try:
                pipe.send_bytes(json_bytes(question))
                is_ready = pipe.poll(self._seconds)
                answer: dict[str, Any] | None = parse_json(pipe.recv_bytes()) if is_ready else None
            except (EOFError, OSError, ValueError):
                self._stop()
                raise RequestError(503, "the process for the answer has crashed") from None
            if answer is None:
                self._stop()
                raise RequestError(503, f"no answer came within {self._seconds:.0f} s")
        if "error" in answer:
            raise RequestError(404, answer["error"])
        return answer

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._stop()

    def _ensure_started(self) -> Connection:
        if self._pipe is None or not self._process.is_alive():
            self._stop()
            self._pipe, child_pipe = SPAWN.Pipe()
            self._process = SPAWN.Process(
                target=_answer_questions, args=(child_pipe, self._module), daemon=True
            )
            self._process.start()
            child_pipe.close()
        return self._pipe

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join(5)
        if self._pipe is not None:
            self._pipe.close()
        self._process = self._pipe = None


def _answer_questions(pipe: Connection, module: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server handles it and ends this process
    # not the kernel's parent-death signal, which comes when the starting thread ends
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
            except Exception as error:  # an environment may raise any error
                answer = {"error": one_line(error)}
            pipe.send_bytes(json_bytes(answer))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
