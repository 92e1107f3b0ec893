"""The process that speaks with Ray for a run, and what runs in Ray's actors.

It is a process of its own, since Ray takes over the signals of the process that it runs in, and
ends it when the cluster's head is gone. The training process is to outlive that, and to say so.

It reads (worker, what) from a pipe and writes the same, as ``ray.py`` does at the other end: one
line of JSON, and after it bytes. Ray itself makes the definition of the actor travel; all else that
does is text and bytes.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil  # comes with Ray
import ray
import ray.exceptions
import ray.util

from sparring.core.files import sha256_hex
from sparring.engine.workers.fleet.processes import ONE_THREAD, end_with_parent

LOOPBACK = "127.0.0.1"
STORE = 200 << 20  # bytes of the object store of a Ray that is started here
SHARED = 8  # files of weights whose contents stay in the object store
ENDING = 5.0  # seconds for processes that were killed to be gone
LOOK = 5.0  # seconds between looks whether Ray still runs on this machine

Say = Callable[[list[Any], bytes], None]


def _actor() -> type[Any]:
    """Return the class of the actors; as a local one it travels whole, and needs nothing there."""

    class Sparring:
        """A worker."""

        def begin(self, path: list[str], folder: str, settings: bytes) -> bytes:
            """Make the worker, and return that it is ready, or what is wrong."""
            import contextlib
            import json
            import os
            import sys

            sys.path[:] = [*path, *(one for one in sys.path if one not in path)]
            with contextlib.suppress(OSError):
                os.chdir(folder)
            from sparring.config.plugins.guard import CallWatch
            from sparring.core.errors import SparringError
            from sparring.engine.workers.worker import Worker, failed, ready

            try:
                self.worker = Worker(json.loads(settings))
            except SparringError as error:
                return failed(error)
            CallWatch(self.worker.config.call_seconds).__enter__()
            return ready()

        def answer(self, message: bytes, digests: list[str], *contents: bytes) -> bytes:
            """Return the answer to a task, given contents of files by their SHA-256."""
            from sparring.engine.workers.worker import answered

            return answered(self.worker, message, dict(zip(digests, contents, strict=True)))

    return Sparring


class Driver:
    """Actors by the worker that each of them is.

    Args:
        settings: the configuration of the run, ``config``, the way of ``weights``, and how many
            GPUs an actor reserves (``gpus_per_worker``).
        say: sends a head and bytes.
    """

    def __init__(self, settings: Mapping[str, Any], say: Say) -> None:
        self._say, self._weights = say, settings["weights"]
        self._config = json.dumps(settings["config"]).encode()
        self._actors: dict[int, Any] = {}
        self._shared: dict[str, Any] = {}  # references of the contents of files by their SHA-256
        self._kind = ray.remote(
            num_cpus=1,
            num_gpus=settings["gpus_per_worker"],
            max_restarts=0,
            max_task_retries=0,
            runtime_env={"env_vars": ONE_THREAD},
        )(_actor())

    def do(self, head: list[Any], data: bytes) -> None:
        """Do what was asked: start, send or end a worker; ``turn`` counts the starts."""
        what, worker, turn, files = head
        if what == "end":
            self.end(worker)
            return
        try:
            if what == "start":
                self._actors[worker] = self._kind.remote()
                found = self._actors[worker].begin.remote(sys.path, os.getcwd(), self._config)
            else:
                contents = {} if self._weights == "file" else self._contents(files)
                actor = self._actors[worker]
                found = actor.answer.remote(data, list(contents), *contents.values())
        except (ray.exceptions.RayError, OSError, LookupError):
            self._say(["gone", worker, turn], b"")
        else:
            found.future().add_done_callback(partial(self._done, worker, turn))

    def end(self, worker: int) -> None:
        """End an actor at once."""
        actor = self._actors.pop(worker, None)
        if actor is not None:
            ray.kill(actor)

    def _done(self, worker: int, turn: int, future: Future[bytes]) -> None:
        error = future.exception()
        if error is None:
            self._say(["said", worker, turn], future.result())
        elif isinstance(error, (ray.exceptions.RayTaskError, ray.exceptions.RuntimeEnvSetupError)):
            cause = getattr(error, "cause", None) or error  # it runs, but Sparring does not
            self._say(["wrong", worker, turn], repr(cause).encode())
        else:
            self._say(["gone", worker, turn], b"")

    def _contents(self, files: Mapping[str, str]) -> dict[str, Any]:
        """Return contents of files by their SHA-256, as they are to be sent."""
        found = {}
        for digest, path in files.items():
            if digest in self._shared:
                self._shared[digest] = self._shared.pop(digest)  # is the latest now
                found[digest] = self._shared[digest]
                continue
            content = Path(path).read_bytes()
            found[digest] = content
            if self._weights == "ray" and sha256_hex(content) == digest:  # else it is refused
                found[digest] = self._shared[digest] = ray.put(content)
        for old in list(self._shared)[: -max(SHARED, len(files))]:
            self._shared.pop(old)
        return found


def _connect(settings: Mapping[str, Any]) -> int:
    """Join the Ray at an address, or start one on loopback; return how many workers have room."""
    address, each = settings["address"], settings["gpus_per_worker"]
    own: dict[str, Any] = {
        "address": "local",
        "num_cpus": settings["cores"],
        "num_gpus": settings["gpus"],
        "object_store_memory": STORE,
        "include_dashboard": False,
        "_temp_dir": settings["folder"],
    }
    options = own if address is None else {"address": address}
    ray.init(log_to_driver=settings["loud"], logging_level=logging.WARNING, **options)
    if address is None and ray.util.get_node_ip_address() != LOOPBACK:
        raise OSError(f"it does not keep to {LOOPBACK}; install ray==2.60.0")
    there = ray.cluster_resources()
    room = int(there.get("CPU", 0))
    if not each:
        return room
    if address is None and there.get("GPU", 0) < each:
        raise ValueError(f"a worker reserves {each:g} GPUs, and it has {there.get('GPU', 0):g}")
    return min(room, int(there.get("GPU", 0) / each))


def _runs_here() -> bool:
    own = ray.get_runtime_context().get_node_id()
    return any(node["NodeID"] == own and node["Alive"] for node in ray.nodes())


def _sender(pipe: Connection) -> tuple[Say, Callable[[], None]]:
    """Return what sends a head and bytes when there is room, and what waits until all are sent."""
    wanted: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def write() -> None:
        while (frame := wanted.get()) is not None:
            pipe.send_bytes(frame)

    thread = threading.Thread(target=write, name="say", daemon=True)
    thread.start()

    def finish() -> None:
        wanted.put(None)
        thread.join()

    return lambda head, data: wanted.put(json.dumps(head).encode() + b"\n" + data), finish


def main(hear: int, say: int) -> None:
    """Speak with Ray until asked to close, or nobody asks any more.

    Args:
        hear: file descriptor of the pipe that wishes come from.
        say: of the one that news go to.
    """
    end_with_parent()
    for end in (hear, say):
        os.set_inheritable(end, False)  # not for Ray's processes
    pipe = Connection(hear, writable=False)
    tell, finish = _sender(Connection(say, readable=False))
    settings = json.loads(_frame(pipe)[1])
    if not settings["loud"]:
        log = Path(settings["folder"]) / "driver.log"  # what this process and Ray print
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, 1)
        os.dup2(file, 2)
        os.close(file)
    try:
        tell(["up", _connect(settings)], b"")
        _serve(pipe, Driver(settings, tell))
    except Exception as error:  # is for the training process to say
        tell(["failed"], f"{type(error).__name__}: {error}".encode())
    finally:
        _end()
        finish()


def _end() -> None:
    """Leave Ray; if it was started here, end all its processes, some of which would linger."""
    own = psutil.Process().children(recursive=True)
    ray.shutdown()
    for one in own:
        with contextlib.suppress(psutil.Error):
            one.kill()
    psutil.wait_procs(own, timeout=ENDING)


def _serve(pipe: Connection, driver: Driver) -> None:
    """Do what is asked for until asked to close, or nobody asks any more."""
    try:
        while True:
            while not pipe.poll(LOOK):
                if not _runs_here():
                    raise RuntimeError("its process on this machine has ended")
            head, data = _frame(pipe)
            if head[0] == "close":
                return
            driver.do(head, data)
    except EOFError:
        return


def _frame(pipe: Connection) -> tuple[list[Any], bytes]:
    """Return the next head, and the bytes after it."""
    pipe.recv_bytes()  # digests of contents: none come this way
    head, _, data = pipe.recv_bytes().partition(b"\n")
    return json.loads(head), data
