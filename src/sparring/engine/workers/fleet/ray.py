"""Workers as Ray actors, on this machine or on all machines of a cluster.

Ray restarts nothing by itself; the scheduler restarts workers and counts them. Messages are bytes.
If a run starts Ray itself, this Ray listens only on loopback, has a random token, and ends with the
run. A separate process talks to Ray (``ray_driver.py``).
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
from sparring.core.process import gpu_variables
from sparring.core.trust import RAY
from sparring.engine.workers.fleet.base import WorkerMessage
from sparring.engine.workers.fleet.processes import PythonProcess
from sparring.engine.workers.gpu_placement import worker_settings
from sparring.engine.workers.worker import error_message

DRIVER = "sparring.engine.workers.fleet.ray_driver"
START_TIMEOUT = 180.0  # seconds for Ray to start
CONNECT_TIMEOUT = 10.0  # seconds to reach the head of a cluster
CLOSE_TIMEOUT = 20.0  # seconds for Ray to end
HEAD_TIMEOUT = 20  # seconds without a message after which the head of a run's own Ray has ended
FOLDER_PREFIX = "sparring-ray-"  # prefix of folders with the files of Ray
KEEP_FILE = "kept"  # a folder with this file is not removed, because an error message names it
LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")


def check_address(address: str) -> None:
    """Check that the user trusts a cluster: its machines can run any code in this process.

    Raises:
        ConfigError: the cluster is on another machine, and the user has not named it.
    """
    host = address.rpartition("//")[2].rpartition(":")[0] or address
    if address == "auto" or host in LOCAL_HOSTS:
        return
    if address not in os.environ.get(RAY, "").split(","):
        raise ConfigError(
            f"scale.address={address}: this cluster could run any code here, and only the "
            f"configuration names it. If you trust it, write scale.address={address} on the "
            f"command line, or write {RAY}={address} before the command."
        )


def _check_reachable(address: str) -> None:
    """Check that a program listens at an address; Ray itself would try to connect for minutes."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    if not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT).close()
    except (OSError, OverflowError) as error:
        raise RunError(
            f"Nothing listens at {address}: {error}. `ray start --head` prints the address of a "
            "cluster; write it as scale.address."
        ) from error


def check_installed() -> None:
    """Check that Ray is installed.

    Raises:
        ConfigError: Ray is not installed.
    """
    if importlib.util.find_spec("ray") is None:
        raise ConfigError(
            "scale.fleet=ray needs Ray, which is not installed: pip install 'sparring[scale]', or "
            "`make scale` in a checkout."
        )


class RayFleet:
    """Workers as Ray actors.

    Args:
        config: the run's configuration, as values of JSON; ``scale`` gives the number of workers,
            where they run, and how weights travel.

    Raises:
        ConfigError: Ray is not installed, or the address is not trusted.
        RunError: Ray cannot be started or reached.
    """

    has_processes, elastic = True, True

    def __init__(self, config: Mapping[str, Any]) -> None:
        scale = config["scale"]
        address, num_workers = scale["address"], scale["workers"]
        gpus, gpus_each = scale.get("gpus", []), scale.get("gpus_per_worker") or 0
        check_installed()
        if address is not None:
            check_address(address)
            _check_reachable(address)
        self._where = "on this machine" if address is None else f"at {address}"
        self._mailbox: Mailbox[tuple[PythonProcess, bytes | None]] = Mailbox()
        self._start_numbers: dict[int, int] = {}  # number of the start of each running worker
        self._num_starts = 0
        self._mutex = threading.Lock()  # guards ``_start_numbers`` and ``_num_starts``
        self._failed = self._closed = False
        self._lock: int | None
        self._folder, self._lock = _make_folder()
        settings = {
            "config": worker_settings(config, gpus_each),
            "weights": scale["weights"] or "ray",
            "address": address,
            "cores": num_workers if num_workers > 0 else os.cpu_count(),
            "gpus": len(gpus),
            "gpus_per_worker": gpus_each,
            "folder": str(self._folder),
            "loud": os.environ.get(DEBUG, "") not in ("", "0"),
        }
        self._child = PythonProcess(
            0,
            b"[]\n" + json.dumps(settings).encode(),
            self._mailbox,
            module=DRIVER,
            environment={
                **_environment(address),
                **(gpu_variables(gpus, "scale.gpus") if gpus else {}),
            },
        )
        capacity = self._wait_until_up()
        self.workers = num_workers if num_workers > 0 else max(capacity, 1)

    def _wait_until_up(self) -> int:
        try:
            frame = self._mailbox.get(timeout=START_TIMEOUT)[1]
        except queue.Empty:
            frame = None
        except BaseException:  # an interrupt
            self.close()
            raise
        header, payload = _parse_frame(frame)
        if header[0] == "up":
            return int(header[1])
        self._failed = header[0] == "gone"
        self.close()
        raise RunError(
            f"Ray cannot be reached {self._where}: "
            f"{payload.decode() or 'it has ended, or sent nothing'}. {self._hint()}A cluster needs "
            "its own token (RAY_AUTH_TOKEN, or the file ~/.ray/auth_token of its head). Or write "
            "another scale.address, or scale.fleet=processes."
        )

    def now(self) -> float:
        """Return the time in seconds; see ``Fleet``."""
        return time.monotonic()

    def start(self, worker: int) -> None:
        """Start a worker; see ``Fleet``."""
        with self._mutex:
            self._num_starts += 1
            self._start_numbers[worker] = self._num_starts
            self._request("start", worker, self._num_starts)

    def send(self, worker: int, message: bytes, files: Mapping[str, Path]) -> None:
        """Send a worker a message; see ``Fleet``."""
        with self._mutex:
            if worker in self._start_numbers:
                self._request("send", worker, self._start_numbers[worker], files, message)

    def tell(self, message: bytes) -> None:
        """Do nothing, because an actor receives no messages while it plays; see ``Fleet``."""

    def end(self, worker: int) -> None:
        """End a worker at once; see ``Fleet``."""
        with self._mutex:
            self._request("end", worker, self._start_numbers.pop(worker, 0))

    def _request(
        self,
        command: str,
        worker: int = 0,
        start_number: int = 0,
        files: Mapping[str, Path] | None = None,
        payload: bytes = b"",
    ) -> None:
        paths = {digest: str(path) for digest, path in (files or {}).items()}
        header = json.dumps([command, worker, start_number, paths]).encode()
        self._child.send(header + b"\n" + payload, {})

    def poll(self, seconds: float) -> list[WorkerMessage]:
        """Return the messages that have arrived; see ``Fleet``.

        Raises:
            RunError: Ray has ended.
        """
        messages: list[WorkerMessage] = []
        try:
            while True:
                frame = self._mailbox.get(timeout=0 if messages else max(seconds, 0.001))[1]
                messages.extend(self._messages_of(*_parse_frame(frame)))
        except queue.Empty:
            if not messages and self._child.has_ended():
                self._messages_of(*_parse_frame(None))
        return messages

    def _messages_of(self, header: list[Any], payload: bytes) -> list[WorkerMessage]:
        """Return the worker's message in a frame; [] if the worker was ended before."""
        if len(header) == 1:
            if self._closed:
                return []
            self._failed = True
            reason = f": {payload.decode()}" if payload else ", or its head"
            raise RunError(
                f"Ray {self._where} has ended{reason}. {self._hint()}Check that Ray runs, and "
                "resume (--resume): steps after the last checkpoint are played again, to the same "
                "bytes."
            )
        event, worker, start_number = header
        with self._mutex:
            if self._start_numbers.get(worker) != start_number:
                return []
            if event == "gone":
                self._start_numbers.pop(worker)
                self._request("end", worker, start_number)  # in case the worker still runs
                return [WorkerMessage(worker, None)]
        if event == "wrong":
            payload = error_message(
                RunError(
                    f"Ray cannot run a worker {self._where}: {payload.decode()}. Each machine "
                    "needs the same Python, sparring and plug-ins."
                )
            )
        return [WorkerMessage(worker, payload)]

    def _hint(self) -> str:
        return f"Ray's own log is in {self._folder}. " if self._folder.is_dir() else ""

    def close(self) -> None:
        """End all workers, and the Ray that was started here; see ``Fleet``."""
        self._closed = True
        self._request("close")
        deadline = time.monotonic() + CLOSE_TIMEOUT
        while not self._child.has_ended() and time.monotonic() < deadline:
            time.sleep(0.02)
        self._child.kill()
        self._child.wait_until_gone()
        if not self._failed:
            shutil.rmtree(self._folder, ignore_errors=True)
        elif self._folder.is_dir():
            (self._folder / KEEP_FILE).touch()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _parse_frame(frame: bytes | None) -> tuple[list[Any], bytes]:
    """Return a frame's header and the bytes after it; None means that the sender has ended."""
    if frame is None:
        return ["gone"], b""
    header, _, payload = frame.partition(b"\n")
    return json.loads(header), payload


def _make_folder() -> tuple[Path, int]:
    """Return a new folder for the files of Ray, and the descriptor that locks it.

    The path is short enough for sockets in the folder. Unlocked folders of killed runs are removed.
    """
    default_folder = tempfile.gettempdir()
    parent = Path(default_folder if len(default_folder) < 20 else "/tmp")
    for old_folder in parent.glob(f"{FOLDER_PREFIX}*"):
        _remove_if_abandoned(old_folder)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=parent))
        with contextlib.suppress(FileNotFoundError):  # another run removed it as abandoned
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.is_dir():
                return folder, lock
            os.close(lock)


def _remove_if_abandoned(folder: Path) -> None:
    with contextlib.suppress(OSError):
        if folder.lstat().st_uid != os.geteuid() or (folder / KEEP_FILE).exists():
            return
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


def _environment(address: str | None) -> dict[str, str]:
    no_statistics = {"RAY_USAGE_STATS_ENABLED": "0"}  # Ray sends no usage statistics
    if address is None:
        return {
            **no_statistics,
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # makes Ray listen only on loopback
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_gcs_rpc_server_reconnect_timeout_s": str(HEAD_TIMEOUT),
        }
    token_file = Path("~/.ray/auth_token").expanduser()
    has_token = {
        "RAY_AUTH_TOKEN",
        "RAY_AUTH_TOKEN_PATH",
    } & os.environ.keys() or token_file.is_file()
    mode = {"RAY_AUTH_MODE": os.environ.get("RAY_AUTH_MODE", "token")}
    return no_statistics | (mode if has_token else {})
