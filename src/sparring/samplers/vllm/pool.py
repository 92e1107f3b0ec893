"""Replicas that draw for several samplers, one after another or side by side.

Whoever waits for replies drives them: it hears what replicas say, sends them what waits, and starts
those again that were lost. What a lost one had been asked is asked again with the same seeds, so
that replies are the same.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import queue
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from sparring.errors import RunError
from sparring.models.language_model import LanguageModel
from sparring.samplers.base import Lot
from sparring.samplers.vllm.answers import answer_of, totals
from sparring.samplers.vllm.asked import (
    PROBE,
    Ask,
    Call,
    betweens,
    probe_to,
    replies_to,
    scores_of,
)
from sparring.samplers.vllm.limits import Limits
from sparring.samplers.vllm.line import Line
from sparring.samplers.vllm.replica import Heard, Replica, Settings
from sparring.samplers.vllm.weights import Served
from sparring.system.child import Mailbox
from sparring.types import FloatArray, SampleResult, SamplingParams

Ids = tuple[int, ...]
REST = 0.02  # seconds that one waits for a message before others have a turn


class Pool:
    """The replicas of equal settings; see ``samplers.base.Backend``.

    They are started when they are first asked, and end when nobody has the pool any more.

    Args:
        settings: of the replicas.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._lock = threading.RLock()
        self._heard: Heard = Mailbox()
        self._line = Line()
        self._count = itertools.count(1)
        self._numbers: weakref.WeakKeyDictionary[LanguageModel, int] = weakref.WeakKeyDictionary()
        self._served: weakref.WeakValueDictionary[int, Served] = weakref.WeakValueDictionary()
        self.limits = Limits(settings.restarts)
        self._why: dict[int, str] = {}  # what each said before it ended
        self.replicas: list[Replica] = []
        self._end: weakref.finalize[[list[Replica], Path], Pool] | None = None

    def served(self, model: LanguageModel) -> Served:
        """Return the weights of a model, as replicas are given them."""
        with self._lock:
            number, base = self._number(model), self._number(model.over or model)
            found = self._served.get(number)
            if found is None:
                found = self._served[number] = Served(model, number, base)
            return found

    def _number(self, model: LanguageModel) -> int:
        """Return the number of a model: another one for each."""
        if model not in self._numbers:
            self._numbers[model] = next(self._count)
        return self._numbers[model]

    def submit(self, lots: Sequence[Lot]) -> Iterator[Sequence[tuple[int, SampleResult]]]:
        """Yield lists of (place of a request, its reply), as they are finished; see ``Backend``."""
        call = Call()
        coming = self._coming(call, replies_to(lots, call, self._count), betweens(lots))
        next(coming)  # all have begun when this returns, and a close from now on is noticed
        return coming

    def score(
        self,
        served: Served,
        prompts: Sequence[Ids],
        replies: Sequence[Sequence[Ids]],
        params: SamplingParams,
    ) -> list[FloatArray]:
        """Return the log-probabilities of whole replies; see ``samplers.base.Score``."""
        call = Call()
        asks = scores_of(served, prompts, replies, params, call, self._count)
        found = {place: one for some in self._coming(call, asks) for place, one in some}
        return totals(found, replies)

    def _coming(
        self, call: Call, asks: Sequence[Ask], between: Sequence[Callable[[], None]] = ()
    ) -> Iterator[Sequence[tuple[int, SampleResult]]]:
        """Yield nothing once, when requests wait in line, and then what comes of them.

        Args:
            call: of the requests.
            asks: the requests.
            between: called while replies are awaited; weights may be changed in it.
        """
        left = len(asks)
        try:
            with self._lock:
                self._line.add(asks)
            self._go_on(0.0)
            yield ()
            while left:
                for look in between:
                    look()
                self._go_on(0.0 if call.found else REST)
                if call.error is not None:
                    raise call.error
                found, call.found = call.found, []
                left -= len(found)
                yield found
        finally:
            self._forget(asks if left else ())

    def _forget(self, asks: Sequence[Ask]) -> None:
        """Drop requests that nobody waits for any more."""
        with self._lock:
            self._line.drop(asks)
            for replica in self.replicas:
                gone = [ask.number for ask in asks if replica.asked.pop(ask.number, None)]
                if gone and replica.child is not None:
                    replica.tell({"drop": gone})

    def _go_on(self, seconds: float) -> None:
        """Hear what replicas say, waiting so long for the first, and send what waits.

        Whatever ends this ends all calls that wait, as none of them can count on anything.
        """
        with self._lock:
            try:
                self._begin()
                self._hear(seconds)
                for replica in self.replicas:
                    self._watch(replica)
                self._line.renew()
                for replica in self.replicas:
                    if replica.outdated and replica.served is not None:
                        replica.load(replica.served)
                for replica, served in self._line.wanting(self.replicas):
                    replica.load(served)
                for replica, asks in self._line.next(self.replicas):
                    replica.send(asks)
            except BaseException as error:
                self._give_up(error)
                raise

    def _begin(self) -> None:
        """Start the replicas, if none is there yet; those that were lost are started again."""
        if self._end is None:
            folder = Path(tempfile.mkdtemp(prefix="sparring-vllm-"))
            (folder / "config.json").write_text(self.settings.config)
            count = range(self.settings.replicas)
            self.replicas = [Replica(n, self.settings, folder, self._heard) for n in count]
            self._end = weakref.finalize(self, _ended, self.replicas, folder)
        for replica in self.replicas:
            if replica.stage == "off":
                replica.start()

    def _hear(self, seconds: float) -> None:
        """Take what replicas have said."""
        with contextlib.suppress(queue.Empty):
            while True:
                child, message = self._heard.get(timeout=max(seconds, 0.0001))
                seconds = 0.0
                for replica in self.replicas:
                    if replica.child is child:
                        replica.alive()
                        self._take(replica, message)

    def _take(self, replica: Replica, message: bytes | None) -> None:
        """Do what a replica's message asks for."""
        if message is None:
            self._lose(replica, self._why.pop(replica.number, "has ended"))
            return
        said = json.loads(message)
        if "failed" in said:
            self._why[replica.number] = f"has failed: {said['failed']}"
        elif "ready" in said:
            self.limits.ready(replica)
            replica.is_ready()
        elif "refused" in said:
            self.limits.wrong(replica, f"refuses weights: {said['why']}")
            assert replica.served is not None, "it was told to load them"
            replica.load(replica.served)
        elif "loaded" in said:
            self._probe(replica)
        for number, *answer in said.get("done", ()):
            self._done(replica, number, answer)

    def _done(self, replica: Replica, number: int, answer: list[Any]) -> None:
        """Take an answer; one of weights that are not found right yet is held until they are."""
        ask = replica.asked.get(number)
        if ask is None:
            return
        if replica.stage == "checking" and ask.place != PROBE:
            replica.held.append((number, answer))
            return
        del replica.asked[number]
        self._answered(replica, ask, answer)
        if ask.place == PROBE and replica.stage == "ready":
            held, replica.held = replica.held, []
            for one in held:
                self._done(replica, *one)

    def _probe(self, replica: Replica) -> None:
        """Try a replica that has new weights on the conversation that is the same always."""
        assert replica.served is not None, "it was told to load them"
        replica.check(probe_to(replica.served, self._count))

    def _answered(self, replica: Replica, ask: Ask, answer: Sequence[Any]) -> None:
        """Give an answer to whoever waits for it, or judge a replica by it."""
        found = answer_of(ask, answer)
        if found is None:
            replica.asked[ask.number] = ask
            self._lose(replica, "gave an answer that cannot be read")
        elif ask.place != PROBE:
            ask.call.found.append((ask.place, found))
        elif (wrong := replica.judge(found.logprobs)) is None:
            self.limits.right(replica)
        else:
            self.limits.wrong(
                replica, f"computes other log-probabilities than its weights give: {wrong}"
            )
            self._lose(replica, "had wrong log-probabilities")

    def _watch(self, replica: Replica) -> None:
        """End a replica that has not done for too long what it should, or whose process is gone."""
        if late := replica.overdue():
            self._lose(replica, late)

    def _lose(self, replica: Replica, why: str) -> None:
        """End a replica, and let what it was asked wait again in front of all others.

        Raises:
            RunError: as for ``Limits.ended``.
        """
        self.limits.ended(replica, list(replica.asked.values()), why)
        self._line.again([ask for ask in replica.end() if ask.place != PROBE])

    def _give_up(self, error: BaseException) -> None:
        """End all replicas, and all calls with this error; the next call starts anew."""
        told = error if isinstance(error, Exception) else RunError("Another call was interrupted.")
        waiting = self._line.clear()
        for replica in self.replicas:
            waiting += replica.end()
        for ask in waiting:
            ask.call.error = told
        self.limits.forget()
        self._why.clear()

    def close(self) -> None:
        """End all replicas; they are started again when they are next asked."""
        with self._lock:
            if self._end is not None:
                self._end()
            self._end, self.replicas = None, []


def _ended(replicas: Sequence[Replica], folder: Path) -> None:
    """End replicas, and remove what they were given."""
    for replica in replicas:
        replica.end()
    shutil.rmtree(folder, ignore_errors=True)


_pools: weakref.WeakValueDictionary[Settings, Pool] = weakref.WeakValueDictionary()


def pool_of(settings: Settings) -> Pool:
    """Return the pool of these settings, which all samplers of this process share."""
    found = _pools.get(settings)
    if found is None:
        found = _pools[settings] = Pool(settings)
    return found
