"""The process that talks to Ray for a run, and the code of Ray's actors.

Ray takes over the signals of its process, and ends the process when the head of the cluster ends.
The training process must survive that end and report it, so Ray runs in a separate process.

Frames on both pipes are a line of JSON, then bytes (see ``ray.py``). Ray serialises only the class
of the actor; all other messages are text and bytes.
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
STORE_BYTES = 200 << 20  # size of the object store of a run's own Ray
MAX_SHARED = 8  # number of weights files whose contents stay in the object store
KILL_TIMEOUT = 5.0  # seconds for killed processes to end
CHECK_SECONDS = 5.0  # seconds between two checks that Ray still runs on this machine

Send = Callable[[list[Any], bytes], None]


def _actor_class() -> type[Any]:
    """Return the class of the actors; a local class is sent as a whole and needs no import."""

    class Sparring:
        """A worker."""

        def begin(self, path: list[str], folder: str, settings: bytes) -> bytes:
            """Make the worker, and return that it is ready, or its error."""
            import contextlib
            import json
            import os
            import sys

            sys.path[:] = [*path, *(entry for entry in sys.path if entry not in path)]
            with contextlib.suppress(OSError):
                os.chdir(folder)
            from sparring.config.plugins.guard import CallWatch
            from sparring.core.errors import SparringError
            from sparring.engine.workers.worker import Worker, error_message, ready_message

            try:
                self.worker = Worker(json.loads(settings))
            except SparringError as error:
                return error_message(error)
            CallWatch(self.worker.config.call_seconds).__enter__()
            return ready_message()

        def answer(self, message: bytes, digests: list[str], *contents: bytes) -> bytes:
            """Return the answer to a task, given contents of files by their SHA-256."""
            from sparring.engine.workers.worker import task_answer

            return task_answer(self.worker, message, dict(zip(digests, contents, strict=True)))

    return Sparring


class RayDriver:
    """The actors by worker number.

    Args:
        settings: the run's configuration (``config``), how ``weights`` travel, and the number of
            GPUs that an actor reserves (``gpus_per_worker``).
        send: function that sends a frame: a header, then bytes.
    """

    def __init__(self, settings: Mapping[str, Any], send: Send) -> None:
        self._send, self._weights = send, settings["weights"]
        self._config = json.dumps(settings["config"]).encode()
        self._actors: dict[int, Any] = {}
        self._shared: dict[str, Any] = {}  # references of the contents of files by their SHA-256
        self._actor_class = ray.remote(
            num_cpus=1,
            num_gpus=settings["gpus_per_worker"],
            max_restarts=0,
            max_task_retries=0,
            runtime_env={"env_vars": ONE_THREAD},
        )(_actor_class())

    def carry_out(self, header: list[Any], payload: bytes) -> None:
        """Start a worker, send it a message, or end it; ``start_number`` counts all starts."""
        request, worker, start_number, files = header
        if request == "end":
            self.end(worker)
            return
        try:
            if request == "start":
                self._actors[worker] = self._actor_class.remote()
                reference = self._actors[worker].begin.remote(sys.path, os.getcwd(), self._config)
            else:
                contents = {} if self._weights == "file" else self._read_contents(files)
                actor = self._actors[worker]
                reference = actor.answer.remote(payload, list(contents), *contents.values())
        except (ray.exceptions.RayError, OSError, LookupError):
            self._send(["gone", worker, start_number], b"")
        else:
            reference.future().add_done_callback(partial(self._report_result, worker, start_number))

    def end(self, worker: int) -> None:
        """End an actor at once."""
        actor = self._actors.pop(worker, None)
        if actor is not None:
            ray.kill(actor)

    def _report_result(self, worker: int, start_number: int, future: Future[bytes]) -> None:
        error = future.exception()
        if error is None:
            self._send(["said", worker, start_number], future.result())
        elif isinstance(error, (ray.exceptions.RayTaskError, ray.exceptions.RuntimeEnvSetupError)):
            cause = getattr(error, "cause", None) or error  # the failure of Sparring, not of Ray
            self._send(["wrong", worker, start_number], repr(cause).encode())
        else:
            self._send(["gone", worker, start_number], b"")

    def _read_contents(self, files: Mapping[str, str]) -> dict[str, Any]:
        contents = {}
        for digest, path in files.items():
            if digest in self._shared:
                self._shared[digest] = self._shared.pop(digest)  # the last entry is the latest used
                contents[digest] = self._shared[digest]
                continue
            content = Path(path).read_bytes()
            contents[digest] = content
            # the worker refuses a content with another digest
            if self._weights == "ray" and sha256_hex(content) == digest:
                contents[digest] = self._shared[digest] = ray.put(content)
        for old_digest in list(self._shared)[: -max(MAX_SHARED, len(files))]:
            self._shared.pop(old_digest)
        return contents


def _connect(settings: Mapping[str, Any]) -> int:
    """Join the Ray at an address, or start Ray on loopback; return its capacity in workers."""
    address, gpus = settings["address"], settings["gpus_per_worker"]
    local_options: dict[str, Any] = {
        "address": "local",
        "num_cpus": settings["cores"],
        "num_gpus": settings["gpus"],
        "object_store_memory": STORE_BYTES,
        "include_dashboard": False,
        "_temp_dir": settings["folder"],
    }
    options = local_options if address is None else {"address": address}
    ray.init(log_to_driver=settings["loud"], logging_level=logging.WARNING, **options)
    if address is None and ray.util.get_node_ip_address() != LOOPBACK:
        raise OSError(f"it does not listen only on {LOOPBACK}; install ray==2.60.0")
    resources = ray.cluster_resources()
    capacity = int(resources.get("CPU", 0))
    if not gpus:
        return capacity
    if address is None and resources.get("GPU", 0) < gpus:
        raise ValueError(f"a worker reserves {gpus:g} GPUs, and it has {resources.get('GPU', 0):g}")
    return min(capacity, int(resources.get("GPU", 0) / gpus))


def _is_ray_alive() -> bool:
    node_id = ray.get_runtime_context().get_node_id()
    return any(node["NodeID"] == node_id and node["Alive"] for node in ray.nodes())


def _start_sender(pipe: Connection) -> tuple[Send, Callable[[], None]]:
    """Return a function that sends in the background, and one that waits for all sends."""
    frames: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def write() -> None:
        while (frame := frames.get()) is not None:
            pipe.send_bytes(frame)

    thread = threading.Thread(target=write, name="say", daemon=True)
    thread.start()

    def finish() -> None:
        frames.put(None)
        thread.join()

    return lambda header, data: frames.put(json.dumps(header).encode() + b"\n" + data), finish


def main(read_fd: int, write_fd: int) -> None:
    """Talk to Ray until a request to close arrives, or the pipe of requests ends.

    Args:
        read_fd: file descriptor of the pipe for requests.
        write_fd: file descriptor of the pipe for results.
    """
    end_with_parent()
    for descriptor in (read_fd, write_fd):
        os.set_inheritable(descriptor, False)  # Ray's processes do not inherit them
    pipe = Connection(read_fd, writable=False)
    send, finish = _start_sender(Connection(write_fd, readable=False))
    settings = json.loads(_receive_frame(pipe)[1])
    if not settings["loud"]:
        log = Path(settings["folder"]) / "driver.log"  # output of this process and of Ray
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, 1)
        os.dup2(file, 2)
        os.close(file)
    try:
        send(["up", _connect(settings)], b"")
        _serve(pipe, RayDriver(settings, send))
    except Exception as error:  # reported by the training process
        send(["failed"], f"{type(error).__name__}: {error}".encode())
    finally:
        _leave_ray()
        finish()


def _leave_ray() -> None:
    """Leave Ray, and kill all processes of a run's own Ray, because some would stay."""
    children = psutil.Process().children(recursive=True)
    ray.shutdown()
    for process in children:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(children, timeout=KILL_TIMEOUT)


def _serve(pipe: Connection, driver: RayDriver) -> None:
    try:
        while True:
            while not pipe.poll(CHECK_SECONDS):
                if not _is_ray_alive():
                    raise RuntimeError("its process on this machine has ended")
            header, payload = _receive_frame(pipe)
            if header[0] == "close":
                return
            driver.carry_out(header, payload)
    except EOFError:
        return


def _receive_frame(pipe: Connection) -> tuple[list[Any], bytes]:
    pipe.recv_bytes()  # digests of files, always empty here
    header, _, payload = pipe.recv_bytes().partition(b"\n")
    return json.loads(header), payload
