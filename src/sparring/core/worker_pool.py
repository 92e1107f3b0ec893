"""Worker processes that compute the results of jobs and end with their parent."""

from __future__ import annotations

import contextlib
import json
import logging
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import TracebackType
from typing import Any

from sparring.core.errors import DEBUG, RolloutError, SparringError

log = logging.getLogger(__name__)

HANG_SECONDS = 86_400.0  # workers without a result for this time count as hung

Job = list[Any]
"""JSON values; a result also consists of JSON values."""


class WorkerPool:
    """Processes that compute jobs. Each makes a function once, and calls it for every job.

    Args:
        make: an importable function; ``make(settings)`` returns the function that computes a job.
        settings: the argument of ``make``; values that can be pickled.
        workers: number of processes.
    """

    def __init__(
        self,
        make: Callable[[dict[str, Any]], Callable[[Job], Any]],
        settings: dict[str, Any],
        workers: int,
    ) -> None:
        self._make, self._settings, self._workers = make, settings, workers
        self._processes: list[Any] = []
        self._pipes: list[Connection] = []

    def __enter__(self) -> WorkerPool:
        self.start()
        return self

    def start(self) -> None:
        """Start the processes; entering the context does this."""
        context = multiprocessing.get_context("spawn")
        with _ignore_interrupts():
            for number in range(self._workers):
                parent_pipe, child_pipe = context.Pipe()
                process = context.Process(
                    target=_run_worker,
                    args=(child_pipe, self._make, self._settings),
                    name=f"worker-{number}",
                    daemon=True,
                )
                process.start()
                child_pipe.close()  # so that the pipe closes when the process ends
                self._processes.append(process)
                self._pipes.append(parent_pipe)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(at_once=kind is not None)

    def close(self, *, at_once: bool) -> None:
        """End the processes, ``at_once`` or after their jobs; leaving the context does this."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes if at_once else ():
            # a paused worker ends only by SIGKILL
            process.kill()
        for process in self._processes:
            process.join()

    def kill(self) -> None:
        """Kill the processes; any thread may call this, and a waiting ``results`` then raises."""
        for process in self._processes:
            process.kill()

    def results(
        self, jobs: Iterable[Job], *, seconds: float = HANG_SECONDS
    ) -> Iterator[tuple[Job, Any]]:
        """Yield (job, result) in the order of the results.

        Args:
            jobs: the jobs, as JSON values.
            seconds: longest time without any result; 0: no limit.

        Raises:
            RolloutError: a worker raised, died, hung or was paused; the message says which.
        """
        remaining_jobs = iter(jobs)
        job_of_pipe: dict[Connection, Job] = {}
        for pipe in self._pipes:
            _send_next(pipe, remaining_jobs, job_of_pipe)
        while job_of_pipe:
            ready_pipes = wait(list(job_of_pipe), seconds or None)
            if not ready_pipes:
                processes = [self._processes[self._pipes.index(pipe)] for pipe in job_of_pipe]
                pids = ", ".join(str(process.pid) for process in processes)
                raise RolloutError(
                    f"No worker process has returned a result for {seconds:g} seconds: pid {pids} "
                    "hang or are paused."
                )
            for pipe in [pipe for pipe in self._pipes if pipe in ready_pipes]:
                job = job_of_pipe.pop(pipe)
                result = self._receive_result(pipe)
                _send_next(pipe, remaining_jobs, job_of_pipe)
                yield job, result

    def _receive_result(self, pipe: Connection) -> Any:
        try:
            status, value = json.loads(pipe.recv_bytes())
        except (EOFError, OSError):
            process = self._processes[self._pipes.index(pipe)]
            process.join()
            raise RolloutError(
                f"A worker process died (exit code {process.exitcode}), perhaps because memory "
                "ran out; run again with fewer workers."
            ) from None
        if status != "ok":
            raise RolloutError(value)
        return value


@contextlib.contextmanager
def _ignore_interrupts() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous_handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        default = signal.SIG_DFL  # None: a handler that Python did not install
        signal.signal(signal.SIGINT, default if previous_handler is None else previous_handler)


def _send_next(
    pipe: Connection, remaining_jobs: Iterator[Job], job_of_pipe: dict[Connection, Job]
) -> None:
    job = next(remaining_jobs, None)
    if job is not None:
        job_of_pipe[pipe] = job
        try:
            pipe.send_bytes(json.dumps(job).encode())
        except OSError:
            log.debug("A worker is gone; reading its result will raise.")


def _run_worker(
    pipe: Connection,
    make: Callable[[dict[str, Any]], Callable[[Job], Any]],
    settings: dict[str, Any],
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    compute: Callable[[Job], Any] | None = None
    while True:
        try:
            job = json.loads(pipe.recv_bytes())
        except (EOFError, OSError):
            return
        try:
            compute = compute or make(settings)
            message = ["ok", compute(job)]
        except SparringError as error:
            message = ["failed", str(error)]
        except Exception as error:
            if os.environ.get(DEBUG, "") not in ("", "0"):
                log.exception("A worker process failed.")
            frame = traceback.extract_tb(error.__traceback__)[-1]
            location = f"{Path(frame.filename).name}:{frame.lineno}"
            message = [
                "failed",
                f"A worker process failed at {location}: {error!r}. {DEBUG}=1 shows the trace.",
            ]
        try:
            pipe.send_bytes(json.dumps(message).encode())
        except OSError:
            return
