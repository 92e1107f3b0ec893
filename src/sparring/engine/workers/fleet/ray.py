"""Workers as actors of Ray: on this machine, or on all machines of a cluster.

Ray is told to start nothing again by itself: the scheduler does, and counts. What travels is bytes.
A Ray that is started here listens on loopback alone, with a token of its own, and ends with the
run. A process of its own speaks with Ray (``ray_driver.py``).
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import json
import os
import queue
import secrets
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sparring.core.child_process import Mailbox
from sparring.core.errors import DEBUG, ConfigError, RunError
from sparring.core.process import visible_gpus
from sparring.core.trust import RAY
from sparring.engine.workers.fleet.base import WorkerMessage
from sparring.engine.workers.fleet.processes import Child
from sparring.engine.workers.gpu_placement import for_worker
from sparring.engine.workers.worker import failed

DRIVER = "sparring.engine.workers.fleet.ray_driver"
STARTING = 180.0  # seconds for Ray to be there
PATIENCE = 10.0  # seconds for a head to be reached
CLOSING = 20.0  # seconds for Ray to end
GONE = 20  # seconds after which a head that was started here counts as gone
PREFIX = "sparring-ray-"  # of folders for what Ray writes
KEPT = "kept"  # a file in one that an error has named, which stays
LOCAL = ("localhost", "127.0.0.1", "[::1]")


def check_address(address: str) -> None:
    """Check that a cluster may be joined: its machines can run any code in this process.

    Raises:
        ConfigError: it is on another machine, and the user has not named it.
    """
    host = address.rpartition("//")[2].rpartition(":")[0] or address
    if address == "auto" or host in LOCAL:
        return
    if address not in os.environ.get(RAY, "").split(","):
        raise ConfigError(
            f"scale.address={address}: this cluster could run any code here, and only the "
            f"configuration names it. If you trust it, type scale.address={address} on the "
            f"command line, or write {RAY}={address} before the command."
        )


def _check_there(address: str) -> None:
    """Check that something listens at an address; Ray would ask for minutes."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    if not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise RunError(
            f"Nothing listens at {address}: {error}. `ray start --head` prints the address of a "
            "cluster; write it as scale.address."
        ) from error


def check_installed() -> None:
    """Check that Ray is installed.

    Raises:
        ConfigError: it is not.
    """
    if importlib.util.find_spec("ray") is None:
        raise ConfigError(
            "scale.fleet=ray needs Ray, which is not installed: pip install 'sparring[scale]', or "
            "`make scale` in a checkout."
        )


class RayFleet:
    """Actors of Ray.

    Args:
        config: of the run, as values of JSON; its ``scale`` says how many, where, and how weights
            travel.

    Raises:
        ConfigError: Ray is not installed, or the address is not trusted.
        RunError: Ray cannot be started or reached.
    """

    apart, elastic = True, True

    def __init__(self, config: Mapping[str, Any]) -> None:
        scale = config["scale"]
        address, count = scale["address"], scale["workers"]
        gpus, each = scale.get("gpus", []), scale.get("gpus_per_worker") or 0
        check_installed()
        if address is not None:
            check_address(address)
            _check_there(address)
        self._where = "on this machine" if address is None else f"at {address}"
        self._heard: Mailbox[tuple[Child, bytes | None]] = Mailbox()
        self._turns: dict[int, int] = {}  # how often each worker that is there was started
        self._starts = 0
        self._held = threading.Lock()  # while these change
        self._failed = self._closed = False
        self._lock: int | None
        self._folder, self._lock = _folder()
        settings = {
            "config": for_worker(config, each),
            "weights": scale["weights"] or "ray",
            "address": address,
            "cores": count if count > 0 else os.cpu_count(),
            "gpus": len(gpus),
            "gpus_per_worker": each,
            "folder": str(self._folder),
            "loud": os.environ.get(DEBUG, "") not in ("", "0"),
        }
        self._child = Child(
            0,
            b"[]\n" + json.dumps(settings).encode(),
            self._heard,
            module=DRIVER,
            environment={
                **_environment(address),
                **(visible_gpus(gpus, "scale.gpus") if gpus else {}),
            },
        )
        room = self._up()
        self.workers = count if count > 0 else max(room, 1)

    def _up(self) -> int:
        """Wait until Ray is there; return how many workers it has room for."""
        try:
            frame = self._heard.get(timeout=STARTING)[1]
        except queue.Empty:
            frame = None
        except BaseException:  # an interrupt
            self.close()
            raise
        head, data = _parts(frame)
        if head[0] == "up":
            return int(head[1])
        self._failed = head[0] == "gone"
        self.close()
        raise RunError(
            f"Ray cannot be reached {self._where}: "
            f"{data.decode() or 'it has ended, or said nothing'}. {self._said()}A cluster wants "
            "its own token (RAY_AUTH_TOKEN, or the file ~/.ray/auth_token of its head). Or write "
            "another scale.address, or scale.fleet=processes."
        )

    def now(self) -> float:
        """Return the seconds on its clock; see ``Fleet``."""
        return time.monotonic()

    def start(self, worker: int) -> None:
        """Start a worker; see ``Fleet``."""
        with self._held:
            self._starts += 1
            self._turns[worker] = self._starts
            self._ask("start", worker, self._starts)

    def send(self, worker: int, message: bytes, files: Mapping[str, Path]) -> None:
        """Send a worker a message; see ``Fleet``."""
        with self._held:
            if worker in self._turns:
                self._ask("send", worker, self._turns[worker], files, message)

    def tell(self, message: bytes) -> None:
        """Do nothing: an actor that plays hears nobody; see ``Fleet``."""

    def end(self, worker: int) -> None:
        """End a worker at once; see ``Fleet``."""
        with self._held:
            self._ask("end", worker, self._turns.pop(worker, 0))

    def _ask(
        self,
        what: str,
        worker: int = 0,
        turn: int = 0,
        files: Mapping[str, Path] | None = None,
        data: bytes = b"",
    ) -> None:
        paths = {digest: str(path) for digest, path in (files or {}).items()}
        self._child.send(json.dumps([what, worker, turn, paths]).encode() + b"\n" + data, {})

    def poll(self, seconds: float) -> list[WorkerMessage]:
        """Return what has come, waiting so long for the first; see ``Fleet``.

        Raises:
            RunError: Ray is gone.
        """
        found: list[WorkerMessage] = []
        try:
            while True:
                frame = self._heard.get(timeout=0 if found else max(seconds, 0.001))[1]
                found.extend(self._told(*_parts(frame)))
        except queue.Empty:
            if not found and self._child.has_ended():
                self._told(*_parts(None))
        return found

    def _told(self, head: list[Any], data: bytes) -> list[WorkerMessage]:
        """Return what a message says of a worker; nothing if it is one that was ended."""
        if len(head) == 1:
            if self._closed:
                return []
            self._failed = True
            why = f": {data.decode()}" if data else ", or its head"
            raise RunError(
                f"Ray {self._where} has ended{why}. {self._said()}See that it runs, and go on with "
                "--resume: what the last checkpoint does not hold is played again, to the same "
                "bytes."
            )
        what, worker, turn = head
        with self._held:
            if self._turns.get(worker) != turn:
                return []
            if what == "gone":
                self._turns.pop(worker)
                self._ask("end", worker, turn)  # Ray may be wrong
                return [WorkerMessage(worker, None)]
        if what == "wrong":
            data = failed(
                RunError(
                    f"Ray cannot run a worker {self._where}: {data.decode()}. Each machine needs "
                    "the same Python, sparring and plug-ins."
                )
            )
        return [WorkerMessage(worker, data)]

    def _said(self) -> str:
        return f"What Ray said is in {self._folder}. " if self._folder.is_dir() else ""

    def close(self) -> None:
        """End all workers, and a Ray that was started here; see ``Fleet``."""
        self._closed = True
        self._ask("close")
        end = time.monotonic() + CLOSING
        while not self._child.has_ended() and time.monotonic() < end:
            time.sleep(0.02)
        self._child.kill()
        self._child.wait_until_gone()
        if not self._failed:
            shutil.rmtree(self._folder, ignore_errors=True)
        elif self._folder.is_dir():
            (self._folder / KEPT).touch()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _parts(frame: bytes | None) -> tuple[list[Any], bytes]:
    """Return the head of a message, and the bytes after it; without one, its sender is gone."""
    if frame is None:
        return ["gone"], b""
    head, _, data = frame.partition(b"\n")
    return json.loads(head), data


def _folder() -> tuple[Path, int]:
    """Return a new folder for what Ray writes, and the descriptor that locks it.

    Its name leaves room for those of sockets in it. Folders that killed runs have left are removed:
    those that nobody locks.
    """
    usual = tempfile.gettempdir()
    place = Path(usual if len(usual) < 20 else "/tmp")
    for left in place.glob(f"{PREFIX}*"):
        _remove_if_left(left)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        with contextlib.suppress(FileNotFoundError):  # another run took it for one that was left
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.is_dir():
                return folder, lock
            os.close(lock)


def _remove_if_left(folder: Path) -> None:
    """Remove a folder of this user that no run locks, unless an error has named it."""
    with contextlib.suppress(OSError):
        if folder.lstat().st_uid != os.geteuid() or (folder / KEPT).exists():
            return
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


def _environment(address: str | None) -> dict[str, str]:
    quiet = {"RAY_USAGE_STATS_ENABLED": "0"}  # nothing is told to anybody
    if address is None:
        return {
            **quiet,
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # Ray's name for: loopback alone
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_gcs_rpc_server_reconnect_timeout_s": str(GONE),
        }
    token = Path("~/.ray/auth_token").expanduser()
    known = {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys() or token.is_file()
    return quiet | ({"RAY_AUTH_MODE": os.environ.get("RAY_AUTH_MODE", "token")} if known else {})
