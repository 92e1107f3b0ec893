"""Token-in token-out sampling at an OpenAI-compatible server that somebody else has started.

The server has the frozen weights. It is given a policy's adapters anew after each update, by a new
name per version, as a name that was used before keeps its old weights in a server's caches. It is
tried on one conversation before it is asked for replies. Several samplers may ask one server, many
requests side by side.
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
from sparring.models.samplers.base import Ids, Lot
from sparring.models.samplers.in_process import (
    OfModel,
    dtype_of,
    in_process,
    probe_of,
    tolerance_of,
    vocabulary_of,
)

SHARED = "SPARRING_ADAPTERS"  # environment variable: a folder that the server sees too
ALREADY, UNKNOWN = "already been loaded", 404  # what a server says of a name
PARTING = 10.0  # seconds that a server has to unload adapters

Key = tuple[int, int]  # updates, and changes from outside


@contextlib.contextmanager
def ends_the_run() -> Iterator[None]:
    """Let what a server does not do end the run, as a context: a play that fails would be repeated.

    Raises:
        RunError: in place of a RolloutError.
    """
    try:
        yield
    except RolloutError as error:
        raise RunError(str(error)) from None


class Shelf:
    """The folder of adapters, and which of them a server has loaded.

    Args:
        connection: to the server.

    Raises:
        RunError: the folder that the user named is none.
    """

    def __init__(self, connection: Connection) -> None:
        named = os.environ.get(SHARED)
        if named and not Path(named).is_dir():
            raise RunError(f"{SHARED} names {named}, which is no folder; make it, or unset it.")
        self._connection = connection
        self.folder = Path(tempfile.mkdtemp(prefix="sparring-adapters-", dir=named or None))
        self.folder.chmod(0o755)  # the server may run as another user
        self._count, self._lock = itertools.count(1), threading.RLock()
        self._loaded: set[str] = set()
        self._gone: set[str] = set()  # of these: what nobody needs any more
        weakref.finalize(self, _left, connection, self._loaded, self.folder)

    def add(self, model: LanguageModel) -> str:
        """Let the server load the adapters of now; return the name it has for them.

        Raises:
            RunError: it does not, or the folder cannot be written.
        """
        name = f"{self.folder.name}-{next(self._count)}"
        with disk_errors(self.folder):
            # embeddings are not trained, and peft would ask a hub whether there are more of them
            model.network.save_pretrained(self.folder / name, save_embedding_layers=False)
        self.load(name)
        return name

    def load(self, name: str) -> None:
        """Let the server load adapters that are in the folder; again, where it knows them no more.

        Raises:
            RunError: it does not.
        """
        request = {"lora_name": name, "lora_path": str(self.folder / name)}
        with self._lock, ends_the_run():
            try:
                self._connection.send("/load_lora_adapter", request, str, "a word")
            except StatusError as error:
                if ALREADY not in str(error):  # by a try whose answer was lost
                    raise
            self._loaded.add(name)

    def has(self, name: str) -> bool:
        """Return whether adapters of this name are to be loaded."""
        return name in self._loaded - self._gone

    def drop(self, names: Collection[str]) -> None:
        """Note that nobody needs adapters any more."""
        self._gone.update(names)

    def unload(self, needed: Collection[str]) -> None:
        """Let the server unload what was dropped, but for what is needed for a while."""
        with self._lock:
            for name in [one for one in self._gone if one not in needed]:
                _unload(self._connection, name)
                shutil.rmtree(self.folder / name, ignore_errors=True)
                self._gone.discard(name)
                self._loaded.discard(name)


def _unload(connection: Connection, name: str) -> None:
    """Let the server unload adapters; one that is gone has none."""
    # RuntimeError: at the end of the process a host's address cannot be looked up any more
    with contextlib.suppress(RolloutError, RuntimeError):
        connection.send(
            "/unload_lora_adapter",
            {"lora_name": name},
            str,
            "a word",
            once=min(PARTING, connection.timeout),
        )


def _left(connection: Connection, loaded: set[str], folder: Path) -> None:
    for name in sorted(loaded):
        _unload(connection, name)
    shutil.rmtree(folder, ignore_errors=True)


class Adapters:
    """The adapters of one model at a server.

    Args:
        shelf: where they are.

    Attributes:
        changes: of the weights from outside, so far.
        tried: temperatures at which the server was tried on the weights of now.
    """

    def __init__(self, shelf: Shelf) -> None:
        self._shelf, self.changes = shelf, 0
        self.tried: set[float] = set()
        self._held: list[str] = []  # the name of those that are loaded
        self._key: Key | None = None
        weakref.finalize(self, shelf.drop, self._held)

    def name(self, model: LanguageModel) -> str:
        """Return the server's name for the weights of now, which it is given if it has others.

        Raises:
            RunError: as for ``Shelf.add``.
        """
        key = model.version, self.changes
        if key != self._key:
            new = self._shelf.add(model)
            self._shelf.drop(self._held)
            self._held[:], self._key = [new], key
            self.tried.clear()
        return self._held[0]


MOST = 2**63 - 1  # of a seed
NEEDED = (
    "The sampler openai needs a server that takes and returns token ids with log-probabilities "
    "(return_token_ids, logprobs), such as vLLM's; or write sampler.name=vllm."
)


class Ask(NamedTuple):
    """One request; its ids are below ``vocabulary``."""

    name: str
    ids: Ids
    seed: int
    params: SamplingParams
    stop_ids: Ids
    vocabulary: int

    def fields(self) -> dict[str, Any]:
        """Return what is sent: nothing but the temperature shapes the distribution."""
        return {
            "model": self.name,
            "prompt": list(self.ids),
            "max_tokens": self.params.max_new_tokens,
            "temperature": self.params.temperature,
            "seed": self.seed & MOST,
            "logprobs": 1,
            "stop_token_ids": list(self.stop_ids),
            "ignore_eos": True,  # else a server's own end of text ends a reply too
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
            MalformedError: there is none.
            RunError: it comes without token ids or log-probabilities, or cannot be one.
        """
        ids, logprobs, prompt = _choice(body)
        if not ids or not logprobs:
            missing = "log-probabilities" if ids else "token ids"
            raise RunError(f"The server gives no {missing} with a reply of {self.name!r}. {NEEDED}")
        if prompt not in (None, list(self.ids)):
            raise RunError(
                f"The server read a prompt of {len(self.ids)} token ids as {len(prompt)} others. "
                "It must neither add nor drop tokens."
            )
        if len(ids) != len(logprobs) or not all(
            (type(one) is int and 0 <= one < self.vocabulary) for one in ids
        ):
            raise RunError(
                f"The server gave {len(ids)} tokens and {len(logprobs)} log-probabilities for a "
                f"reply. Each token must have one, and be an id from 0 to {self.vocabulary - 1}; "
                "the server may have another model."
            )
        for value in logprobs:
            if not _is_finite(value):
                raise RunError(
                    f"The server gave {json.dumps(value)[:40]} as a log-probability of a reply of "
                    f"{self.name!r}. It must be a finite number; look at the server's log and at "
                    "the weights it has loaded."
                )
        return SampleResult(tuple(ids), tuple(map(float, logprobs)), not self._ended(ids))

    def _ended(self, ids: list[int]) -> bool:
        """Return whether a reply ends with a stop id, and not at the limit."""
        most = self.params.max_new_tokens
        stop = next((n for n, one in enumerate(ids, start=1) if one in self.stop_ids), None)
        if len(ids) != (stop or most) or len(ids) > most:
            raise RunError(
                f"The server ended a reply after {len(ids)} tokens with id {ids[-1]}, and not with "
                f"the first stop id or after {most} tokens. It must obey max_tokens, "
                "stop_token_ids and ignore_eos."
            )
        return stop is not None


def _is_finite(value: Any) -> bool:
    try:
        return type(value) in (int, float) and math.isfinite(value)
    except OverflowError:  # an integer of hundreds of digits
        return False


def _choice(body: str) -> tuple[list[Any], list[Any], Any]:
    """Return the token ids and log-probabilities in a body, and the prompt or None."""
    try:
        choice = json.loads(body)["choices"][0]
        ids, logprobs = choice.get("token_ids"), choice.get("logprobs")
        found = ids or [], (logprobs or {}).get("token_logprobs") or []
        prompt = choice.get("prompt_token_ids")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        raise MalformedError(body.strip() or "an empty body") from None
    if not all(isinstance(one, list) for one in (*found, prompt or [])):
        raise MalformedError(body.strip())
    return *found, prompt


REST = 0.05  # seconds that one waits for a reply before others have a turn
ADVICE = {
    400: (
        "Its limit of tokens (vLLM: --max-model-len) must be at least model.context, and it must "
        "know vLLM's options of a completion."
    ),
    404: (
        "Check base_url and served. To load adapters vLLM wants --enable-lora, and "
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING=True in its environment."
    ),
    429: "Write a smaller sampler.concurrency or more sampler.retries.",
}


class Asking(Protocol):
    """A sampler of a server."""

    model: LanguageModel

    def ready(self, lot: Lot) -> str:
        """Return the server's name for its weights of now."""
        ...


@dataclass(frozen=True, slots=True)
class Settings:
    """Which server is asked, and how; equal ones can share it. See ``openai``."""

    base_url: str
    served: str
    key_variable: str
    concurrency: int
    timeout: float
    retries: int


class Server:
    """A server, ready to be asked; see ``samplers.base.Backend``.

    Args:
        settings: of it.

    Raises:
        ConfigError: as for ``openai``.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings, self.where = settings, settings.base_url
        self._connection = Connection(
            base_url=settings.base_url,
            key_variable=settings.key_variable,
            timeout=settings.timeout,
            retries=settings.retries,
            advice=ADVICE,
        )
        self._shelf: Shelf | None = None  # of adapters, where a policy has any
        self.lock = threading.RLock()
        self._threads = ThreadPoolExecutor(settings.concurrency, thread_name_prefix="openai")
        self._tried: weakref.WeakKeyDictionary[LanguageModel, set[float]] = (
            weakref.WeakKeyDictionary()
        )
        self._users: Counter[str] = Counter()  # calls that wait for replies, by name
        self._known: weakref.WeakKeyDictionary[LanguageModel, Adapters] = (
            weakref.WeakKeyDictionary()
        )

    def adapters_of(self, model: LanguageModel) -> Adapters:
        """Return the adapters of a model, as the server is given them.

        Raises:
            RunError: the folder that the user named for them is none.
        """
        with self.lock:
            if self._shelf is None:
                self._shelf = Shelf(self._connection)
            if model not in self._known:
                self._known[model] = Adapters(self._shelf)
            return self._known[model]

    def tried(self, model: LanguageModel) -> set[float]:
        """Return the temperatures at which it was tried on a model without adapters."""
        return self._tried.setdefault(model, set())

    def submit(self, lots: Sequence[Lot]) -> Iterator[Sequence[tuple[int, SampleResult]]]:
        """Yield lists of (place of a request, its reply), as they are finished; see ``Backend``."""
        asks: list[Ask] = []
        with self.lock:
            names = [cast(Asking, lot.sampler).ready(lot) for lot in lots]
            self._users.update(names)
        for name, lot in zip(names, lots, strict=True):
            size = vocabulary_of(cast(Asking, lot.sampler).model)
            for ids, stream, _ in lot.requests:
                asks.append(Ask(name, ids, stream, lot.params, lot.stop_ids, size))
        coming = self._coming(asks, names)
        next(coming)  # all have begun when this returns, and a close from now on is noticed
        return coming

    def _coming(
        self, asks: Sequence[Ask], names: Sequence[str]
    ) -> Iterator[Sequence[tuple[int, SampleResult]]]:
        """Yield nothing once, when all have begun, and then what comes of them."""
        places = {self._threads.submit(self.reply, ask): place for place, ask in enumerate(asks)}
        try:
            yield ()
            left = set(places)
            while left:
                done, left = wait(left, timeout=REST, return_when=FIRST_COMPLETED)
                yield [(places[one], one.result()) for one in done]
        finally:
            for one in places:
                one.cancel()
            with self.lock:
                self._users.subtract(names)
                self._users = +self._users
                if self._shelf is not None:
                    self._shelf.unload(self._users)

    def reply(self, ask: Ask) -> SampleResult:
        """Return the reply to a request.

        A server that was started anew is given the adapters again, once.

        Raises:
            RunError: there is none, or none that can be used.
            DivergedError: a log-probability is no number.
        """
        request = "/completions", ask.fields(), ask.read, "a completion"
        with ends_the_run():
            try:
                return self._connection.send(*request)
            except StatusError as error:
                shelf = self._shelf
                if error.status != UNKNOWN or shelf is None or not shelf.has(ask.name):
                    raise
            shelf.load(ask.name)
            return self._connection.send(*request)


_servers: weakref.WeakValueDictionary[Settings, Server] = weakref.WeakValueDictionary()


def server_of(settings: Settings) -> Server:
    """Return the server of these settings, which all samplers of this process share."""
    found = _servers.get(settings)
    if found is None:
        found = _servers[settings] = Server(settings)
    return found


SAID = 8  # tokens of the reply that a server is tried by
KEPT = 64 << 20  # bytes of keys and values of what is scored in this process

Times = Annotated[int, Field(ge=0, le=1000)]
Count = Annotated[int, Field(ge=1, le=100_000)]
Seconds = Annotated[float, Field(gt=0, le=1e6)]
Distance = Annotated[float, Field(gt=0, le=100)]


class OpenAISampler(OfModel):
    """Samples replies of a language model by a server; see ``base.Sampler``.

    Args:
        model: gives its adapters.
        server: where it is asked.
        tolerance: how far log-probabilities may be from those of the model in this process.
    """

    decoding = "openai"  # what computes replies, for provenance.json
    invariant = False

    def __init__(self, model: LanguageModel, server: Server, tolerance: float) -> None:
        super().__init__(model)
        self.backend, self.tolerance = server, tolerance
        self._local = in_process(model, cache_bytes=KEPT)

    @property
    def _adapters(self) -> Adapters | None:
        """The model's adapters at the server; None: it has none."""
        return self.backend.adapters_of(self.model) if adapted(self.model) else None

    def submit(
        self, requests: Sequence[SampleRequest], params: SamplingParams, stop_ids: Ids
    ) -> Iterator[Sequence[tuple[int, SampleResult]]]:
        """Yield lists of (place of a request, its reply), as they are finished.

        Raises:
            ModelError: a context and its reply do not fit, or what is asked is not given here.
            RunError: the server cannot be asked, or has other weights.
            DivergedError: the model gives no probabilities.
        """
        if not requests:
            return iter(())
        return self.backend.submit([Lot(self, requests, params, stop_ids)])

    def ready(self, lot: Lot) -> str:
        """Return the name by which the server knows the weights of now, once it was tried on them.

        Raises:
            ModelError, RunError, DivergedError: as for ``submit``.
        """
        for option, given, off in (
            ("top_p", lot.params.top_p, 1.0),
            ("top_k", lot.params.top_k, 0),
        ):
            if given != off:
                raise ModelError(
                    f"sampler 'openai' and rollout.{option}={given}: the learner has to know which "
                    f"tokens truncation kept, and a server is not asked for them. Write "
                    f"rollout.{option}: {off}, or sampler.name=vllm or in_process."
                )
        longest = max((len(request.ids) for request in lot.requests), default=0)
        self.check_length(longest + lot.params.max_new_tokens)
        adapters, temperature = self._adapters, lot.params.temperature
        served = self.backend.settings.served
        name = served if adapters is None else adapters.name(self.model)
        tried = self.backend.tried(self.model) if adapters is None else adapters.tried
        if temperature not in tried:
            self._try(name, SamplingParams(max_new_tokens=SAID, temperature=temperature))
            tried.add(temperature)
        return name

    def _try(self, name: str, params: SamplingParams) -> None:
        prompt = tuple(probe_of(self.model, room=SAID))
        said = self.backend.reply(Ask(name, prompt, 0, params, (), vocabulary_of(self.model)))
        prompts = [(*prompt, *said.ids[:t]) for t in range(len(said.ids))]
        expected = self.score(prompts, [[(token,)] for token in said.ids], params)
        far = [abs(a - b[0]) for a, b in zip(said.logprobs, expected, strict=True)]
        if not all(one <= self.tolerance for one in far):
            raise RunError(
                f"The server {self.backend.where} gives log-probabilities of {name!r} that differ "
                f"from this model's by up to {max(far):.2g} ({self.tolerance:g}). It must have the "
                "same weights, no quantisation, no penalties, and give log-probabilities of the "
                "distribution that it draws from (vLLM: --logprobs-mode processed_logprobs). If it "
                "computes in less precision, write sampler.tolerance."
            )

    def score(
        self, prompts: Sequence[Ids], replies: Sequence[Sequence[Ids]], params: SamplingParams
    ) -> list[FloatArray]:
        """Return the log-probability of whole replies, computed in this process."""
        return self._local.score(prompts, replies, params)

    def refresh(self) -> None:
        """Let the server be given the weights anew."""
        if (adapters := self._adapters) is not None:
            adapters.changes += 1
        self._local.refresh()


def adapted(model: LanguageModel) -> bool:
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

    What: prompts are sent as token ids to ``/completions``, and token ids with log-probabilities
    are wanted back (``return_token_ids``). A server that gives none is refused. After each update a
    policy's low-rank adapters are written to a folder, and the server is told to load them by a new
    name (``/load_lora_adapter``); the old ones are unloaded when nothing waits for them. Then one
    reply of the server is compared with the model in this process, before it is used.
    When to use: the model is served on another machine, or by a server that others use too. On this
    machine sampler vllm needs no server, and trains all weights.
    Pitfalls: weights that are trained must be adapters (``model.lora``). The server needs its
    adapters' folder at the same path: a private temporary one, or that which the environment
    variable SPARRING_ADAPTERS names. Replies are as well determined as the server's are: vLLM's on
    a CPU in float32 are, by their seeds. vLLM on a CPU computes wrong log-probabilities for a
    policy without adapters beside one with adapters: give that a server of its own. A process that
    is killed leaves its last adapters loaded. Each worker (``scale.workers``) loads its own.
    Reference: vLLM, "OpenAI-compatible server" and "Dynamically serving LoRA adapters".
    Verified by: tests/models/samplers/test_openai.py, and tests/models/samplers/test_openai_real.py
    with vLLM's server.

    Args:
        model: the language model that replies are drawn from.
        base_url: http(s) address of the API, up to and without "/completions". One on another
            machine must be typed on the command line, or named in SPARRING_ENDPOINT_HOSTS.
        served: what the server calls the model; read for a policy without adapters alone.
        key_variable: name of the environment variable that holds the server's key; a loopback
            address may do without.
        concurrency: the most requests under way at a time.
        timeout: seconds that one try of a request may take as a whole.
        retries: tries after the first one, with exponential back-off (time-outs, lost connections,
            status 408, 409, 429, 5xx).
        tolerance: how far log-probabilities may be from those of the model in this process; null
            (default): 1e-4 in float32, and 0.25 where weights are less precise.

    Raises:
        ConfigError: the package openai is missing, the address is none or one that you have not
            named, or there is no usable key.
        ModelError: weights are trained that are not adapters, or ``served`` is missing.
    """
    if not adapted(model) and any(one.requires_grad for one in model.network.parameters()):
        raise ModelError(
            "sampler 'openai' gives a server new weights as adapters alone, and this model trains "
            "all weights. Write model.lora (such as model.lora.rank=16), or sampler.name=vllm."
        )
    if not adapted(model) and not served:
        raise ModelError(
            "sampler 'openai' needs the server's name of a model without adapters; write "
            "sampler.served."
        )
    settings = Settings(base_url, served, key_variable, concurrency, timeout, retries)
    limit = tolerance_of(dtype_of(model)) if tolerance is None else tolerance
    return OpenAISampler(model, server_of(settings), limit)
