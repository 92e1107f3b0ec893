"""A replica: one engine of vLLM in a process of its own, which is given weights and then asked.

It has an environment of its own, since vLLM wants other versions of what Sparring uses. It is
spoken to by pipes, and weights are files of a private folder, so that nothing listens for it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sparring.core.child_process import ChildProcess, Mailbox
from sparring.core.errors import ConfigError
from sparring.core.files import cache_folder, disk_errors, file_digest
from sparring.core.process import visible_gpus
from sparring.models.samplers.in_process import strays
from sparring.models.samplers.vllm.requests import Ask
from sparring.models.samplers.vllm.weights import Key, Served, State, salt_of

PYTHON = "SPARRING_VLLM_PYTHON"  # environment variable: the Python of vLLM's environment
CHECKOUT = Path(__file__).parents[5] / ".venv-vllm" / "bin" / "python"  # where `make vllm` puts it
CHILD = Path(__file__).parent / "child" / "sparring_child.py"
ENGINE = Path(__file__).parent / "child" / "sparring_vllm.py"
LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"
GRACE = 1.0  # seconds in which one that has ended may still be heard
SAID = 600  # characters of what a replica printed last, in an error

Stage = Literal["off", "starting", "loading", "checking", "ready"]
Heard = Mailbox[tuple[ChildProcess, bytes | None]]


@dataclass(frozen=True, slots=True)
class Settings:
    """How replicas are made and watched; equal ones can share them. See ``vllm`` for most."""

    config: str  # of the network, as JSON
    dtype: str
    context: int
    replicas: int
    threads: int
    device: str
    gpus: tuple[int, ...]
    max_seqs: int
    cache_bytes: int
    prefix_cache: bool
    timeout: float
    start_timeout: float
    restarts: int


def environment(threads: int, gpu: int | None = None) -> dict[str, str]:
    """Return the variables that a replica's process is given.

    Args:
        threads: of the processor.
        gpu: the one that it sees; None: all that this process sees.
    """
    quiet = dict.fromkeys(("HF_HUB_OFFLINE", "VLLM_NO_USAGE_STATS", "DO_NOT_TRACK"), "1")
    return {
        **quiet,
        **({} if gpu is None else visible_gpus([gpu], "sampler.gpus")),
        **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads)),
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # one process, which a kill ends whole
        "VLLM_LOGGING_LEVEL": "WARNING",
        "VLLM_HOST_IP": "127.0.0.1",  # torch.distributed listens there, if anywhere
        "GLOO_SOCKET_IFNAME": LOOPBACK,
    }


def python() -> Path:
    """Return the Python that has vLLM.

    Raises:
        ConfigError: there is none.
    """
    named = os.environ.get(PYTHON)
    path = Path(named).expanduser() if named else CHECKOUT
    if not path.is_file():
        where = f"{PYTHON} names {path}" if named else f"there is no {path}"
        raise ConfigError(
            f"sampler 'vllm' needs vLLM in an environment of its own, and {where}. Run make vllm "
            f"in the checkout, or let {PYTHON} name a Python that has vLLM; sampler.name="
            "in_process needs neither."
        )
    return path


class Replica:
    """A replica, as the pool sees it.

    Args:
        number: of it.
        settings: of all.
        folder: where weights are written, and what it prints.
        heard: takes what it says.

    Attributes:
        stage: off, starting, loading weights, checking them, or ready.
        key: of the weights that it has, or will have when it is ready.
        asked: what it has been asked and not answered, by number.
        held: answers that came while it is checked, which may be of wrong weights.
    """

    def __init__(self, number: int, settings: Settings, folder: Path, heard: Heard) -> None:
        self.number, self._settings, self._folder, self._heard = number, settings, folder, heard
        self.stage: Stage = "off"
        self.key: Key | None = None
        self.served: Served | None = None
        self.asked: dict[int, Ask] = {}
        self.held: list[tuple[int, list[Any]]] = []
        self.child: ChildProcess | None = None
        self._has: dict[str, State] = {}
        self._coming: dict[str, State] = {}
        self._expected: list[float] = []  # of the probe, by the weights that it is to load
        self._since = time.monotonic()
        self._gone: float | None = None  # when its process was first seen to have ended

    @property
    def log(self) -> Path:
        """The file of what it prints."""
        return self._folder / f"replica-{self.number}.log"

    @property
    def _weights(self) -> Path:
        return self._folder / f"replica-{self.number}.safetensors"

    @property
    def pid(self) -> int | None:
        """Its process, if it is there."""
        return None if self.child is None else self.child.process.pid

    def start(self) -> None:
        """Start its process; it has no weights.

        Raises:
            ConfigError: vLLM's environment is not there.
            RunError: the process cannot be started.
        """
        program, threads = python(), self._settings.threads
        first = {
            "model": str(self._folder),
            "folder": str(self._folder),
            "dtype": self._settings.dtype,
            "context": self._settings.context,
            "device": self._settings.device,
            "max_seqs": self._settings.max_seqs,
            "cache_bytes": self._settings.cache_bytes,
            "prefix_cache": self._settings.prefix_cache,
        }
        gpus = self._settings.gpus
        gpu = gpus[self.number % len(gpus)] if gpus else None
        own = {**environment(threads, gpu), "TMPDIR": str(self._folder)}
        for name in ("VLLM_CACHE_ROOT", "VLLM_CONFIG_ROOT"):
            own[name] = str(cache_folder() / "vllm")  # what it looked up of kinds of models
        with disk_errors(self.log), self.log.open("ab") as output:
            self.child = ChildProcess(
                self.number,
                json.dumps(first).encode(),
                self._heard,
                command=lambda hear, say: [
                    *(str(program), "-I", str(CHILD), str(ENGINE)),
                    *(str(hear), str(say)),
                ],
                environment=own,
                output=output.fileno(),
            )
        self._now("starting")

    def is_ready(self) -> None:
        """Note that it can be given weights."""
        self._now("ready")

    def load(self, served: Served) -> None:
        """Give it the weights of now of a model; what it draws goes on with them.

        Raises:
            RunError: the disk is full or not writable.
            DivergedError: what the learner says of the probe are no numbers.
        """
        self.served, self.key = served, served.key
        with disk_errors(self._weights):
            self._coming = served.write(self._weights, self._has)
            digest = file_digest(self._weights)
        self._has = {}  # unless it says that it has loaded them, nobody knows what it has
        salt = salt_of(self.key)
        self.tell({"weights": {"path": str(self._weights), "digest": digest, "salt": salt}})
        self._now("loading")
        self._expected = served.expected()  # now, as the model may have others when it is checked

    @property
    def outdated(self) -> bool:
        """Whether all that it draws goes on with newer weights, and there are some."""
        return (
            self.stage == "ready"
            and self.served is not None
            and self.served.key != self.key
            and bool(self.asked)
            and all(ask.renews for ask in self.asked.values())
        )

    def check(self, ask: Ask) -> None:
        """Ask it for the log-probabilities of the probe, now that it has weights."""
        self._has, self._coming = self._coming, {}
        self._weights.unlink(missing_ok=True)
        self.send([ask])
        self._now("checking")

    def judge(self, logprobs: Sequence[float]) -> str | None:
        """Let it serve if it gives the learner's log-probabilities; else say how they differ."""
        wrong = strays(logprobs, self._expected, self._settings.dtype)
        if wrong is None:
            self._now("ready")
        return wrong

    def send(self, asks: Sequence[Ask]) -> None:
        """Send it requests of one kind and way."""
        if not self.asked:
            self._since = time.monotonic()
        self.asked |= {ask.number: ask for ask in asks}
        bodies = [[ask.number, *ask.body] for ask in asks]
        self.tell({asks[0].kind: bodies, "way": dict(asks[0].way)})

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send it a message."""
        assert self.child is not None, "it was started"
        self.child.send(json.dumps(message).encode(), {})

    def alive(self) -> None:
        """Take note that it has said something."""
        self._since = time.monotonic()

    def overdue(self) -> str | None:
        """Return what it has not done for too long, in words; None where nothing is."""
        now = time.monotonic()
        waits = now - self._since
        if self.child is not None and self.child.has_ended():  # and a process of its has its pipe
            self._gone = self._gone or now
            if now - self._gone > GRACE:
                return "has ended"
        if self.stage == "starting" and waits > self._settings.start_timeout:
            return f"was not ready after {waits:.0f} s (sampler.start_timeout)"
        busy = self.stage in ("loading", "checking") or self.asked
        if self.stage != "starting" and busy and waits > self._settings.timeout:
            return f"has said nothing for {waits:.0f} s while {self.stage} (sampler.timeout)"
        return None

    def end(self) -> list[Ask]:
        """End its process; return what it had been asked."""
        if self.child is not None:
            self.child.kill()
            self.child.wait_until_gone()
        left, self._gone = list(self.asked.values()), None
        self.child, self.key, self.served = None, None, None
        self.asked, self.held, self._has = {}, [], {}
        self._weights.unlink(missing_ok=True)
        self._now("off")
        return left

    def last_words(self) -> str:
        """Return the end of what it printed."""
        with contextlib.suppress(OSError):
            text = self.log.read_text(errors="replace").strip()
            lines = " | ".join(line.strip() for line in text.splitlines()[-8:])
            if lines:
                return f" It printed last: {lines[-SAID:]}"
        return ""

    def _now(self, stage: Stage) -> None:
        self.stage, self._since = stage, time.monotonic()
