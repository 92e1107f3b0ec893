"""Workers as actors of Ray: on this machine, or on all machines of a cluster.

Ray is told to start nothing again by itself: the scheduler does, and counts. What travels is bytes.
A cluster that is started here listens on loopback alone, and ends with the run.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sparring.engine.fleet.base import Heard
from sparring.errors import ConfigError, RunError

LOOPBACK = "127.0.0.1"
STORE = 200 << 20  # bytes of the object store of a cluster that is started here
SLICE = 0.05  # seconds between looks at what has been sent meanwhile
SHARED = 8  # files of weights whose contents stay in the object store
PATIENCE = 30.0  # seconds without a word from the cluster after which it is gone; Ray takes 60
LOOK = 2.0  # seconds between questions to the cluster whether it is there
ENDING = 20.0  # seconds that ending it may take
ADDRESSES = "SPARRING_RAY_ADDRESS"  # environment variable: the cluster that the user trusts
MANY_MACHINES = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # what Ray asks before it leaves loopback
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class _Actor:
    """What runs in an actor: a worker."""

    def __init__(self, config: bytes) -> None:
        from sparring.engine.worker import Worker
        from sparring.guard import Watch

        self._worker = Worker(json.loads(config))
        Watch(self._worker.config.call_seconds).__enter__()

    def ready(self) -> bytes:
        """Return the message that the worker is ready."""
        from sparring.engine.worker import ready

        return ready()

    def answer(self, message: bytes, digests: list[str], *contents: bytes) -> bytes:
        """Return the answer to a task, given the contents of files by their digests."""
        from sparring.engine.worker import answered

        return answered(self._worker, message, dict(zip(digests, contents, strict=True)))


def _ray() -> Any:
    """Return the module of Ray.

    Raises:
        ConfigError: it is not installed.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is told to anybody
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise ConfigError(
            "scale.fleet=ray needs Ray, which is not installed: pip install 'sparring[scale]', or "
            "`make scale` in a checkout."
        ) from error
    return ray


@contextlib.contextmanager
def _on_loopback() -> Iterator[None]:
    """Let a cluster that is started meanwhile listen on loopback alone, as it does on macOS.

    Elsewhere Ray takes the address by which other machines reach this one, whatever it is told.
    """
    from ray._private import ray_constants

    before, known = ray_constants.ENABLE_RAY_CLUSTER, os.environ.get(MANY_MACHINES)
    ray_constants.ENABLE_RAY_CLUSTER, os.environ[MANY_MACHINES] = False, "0"
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before
        os.environ.pop(MANY_MACHINES)
        os.environ.update({} if known is None else {MANY_MACHINES: known})


def check_address(address: str) -> None:
    """Check that a cluster may be joined: its machines can run any code in this process.

    Raises:
        ConfigError: it is on another machine, and the user has not named it.
    """
    host = address.rpartition("//")[2].rpartition(":")[0] or address
    if address == "auto" or host in ("localhost", LOOPBACK, "[::1]"):
        return
    if address not in os.environ.get(ADDRESSES, "").split(","):
        raise ConfigError(
            f"scale.address={address}: this cluster could run any code here, and only the "
            f"configuration names it. If you trust it, type scale.address={address} on the "
            f"command line, or write {ADDRESSES}={address} before the command."
        )


class RayFleet:
    """Actors of Ray.

    Args:
        config: of the run, as values of JSON; its ``scale`` says how many, where, and how weights
            travel.

    Raises:
        ConfigError: Ray is not installed, or the address is not trusted.
        RunError: the cluster cannot be started or reached.
    """

    apart, elastic = True, True

    def __init__(self, config: Mapping[str, Any]) -> None:
        scale = config["scale"]
        self._ray, self._weights = _ray(), scale["weights"] or "ray"
        address = scale["address"]
        if address is not None:
            check_address(address)
        self._began = not self._ray.is_initialized()
        if self._began:
            self._connect(address, scale["workers"])
        count = scale["workers"]
        self.workers = count if count > 0 else int(self._ray.cluster_resources().get("CPU", 1))
        self._settings = json.dumps(config).encode()
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        self._kind = self._ray.remote(
            num_cpus=1,
            max_restarts=0,
            max_task_retries=0,
            runtime_env={"env_vars": {**ONE_THREAD, "PYTHONPATH": paths}},
        )(_Actor)
        self._actors: dict[int, Any] = {}
        self._asked: dict[Any, int] = {}  # worker by the reference of what it was asked
        self._shared: dict[str, Any] = {}  # reference of the contents of files by their SHA-256
        self._lock = threading.Lock()
        self._seen = time.monotonic()  # when the cluster last answered
        self._closed = threading.Event()
        threading.Thread(target=self._look, name="ray", daemon=True).start()

    def _connect(self, address: str | None, workers: int) -> None:
        """Join the cluster at an address, or start one here.

        Raises:
            RunError: that is not to be had.
        """
        own: dict[str, Any] = {
            "address": "local",  # and no cluster that happens to run here
            "num_cpus": workers if workers > 0 else None,
            "object_store_memory": STORE,
            "include_dashboard": False,
            "_node_ip_address": LOOPBACK,
        }
        options = own if address is None else {"address": address}
        try:
            with _on_loopback() if address is None else contextlib.nullcontext():
                self._ray.init(
                    logging_level=logging.ERROR,
                    log_to_driver=False,
                    configure_logging=False,
                    **options,
                )
        except Exception as error:
            raise RunError(
                f"Ray cannot be {'started' if address is None else f'reached at {address}'}: "
                f"{error!s:.300}. Write another scale.address, or fleet: processes."
            ) from error

    def now(self) -> float:
        """Return the seconds on its clock; see ``Fleet``."""
        return time.monotonic()

    def start(self, worker: int) -> None:
        """Start a worker; see ``Fleet``."""
        with self._lock:
            actor = self._kind.remote(self._settings)
            self._actors[worker] = actor
            self._asked[actor.ready.remote()] = worker

    def send(self, worker: int, message: bytes, files: Mapping[str, Path]) -> None:
        """Send a worker a message; see ``Fleet``."""
        with self._lock:
            actor = self._actors.get(worker)
            if actor is None:
                return
            contents = [] if self._weights == "file" else [*map(self._content, files.items())]
            digests = list(files) if contents else []
            self._asked[actor.answer.remote(message, digests, *contents)] = worker

    def _content(self, file: tuple[str, Path]) -> Any:
        """Return the contents of a file, as they are sent along."""
        digest, path = file
        if self._weights == "pipe":
            return path.read_bytes()
        if digest not in self._shared:
            self._shared[digest] = self._ray.put(path.read_bytes())
            for old in list(self._shared)[:-SHARED]:
                self._shared.pop(old)
        return self._shared[digest]

    def poll(self, seconds: float) -> list[Heard]:
        """Return what has come, waiting so long for the first; see ``Fleet``.

        Raises:
            RunError: the cluster is gone.
        """
        end = time.monotonic() + seconds
        while True:
            with self._lock:
                asked = list(self._asked)
            left = min(max(end - time.monotonic(), 0.001), SLICE)
            if asked:
                found, _ = self._ray.wait(asked, num_returns=len(asked), timeout=left)
            else:
                found = []
                time.sleep(left)
            heard = [one for reference in found for one in self._heard(reference)]
            self._check()
            if heard or time.monotonic() >= end:
                return heard

    def _heard(self, reference: Any) -> list[Heard]:
        """Return what an actor has said, if it was not ended meanwhile."""
        message: bytes | None
        try:
            message = self._ray.get(reference, timeout=PATIENCE)
        except Exception:  # whatever Ray says: it has no answer
            message = None
        with self._lock:
            worker = self._asked.pop(reference, None)
            if worker is None:
                return []
            if message is None:
                self._drop(worker)
        return [Heard(worker, message)]

    def _look(self) -> None:
        """Ask every few seconds whether the cluster is there; the question itself may hang."""
        while not self._closed.wait(LOOK):
            with contextlib.suppress(Exception):
                if any(node["Alive"] for node in self._ray.nodes()):
                    self._seen = time.monotonic()

    def _check(self) -> None:
        """Check that the cluster has answered lately.

        Raises:
            RunError: it has not.
        """
        if time.monotonic() - self._seen > PATIENCE:
            raise RunError(
                f"The Ray cluster has not answered for {PATIENCE:g} seconds: its head is gone. "
                "Start it again and go on with --resume; no play is lost that the last checkpoint "
                "does not make again."
            )

    def _drop(self, worker: int) -> None:
        """Forget a worker, and end its process."""
        actor = self._actors.pop(worker, None)
        for reference in [one for one, number in self._asked.items() if number == worker]:
            self._asked.pop(reference)
        if actor is not None:
            with contextlib.suppress(Exception):
                self._ray.kill(actor)

    def end(self, worker: int) -> None:
        """End a worker at once; see ``Fleet``."""
        with self._lock:
            self._drop(worker)

    def close(self) -> None:
        """End all workers, and the cluster if it was started here; see ``Fleet``."""
        self._closed.set()
        ending = threading.Thread(target=self._end_all, name="ray-end", daemon=True)
        ending.start()
        ending.join(ENDING)  # with a head that is gone it may hang

    def _end_all(self) -> None:
        """End all workers, and the cluster if it was started here."""
        with self._lock, contextlib.suppress(Exception):
            for worker in list(self._actors):
                self._drop(worker)
            self._shared.clear()
        if self._began and self._ray.is_initialized():
            with contextlib.suppress(Exception):
                self._ray.shutdown()
