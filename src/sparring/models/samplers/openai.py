"""Samples replies at an OpenAI-compatible server that the user has started, by token ids.

The server has the frozen weights. After each update it loads a policy's adapters under a new name:
for a name that is used again, its caches would keep the old weights. The server is checked with
one conversation before it draws replies. Several samplers may share a server and its connection.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import shutil
import tempfile
import threading
import weakref
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Protocol, cast

from pydantic import Field

from sparring.core.endpoint_connection import Connection, MalformedError, StatusError
from sparring.core.errors import ModelError, RolloutError, RunError
from sparring.core.files import disk_errors
from sparring.core.records import FloatArray, SampleRequest, SampleResult, SamplingParams
from sparring.models.language_model import LanguageModel
from sparring.models.samplers.base import Ids, SampleBatch
from sparring.models.samplers.in_process import (
    ModelSampler,
    dtype_of,
    in_process,
    probe_of,
    tolerance_of,
    vocabulary_of,
)

FOLDER_VARIABLE = "SPARRING_ADAPTERS"  # environment variable: a folder that the server can read
ALREADY_LOADED = "already been loaded"  # part of a server's answer to a name that it knows
NOT_FOUND = 404  # status of a server's answer to an unknown name
UNLOAD_SECONDS = 10.0  # timeout of a request to unload adapters

Key = tuple[int, int]  # number of updates of the weights, number of other changes


@contextlib.contextmanager
def as_run_errors() -> Iterator[None]:
    """Raise RunError in place of the server's RolloutError, so that the episode is not repeated.

    Raises:
        RunError: the block raised a RolloutError.
    """
    try:
        yield
    except RolloutError as error:
        raise RunError(str(error)) from None


class AdapterFolder:
    """The folder of adapters, and the names of the adapters that a server has loaded.

    Args:
        connection: connection to the server.

    Raises:
        RunError: the folder in SPARRING_ADAPTERS does not exist.
    """

    def __init__(self, connection: Connection) -> None:
        folder = os.environ.get(FOLDER_VARIABLE)
        if folder and not Path(folder).is_dir():
            raise RunError(
                f"{FOLDER_VARIABLE} names {folder}, which is not a folder; create or unset it."
            )
        self._connection = connection
        self.folder = Path(tempfile.mkdtemp(prefix="sparring-adapters-", dir=folder or None))
        self.folder.chmod(0o755)  # the server may run as another user
        self._count, self._lock = itertools.count(1), threading.RLock()
        self._loaded: set[str] = set()
        self._unneeded: set[str] = set()  # loaded adapters that are no longer needed
        weakref.finalize(self, _remove_adapters, connection, self._loaded, self.folder)

    def add(self, model: LanguageModel) -> str:
        """Let the server load a model's current adapters; return their name.

        Raises:
            RunError: the server does not load them, or the folder cannot be written.
        """
        name = f"{self.folder.name}-{next(self._count)}"
        with disk_errors(self.folder):
            # embeddings are not trained; with them, peft would ask a hub for their size
            model.network.save_pretrained(self.folder / name, save_embedding_layers=False)
        self.load(name)
        return name

    def load(self, name: str) -> None:
        """Let the server load adapters from the folder, for example after its restart.

        Raises:
            RunError: the server does not load them.
        """
        request = {"lora_name": name, "lora_path": str(self.folder / name)}
        with self._lock, as_run_errors():
            try:
                self._connection.send("/load_lora_adapter", request, str, "a word")
            except StatusError as error:
                # the answer to an earlier try may have been lost
                if ALREADY_LOADED not in str(error):
                    raise
            self._loaded.add(name)

    def has(self, name: str) -> bool:
        """Return whether the server has loaded adapters of this name and still needs them."""
        return name in self._loaded - self._unneeded

    def drop(self, names: Collection[str]) -> None:
        """Mark adapters as no longer needed."""
        self._unneeded.update(names)

    def unload(self, needed: Collection[str]) -> None:
        """Let the server unload dropped adapters, except those in ``needed``."""
        with self._lock:
            for name in [adapter for adapter in self._unneeded if adapter not in needed]:
                _unload(self._connection, name)
                shutil.rmtree(self.folder / name, ignore_errors=True)
                self._unneeded.discard(name)
                self._loaded.discard(name)


def _unload(connection: Connection, name: str) -> None:
    # RuntimeError: at the end of the process no host's address can be looked up
    with contextlib.suppress(RolloutError, RuntimeError):
        connection.send(
            "/unload_lora_adapter",
            {"lora_name": name},
            str,
            "a word",
            single_try=min(UNLOAD_SECONDS, connection.timeout),
        )


def _remove_adapters(connection: Connection, loaded: set[str], folder: Path) -> None:
    for name in sorted(loaded):
        _unload(connection, name)
    shutil.rmtree(folder, ignore_errors=True)


class ServedAdapters:
    """The adapters of one model at a server.

    Args:
        folder: the folder of adapters.

    Attributes:
        changes: number of changes of the weights that are not updates.
        checked_temperatures: temperatures at which the server was checked with the current weights.
    """

    def __init__(self, folder: AdapterFolder) -> None:
        self._folder, self.changes = folder, 0
        self.checked_temperatures: set[float] = set()
        self._loaded_names: list[str] = []  # the name of the loaded adapters, if any
        self._key: Key | None = None
        weakref.finalize(self, folder.drop, self._loaded_names)

    def name(self, model: LanguageModel) -> str:
        """Return the server's name of the current weights, after loading them if needed.

        Raises:
            RunError: as for ``AdapterFolder.add``.
        """
        key = model.version, self.changes
        if key != self._key:
            name = self._folder.add(model)
            self._folder.drop(self._loaded_names)
            self._loaded_names[:], self._key = [name], key
            self.checked_temperatures.clear()
        return self._loaded_names[0]


MAX_SEED = 2**63 - 1
SERVER_ADVICE = (
    "The sampler openai needs a server that reads and returns token ids with log-probabilities "
    "(return_token_ids, logprobs), such as vLLM's; or write sampler.name=vllm."
)


class CompletionRequest(NamedTuple):
    """A request for one reply; ids are below ``vocabulary``, the number of tokens."""

    name: str
    ids: Ids
    seed: int
    params: SamplingParams
    stop_ids: Ids
    vocabulary: int

    def fields(self) -> dict[str, Any]:
        """Return the fields of the request; only the temperature changes probabilities."""
        return {
            "model": self.name,
            "prompt": list(self.ids),
            "max_tokens": self.params.max_new_tokens,
            "temperature": self.params.temperature,
            "seed": self.seed & MAX_SEED,
            "logprobs": 1,
            "stop_token_ids": list(self.stop_ids),
            "ignore_eos": True,  # else the server's end-of-text token ends a reply too
            "return_token_ids": True,
            "skip_special_tokens": False,
            "top_p": 1.0,
            "top_k": -1,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
        }

    def read(self, body: str) -> SampleResult:
        """Return the reply in a body.

        Raises:
            MalformedError: the body has no reply.
            RunError: the reply lacks token ids or log-probabilities, or is invalid.
        """
        ids, logprobs, prompt = _parse_choice(body)
        if not ids or not logprobs:
            missing_part = "log-probabilities" if ids else "token ids"
            raise RunError(
                f"The server gives no {missing_part} with a reply of {self.name!r}. {SERVER_ADVICE}"
            )
        if prompt not in (None, list(self.ids)):
            raise RunError(
                f"The server read a prompt of {len(self.ids)} token ids as {len(prompt)} other "
                "ids. It must neither add nor drop tokens."
            )
        if len(ids) != len(logprobs) or not all(
            (type(entry) is int and 0 <= entry < self.vocabulary) for entry in ids
        ):
            raise RunError(
                f"The server returned {len(ids)} tokens and {len(logprobs)} log-probabilities for "
                "a reply. Each token must be an id from 0 to "
                f"{self.vocabulary - 1} and have a log-probability; the server may have another "
                "model."
            )
        for value in logprobs:
            if not _is_finite(value):
                raise RunError(
                    f"The server returned the log-probability {json.dumps(value)[:40]} in a reply "
                    f"of {self.name!r}. It must be a finite number; look at the server's log and "
                    "at the weights it has loaded."
                )
        return SampleResult(tuple(ids), tuple(map(float, logprobs)), not self._has_stopped(ids))

    def _has_stopped(self, ids: list[int]) -> bool:
        """Return whether a reply ended with a stop id and not at the limit."""
        token_limit = self.params.max_new_tokens
        stop_length = next((n for n, id_ in enumerate(ids, 1) if id_ in self.stop_ids), None)
        if len(ids) != (stop_length or token_limit) or len(ids) > token_limit:
            raise RunError(
                f"The server ended a reply after {len(ids)} tokens with id {ids[-1]}, neither with "
                f"the first stop id nor after {token_limit} tokens. It must obey max_tokens, "
                "stop_token_ids and ignore_eos."
            )
        return stop_length is not None


def _is_finite(value: Any) -> bool:
    try:
        return type(value) in (int, float) and math.isfinite(value)
    except OverflowError:  # an integer of hundreds of digits
        return False


def _parse_choice(body: str) -> tuple[list[Any], list[Any], Any]:
    try:
        choice = json.loads(body)["choices"][0]
        ids, logprobs = choice.get("token_ids"), choice.get("logprobs")
        lists = ids or [], (logprobs or {}).get("token_logprobs") or []
        prompt = choice.get("prompt_token_ids")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        raise MalformedError(body.strip() or "an empty body") from None
    if not all(isinstance(values, list) for values in (*lists, prompt or [])):
        raise MalformedError(body.strip())
    return *lists, prompt


POLL_SECONDS = 0.05  # longest wait for a reply before other work
ADVICE = {
    400: (
        "Its limit of tokens (vLLM: --max-model-len) must be at least model.context, and it must "
        "know vLLM's options of a completion."
    ),
    404: (
        "Check base_url and served. To load adapters vLLM needs --enable-lora, and "
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING=True in its environment."
    ),
    429: "Write a smaller sampler.concurrency or more sampler.retries.",
}


class ServerSampler(Protocol):
    """A sampler that draws its replies at a server."""

    model: LanguageModel

    def served_name(self, batch: SampleBatch) -> str:
        """Return the server's name of the sampler's current weights."""
        ...


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Settings of a server; samplers with equal settings share it. See ``openai``."""

    base_url: str
    served: str
    key_variable: str
    concurrency: int
    timeout: float
    retries: int


class Server:
    """A connection to a server; see ``samplers.base.Backend``.

    Args:
        settings: settings of the server.

    Raises:
        ConfigError: as for ``openai``.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self._connection = Connection(
            base_url=settings.base_url,
            key_variable=settings.key_variable,
            timeout=settings.timeout,
            retries=settings.retries,
            advice=ADVICE,
        )
        self._adapter_folder: AdapterFolder | None = None  # None until a policy has adapters
        self.lock = threading.RLock()
        self._threads = ThreadPoolExecutor(settings.concurrency, thread_name_prefix="openai")
        self._checked_temperatures: weakref.WeakKeyDictionary[LanguageModel, set[float]] = (
            weakref.WeakKeyDictionary()
        )
        self._num_calls: Counter[str] = Counter()  # number of open calls by name of weights
        self._adapters: weakref.WeakKeyDictionary[LanguageModel, ServedAdapters] = (
            weakref.WeakKeyDictionary()
        )

    def adapters_of(self, model: LanguageModel) -> ServedAdapters:
        """Return the adapters of a model at the server.

        Raises:
            RunError: the folder in SPARRING_ADAPTERS does not exist.
        """
        with self.lock:
            if self._adapter_folder is None:
                self._adapter_folder = AdapterFolder(self._connection)
            if model not in self._adapters:
                self._adapters[model] = ServedAdapters(self._adapter_folder)
            return self._adapters[model]

    def checked_temperatures(self, model: LanguageModel) -> set[float]:
        """Return the temperatures at which a model without adapters was checked."""
        return self._checked_temperatures.setdefault(model, set())

    def submit(
        self, batches: Sequence[SampleBatch]
    ) -> Iterator[Sequence[tuple[int, SampleResult]]]:
        """Yield lists of (index of a request, its reply), as they are finished; see ``Backend``."""
        requests: list[CompletionRequest] = []
        with self.lock:
            names = [cast(ServerSampler, batch.sampler).served_name(batch) for batch in batches]
            self._num_calls.update(names)
        for name, batch in zip(names, batches, strict=True):
            vocabulary = vocabulary_of(cast(ServerSampler, batch.sampler).model)
            for ids, stream, _ in batch.requests:
                requests.append(
                    CompletionRequest(name, ids, stream, batch.params, batch.stop_ids, vocabulary)
                )
        replies = self._wait_for(requests, names)
        next(replies)  # starts all requests; from here on a close cancels them
        return replies

    def _wait_for(
        self, requests: Sequence[CompletionRequest], names: Sequence[str]
    ) -> Iterator[Sequence[tuple[int, SampleResult]]]:
        """Yield () when all requests have begun, and then lists of replies."""
        index_of = {
            self._threads.submit(self.reply, request): index
            for index, request in enumerate(requests)
        }
        try:
            yield ()
            pending = set(index_of)
            while pending:
                finished, pending = wait(pending, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
                yield [(index_of[future], future.result()) for future in finished]
        finally:
            for future in index_of:
                future.cancel()
            with self.lock:
                self._num_calls.subtract(names)
                self._num_calls = +self._num_calls  # without names of no call
                if self._adapter_folder is not None:
                    self._adapter_folder.unload(self._num_calls)

    def reply(self, request: CompletionRequest) -> SampleResult:
        """Return the reply to a request; after a server's restart, load its adapters again once.

        Raises:
            RunError: there is no usable reply.
            DivergedError: a log-probability is NaN.
        """
        arguments = "/completions", request.fields(), request.read, "a completion"
        with as_run_errors():
            try:
                return self._connection.send(*arguments)
            except StatusError as error:
                folder = self._adapter_folder
                if error.status != NOT_FOUND or folder is None or not folder.has(request.name):
                    raise
            folder.load(request.name)
            return self._connection.send(*arguments)


_servers: weakref.WeakValueDictionary[ServerSettings, Server] = weakref.WeakValueDictionary()


def server_of(settings: ServerSettings) -> Server:
    """Return the server of these settings, shared by all samplers of this process."""
    server = _servers.get(settings)
    if server is None:
        server = _servers[settings] = Server(settings)
    return server


PROBE_REPLY_TOKENS = 8  # length in tokens of the reply by which a server is checked
CACHE_BYTES = 64 << 20  # size of the KV cache for scoring in this process

Times = Annotated[int, Field(ge=0, le=1000)]
Count = Annotated[int, Field(ge=1, le=100_000)]
Seconds = Annotated[float, Field(gt=0, le=1e6)]
Distance = Annotated[float, Field(gt=0, le=100)]


class OpenAISampler(ModelSampler):
    """Samples replies of a language model at a server; see ``base.Sampler``.

    Args:
        model: the model, with adapters or without.
        server: the server.
        tolerance: largest difference between log-probabilities of the server and this process.
    """

    decoding = "openai"  # name of the program that computes replies, for provenance.json
    invariant = False

    def __init__(self, model: LanguageModel, server: Server, tolerance: float) -> None:
        super().__init__(model)
        self.backend, self.tolerance = server, tolerance
        self._local = in_process(model, cache_bytes=CACHE_BYTES)

    @property
    def _adapters(self) -> ServedAdapters | None:
        """The model's adapters at the server; None if it has none."""
        return self.backend.adapters_of(self.model) if has_adapters(self.model) else None

    def submit(
        self, requests: Sequence[SampleRequest], params: SamplingParams, stop_ids: Ids
    ) -> Iterator[Sequence[tuple[int, SampleResult]]]:
        """Yield lists of (index of a request, its reply), as they are finished.

        Raises:
            ModelError: a context and its reply do not fit, or an option is not supported.
            RunError: the server does not answer, or has different weights.
            DivergedError: the model gives no probabilities.
        """
        if not requests:
            return iter(())
        return self.backend.submit([SampleBatch(self, requests, params, stop_ids)])

    def served_name(self, batch: SampleBatch) -> str:
        """Return the server's name of the current weights, after the check with one conversation.

        Raises:
            ModelError, RunError, DivergedError: as for ``submit``.
        """
        options = ("top_p", batch.params.top_p, 1.0), ("top_k", batch.params.top_k, 0)
        for option, value, default in options:
            if value != default:
                raise ModelError(
                    f"sampler 'openai' and rollout.{option}={value}: the learner must know which "
                    f"tokens truncation kept, but a server does not return them. Write "
                    f"rollout.{option}: {default}, or sampler.name=vllm or in_process."
                )
        longest = max((len(request.ids) for request in batch.requests), default=0)
        self.check_length(longest + batch.params.max_new_tokens)
        adapters, temperature = self._adapters, batch.params.temperature
        served = self.backend.settings.served
        name = served if adapters is None else adapters.name(self.model)
        checked_temperatures = (
            self.backend.checked_temperatures(self.model)
            if adapters is None
            else adapters.checked_temperatures
        )
        if temperature not in checked_temperatures:
            self._check(
                name, SamplingParams(max_new_tokens=PROBE_REPLY_TOKENS, temperature=temperature)
            )
            checked_temperatures.add(temperature)
        return name

    def _check(self, name: str, params: SamplingParams) -> None:
        prompt = tuple(probe_of(self.model, room=PROBE_REPLY_TOKENS))
        reply = self.backend.reply(
            CompletionRequest(name, prompt, 0, params, (), vocabulary_of(self.model))
        )
        prompts = [(*prompt, *reply.ids[:t]) for t in range(len(reply.ids))]
        expected = self.score(prompts, [[(token,)] for token in reply.ids], params)
        pairs = zip(reply.logprobs, expected, strict=True)
        differences = [abs(logprob - scores[0]) for logprob, scores in pairs]
        if not all(difference <= self.tolerance for difference in differences):
            raise RunError(
                f"{self.backend.settings.base_url} gives log-probabilities of {name!r} that "
                f"differ from this model's by up to {max(differences):.2g}; {self.tolerance:g} is "
                "allowed. The server must have the same weights, no quantisation, no penalties, "
                "and give log-probabilities of the distribution that it draws from (vLLM: "
                "--logprobs-mode processed_logprobs). If it is less exact, write sampler.tolerance."
            )

    def score(
        self, prompts: Sequence[Ids], replies: Sequence[Sequence[Ids]], params: SamplingParams
    ) -> list[FloatArray]:
        """Return the log-probability of whole replies, computed in this process."""
        return self._local.score(prompts, replies, params)

    def refresh(self) -> None:
        """Load the weights into the server again before the next reply."""
        if (adapters := self._adapters) is not None:
            adapters.changes += 1
        self._local.refresh()


def has_adapters(model: LanguageModel) -> bool:
    """Return whether a model has adapters."""
    return hasattr(model.network, "get_base_model")


def openai(
    model: LanguageModel,
    *,
    base_url: str = "http://127.0.0.1:8000/v1",
    served: str = "",
    key_variable: str = "OPENAI_API_KEY",
    concurrency: Count = 64,
    timeout: Seconds = 600.0,
    retries: Times = 5,
    tolerance: Distance | None = None,
) -> OpenAISampler:
    """Draw replies at an OpenAI-compatible server that you have started, such as vLLM's.

    What: prompts are sent as token ids to ``/completions``, which must return token ids with
    log-probabilities (``return_token_ids``). A server without them is refused. After each update a
    policy's low-rank adapters are written to a folder, and the server loads them under a new name
    (``/load_lora_adapter``); it unloads the old adapters when no request needs them. Before the
    server is used, one of its replies is compared with the model in this process.
    When to use: the model is served on another machine, or by a server that others use too. On this
    machine the sampler vllm needs no server and can train all weights.
    Pitfalls: trained weights must be adapters (``model.lora``). The server must see the adapters'
    folder at the same path: a private temporary folder, or the folder in the environment variable
    SPARRING_ADAPTERS. Replies are as deterministic as the server; with vLLM on a CPU in float32
    their seeds determine them. vLLM on a CPU computes wrong log-probabilities for a policy without
    adapters if another policy has adapters: use a separate server for each. A killed process leaves
    its last adapters loaded. Each worker (``scale.workers``) loads adapters of its own.
    Reference: vLLM, "OpenAI-compatible server" and "Dynamically serving LoRA adapters".
    Verified by: tests/models/samplers/test_openai.py, and tests/models/samplers/test_openai_real.py
    with vLLM's server.

    Args:
        model: the language model that replies are drawn from.
        base_url: http(s) address of the API, without "/completions" at the end. An address on
            another machine must be typed on the command line, or be in SPARRING_ENDPOINT_HOSTS.
        served: the server's name of the model; used only if the policy has no adapters.
        key_variable: name of the environment variable that holds the server's key; not needed for
            a loopback address.
        concurrency: the largest number of open requests.
        timeout: seconds that one try of a request may take in total.
        retries: tries after the first one, with exponential back-off (time-outs, lost connections,
            status 408, 409, 429, 5xx).
        tolerance: largest difference between log-probabilities of the server and this process; null
            (default): 1e-4 in float32, and 0.25 for less precise weights.

    Raises:
        ConfigError: the package openai is missing, the address is invalid or not confirmed by you,
            or there is no usable key.
        ModelError: weights other than adapters are trained, or ``served`` is missing.
    """
    if not has_adapters(model) and any(
        parameter.requires_grad for parameter in model.network.parameters()
    ):
        raise ModelError(
            "sampler 'openai' can send new weights only as adapters, but this model trains all "
            "weights. Write model.lora (such as model.lora.rank=16), or sampler.name=vllm."
        )
    if not has_adapters(model) and not served:
        raise ModelError(
            "sampler 'openai' needs the server's name of a model without adapters; write "
            "sampler.served."
        )
    settings = ServerSettings(base_url, served, key_variable, concurrency, timeout, retries)
    tolerance = tolerance_of(dtype_of(model)) if tolerance is None else tolerance
    return OpenAISampler(model, server_of(settings), tolerance)
