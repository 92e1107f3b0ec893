"""An OpenAI-compatible server as several samplers ask it, many requests side by side."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Protocol, cast

from sparring.core.endpoint_connection import Connection, StatusError
from sparring.core.records import SampleResult
from sparring.models.language_model import LanguageModel
from sparring.models.samplers.base import Lot
from sparring.models.samplers.of_model import vocabulary_of
from sparring.models.samplers.openai.adapters import UNKNOWN, Adapters, Shelf, ends_the_run
from sparring.models.samplers.openai.ask import Ask

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
