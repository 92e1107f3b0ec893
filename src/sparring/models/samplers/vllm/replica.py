"""A replica: one engine of vLLM in a separate process, which loads weights and draws replies.

The process has a separate Python environment, because vLLM needs other versions of Sparring's
dependencies. Messages go through pipes and weights through files of a private folder, so that no
port is open.
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
from sparring.core.process import gpu_variables
from sparring.models.samplers.in_process import describe_difference
from sparring.models.samplers.vllm.requests import ReplicaRequest
from sparring.models.samplers.vllm.served_weights import Key, ServedWeights, State, weights_id

PYTHON = "SPARRING_VLLM_PYTHON"  # environment variable: the Python of vLLM's environment
DEFAULT_PYTHON = Path(__file__).parents[5] / ".venv-vllm/bin/python"  # made by `make vllm`
CHILD = Path(__file__).parent / "child" / "sparring_child.py"
ENGINE = Path(__file__).parent / "child" / "sparring_vllm.py"
LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"
LAST_MESSAGE_SECONDS = 1.0  # wait for messages that a process sent before its end
MAX_OUTPUT_CHARS = 600  # length of a replica's last output in an error

Stage = Literal["off", "starting", "loading", "checking", "ready"]
ReplicaMailbox = Mailbox[tuple[ChildProcess, bytes | None]]


@dataclass(frozen=True, slots=True)
class ReplicaSettings:
    """Settings of replicas; samplers with equal settings share them. See ``vllm``."""

    config: str  # configuration of the network, as JSON
    dtype: str  # type of the weights
    context: int  # largest length of a conversation in tokens
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
    """Return the environment variables of a replica's process.

    Args:
        threads: number of processor threads.
        gpu: the only visible GPU; None: all GPUs that this process sees.
    """
    offline = dict.fromkeys(("HF_HUB_OFFLINE", "VLLM_NO_USAGE_STATS", "DO_NOT_TRACK"), "1")
    return {
        **offline,
        **({} if gpu is None else gpu_variables([gpu], "sampler.gpus")),
        **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads)),
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # a single process, which one kill ends
        "VLLM_LOGGING_LEVEL": "WARNING",
        "VLLM_HOST_IP": "127.0.0.1",  # if torch.distributed listens, it listens here only
        "GLOO_SOCKET_IFNAME": LOOPBACK,
    }


def python() -> Path:
    """Return the Python of vLLM's environment.

    Raises:
        ConfigError: the environment is missing.
    """
    interpreter = os.environ.get(PYTHON)
    path = Path(interpreter).expanduser() if interpreter else DEFAULT_PYTHON
    if not path.is_file():
        where = f"{PYTHON} names {path}" if interpreter else f"there is no {path}"
        raise ConfigError(
            f"sampler 'vllm' needs vLLM in a separate environment, but {where}. Run make vllm in "
            f"the checkout, or set {PYTHON} to a Python that has vLLM; sampler.name=in_process "
            "needs neither."
        )
    return path


class Replica:
    """A replica's process as its pool sees it.

    Args:
        number: number of the replica.
        settings: settings of all replicas.
        folder: the folder of weights and outputs.
        mailbox: receives the messages of its process.

    Attributes:
        stage: off, starting, loading weights, checking them, or ready.
        key: key of the weights that the process has or is loading.
        pending: requests without an answer, by number.
        early_answers: (number, answer) of answers that arrived during the check, perhaps with wrong
            weights.
    """

    def __init__(
        self, number: int, settings: ReplicaSettings, folder: Path, mailbox: ReplicaMailbox
    ) -> None:
        self.number, self._settings, self._folder, self._mailbox = number, settings, folder, mailbox
        self.stage: Stage = "off"
        self.key: Key | None = None
        self.served: ServedWeights | None = None
        self.pending: dict[int, ReplicaRequest] = {}
        self.early_answers: list[tuple[int, list[Any]]] = []
        self.child: ChildProcess | None = None
        self._loaded_states: dict[str, State] = {}
        self._loading_states: dict[str, State] = {}
        self._expected_logprobs: list[float] = []  # of the probe, with the weights to load
        self._waiting_since = time.monotonic()
        self._ended_at: float | None = None  # time when the process was first seen to have ended

    @property
    def log(self) -> Path:
        """The file with the output of its process."""
        return self._folder / f"replica-{self.number}.log"

    @property
    def _weights(self) -> Path:
        return self._folder / f"replica-{self.number}.safetensors"

    @property
    def pid(self) -> int | None:
        """Id of its process, if any."""
        return None if self.child is None else self.child.process.pid

    def start(self) -> None:
        """Start its process, without weights.

        Raises:
            ConfigError: vLLM's environment is missing.
            RunError: the process cannot be started.
        """
        program, threads = python(), self._settings.threads
        engine_settings = {
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
        variables = {**environment(threads, gpu), "TMPDIR": str(self._folder)}
        for name in ("VLLM_CACHE_ROOT", "VLLM_CONFIG_ROOT"):
            variables[name] = str(cache_folder() / "vllm")  # vLLM's files about kinds of models
        with disk_errors(self.log), self.log.open("ab") as output:
            self.child = ChildProcess(
                self.number,
                json.dumps(engine_settings).encode(),
                self._mailbox,
                command=lambda read_fd, write_fd: [
                    *(str(program), "-I", str(CHILD), str(ENGINE)),
                    *(str(read_fd), str(write_fd)),
                ],
                environment=variables,
                output=output.fileno(),
            )
        self._set_stage("starting")

    def mark_ready(self) -> None:
        """Set its stage to ready, after which it can load weights."""
        self._set_stage("ready")

    def load(self, served: ServedWeights) -> None:
        """Load a model's present weights; replies in progress continue with them.

        Raises:
            RunError: the disk is full or not writable.
            DivergedError: the learner's log-probabilities of the probe are not finite.
        """
        self.served, self.key = served, served.key
        with disk_errors(self._weights):
            self._loading_states = served.write(self._weights, self._loaded_states)
            digest = file_digest(self._weights)
        self._loaded_states = {}  # unknown until the replica confirms the weights
        weights = {"path": str(self._weights), "digest": digest, "salt": weights_id(self.key)}
        self.tell({"weights": weights})
        self._set_stage("loading")
        self._expected_logprobs = served.expected()  # computed before the weights can change

    @property
    def is_outdated(self) -> bool:
        """Whether its model has newer weights and all pending replies may continue with them."""
        return (
            self.stage == "ready"
            and self.served is not None
            and self.served.key != self.key
            and bool(self.pending)
            and all(request.may_change_weights for request in self.pending.values())
        )

    def check(self, request: ReplicaRequest) -> None:
        """Send the probe's request, after the process has loaded its weights."""
        self._loaded_states, self._loading_states = self._loading_states, {}
        self._weights.unlink(missing_ok=True)
        self.send([request])
        self._set_stage("checking")

    def compare_probe(self, logprobs: Sequence[float]) -> str | None:
        """Set the stage to ready if log-probabilities are right; else describe the difference."""
        difference = describe_difference(logprobs, self._expected_logprobs, self._settings.dtype)
        if difference is None:
            self._set_stage("ready")
        return difference

    def send(self, requests: Sequence[ReplicaRequest]) -> None:
        """Send requests of one kind and distribution."""
        if not self.pending:
            self._waiting_since = time.monotonic()
        self.pending |= {request.number: request for request in requests}
        bodies = [[request.number, *request.body] for request in requests]
        self.tell({requests[0].kind: bodies, "options": dict(requests[0].options)})

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send a message."""
        assert self.child is not None, "it was started"
        self.child.send(json.dumps(message).encode(), {})

    def note_message(self) -> None:
        """Note that a message has arrived."""
        self._waiting_since = time.monotonic()

    def timeout_reason(self) -> str | None:
        """Return which timeout has passed, as the end of a sentence; None: no timeout."""
        now = time.monotonic()
        seconds = now - self._waiting_since
        # a process may end while its own child process keeps the pipe open
        if self.child is not None and self.child.has_ended():
            self._ended_at = self._ended_at or now
            if now - self._ended_at > LAST_MESSAGE_SECONDS:
                return "has ended"
        if self.stage == "starting" and seconds > self._settings.start_timeout:
            return f"was not ready after {seconds:.0f} s (sampler.start_timeout)"
        is_busy = self.stage in ("loading", "checking") or self.pending
        if self.stage != "starting" and is_busy and seconds > self._settings.timeout:
            return f"has sent nothing for {seconds:.0f} s while {self.stage} (sampler.timeout)"
        return None

    def end(self) -> list[ReplicaRequest]:
        """End its process; return its pending requests."""
        if self.child is not None:
            self.child.kill()
            self.child.wait_until_gone()
        requests, self._ended_at = list(self.pending.values()), None
        self.child, self.key, self.served = None, None, None
        self.pending, self.early_answers, self._loaded_states = {}, [], {}
        self._weights.unlink(missing_ok=True)
        self._set_stage("off")
        return requests

    def describe_output(self) -> str:
        """Return the end of its output, as a sentence for an error message; "" without output."""
        with contextlib.suppress(OSError):
            text = self.log.read_text(errors="replace").strip()
            lines = " | ".join(line.strip() for line in text.splitlines()[-8:])
            if lines:
                return f" It printed last: {lines[-MAX_OUTPUT_CHARS:]}"
        return ""

    def _set_stage(self, stage: Stage) -> None:
        self.stage, self._waiting_since = stage, time.monotonic()
