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
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from sparring.core.child_process import Mailbox
from sparring.core.errors import ModelError, RunError
from sparring.core.records import FloatArray, SampleResult, SamplingParams
from sparring.models.language_model import LanguageModel
from sparring.models.samplers.base import Ids, Lot
from sparring.models.samplers.vllm.replica import Heard, Replica, Settings
from sparring.models.samplers.vllm.requests import (
    PROBE,
    Ask,
    Call,
    Member,
    answer_of,
    probe_to,
    replies_to,
    scores_of,
    totals,
)
from sparring.models.samplers.vllm.weights import Key, Served

REST = 0.02  # seconds that one waits for a message before others have a turn
HOUR = 3600.0
STARTS = 2  # times in a row that a replica may end before it was ready
WRONGS = 2  # times in a row that weights may be refused, by a replica or by the check
LOSSES = 3  # replicas that one request may end


class Limits:
    """What has gone wrong with the replicas of a pool.

    Args:
        restarts: replicas that may be lost in an hour.

    Attributes:
        lost: replicas that were lost, in all.
    """

    def __init__(self, restarts: int) -> None:
        self._restarts, self.lost = restarts, 0
        self._when: deque[float] = deque()  # of the last hour
        self._early: Counter[int] = Counter()  # how often in a row each ended before it was ready
        self._wrong: Counter[int] = Counter()  # and had wrong weights

    def ready(self, replica: Replica) -> None:
        """Note that a replica is ready for weights."""
        self._early[replica.number] = 0

    def right(self, replica: Replica) -> None:
        """Note that a replica computes what its weights give."""
        self._wrong[replica.number] = 0

    def forget(self) -> None:
        """Note that all begins anew; what was lost in the last hour stays."""
        self._early.clear()
        self._wrong.clear()

    def wrong(self, replica: Replica, what: str) -> None:
        """Note that weights were refused.

        Raises:
            RunError: too often in a row.
        """
        self._wrong[replica.number] += 1
        if self._wrong[replica.number] >= WRONGS:
            raise _gives_up(f"replica {replica.number} {what}.{replica.last_words()}")

    def ended(self, replica: Replica, asked: Sequence[Ask], why: str) -> None:
        """Note that a replica is lost, before it is ended.

        Args:
            replica: the replica.
            asked: requests that it has not answered.
            why: as a sentence goes on after its name.

        Raises:
            RunError: it cannot be started, replicas are lost too often, or over one request.
        """
        what, words = f"replica {replica.number} {why}", replica.last_words()
        if replica.stage == "starting":
            self._early[replica.number] += 1
            if self._early[replica.number] >= STARTS:
                raise _gives_up(f"{what}, before it was ready, {STARTS} times in a row.{words}")
        for ask in asked:
            ask.lost += ask.place != PROBE
            if ask.lost >= LOSSES:
                raise _gives_up(f"{what}, the third one that ended over one request.{words}")
        now, self.lost = time.monotonic(), self.lost + 1
        self._when = deque(at for at in (*self._when, now) if at > now - HOUR)
        if len(self._when) > self._restarts:
            often = f"{len(self._when)} were lost in an hour (sampler.restarts)"
            raise _gives_up(f"{what}, and {often}.{words}")


def _gives_up(what: str) -> RunError:
    return RunError(f"The sampler vllm gives up: {what}")


class Line:
    """Requests that wait, in the order in which they came, and which replica has which weights.

    Weights are taken in the order in which requests for them came. A replica keeps its weights as
    long as requests for them wait; if those that came first have no replica, later ones are not
    sent, so that one becomes free.
    """

    def __init__(self) -> None:
        self._waiting: deque[Ask] = deque()

    def add(self, asks: Sequence[Ask]) -> None:
        """Let requests wait behind all others."""
        self._waiting.extend(asks)

    def again(self, asks: Sequence[Ask]) -> None:
        """Let requests wait in front of all others, in their order."""
        self._waiting.extendleft(sorted(asks, key=lambda ask: ask.number, reverse=True))

    def drop(self, asks: Sequence[Ask]) -> None:
        """Forget requests."""
        if asks and self._waiting:
            gone = {ask.number for ask in asks}
            self._waiting = deque(ask for ask in self._waiting if ask.number not in gone)

    def renew(self) -> None:
        """Let requests that take newer weights wait for those of now."""
        for ask in self._waiting:
            if ask.renews:
                ask.key = ask.served.key

    def clear(self) -> list[Ask]:
        """Forget all requests; return them."""
        left, self._waiting = list(self._waiting), deque()
        return left

    def wanting(self, replicas: Sequence[Replica]) -> Iterator[tuple[Replica, Served]]:
        """Yield the replicas that are to load weights, and which.

        Raises:
            ModelError: the weights that requests are to be drawn with have changed since.
        """
        weights = self._weights()
        for place, (key, served) in enumerate(weights.items()):
            if any(replica.key == key for replica in replicas):
                continue
            later = list(weights)[place:]
            free = _free(replicas, unwanted=later[1:], wanted=weights)
            if free is None:
                return
            yield free, _unchanged(key, served)
        waiting = list(self._waiting)
        for key, served in weights.items():
            own = sum(replica.key == key for replica in replicas)
            count = sum(ask.key == key for ask in waiting)
            while own < count and (free := _free(replicas, unwanted=(), wanted=weights)):
                own += 1
                yield free, _unchanged(key, served)

    def next(self, replicas: Sequence[Replica]) -> Iterator[tuple[Replica, list[Ask]]]:
        """Yield replicas with the requests that they are to be sent, of one kind and way."""
        ready: dict[Key, list[Replica]] = {}
        for key in self._weights():
            own = [replica for replica in replicas if replica.key == key]
            if not own:
                break  # what came later waits until one is free for these
            if all(replica.stage == "ready" for replica in own):
                ready[key] = own
        waiting, self._waiting = self._waiting, deque()
        found: dict[tuple[int, str, int], tuple[Replica, list[Ask]]] = {}
        load = {replica.number: len(replica.asked) for replica in replicas}
        for ask in waiting:
            if ask.key not in ready:
                self._waiting.append(ask)
                continue
            replica = min(ready[ask.key], key=lambda one: load[one.number])
            load[replica.number] += 1
            at = replica.number, ask.kind, id(ask.way)
            found.setdefault(at, (replica, []))[1].append(ask)
        yield from found.values()

    def _weights(self) -> dict[Key, Served]:
        found: dict[Key, Served] = {}
        for ask in self._waiting:
            found.setdefault(ask.key, ask.served)
        return found


def _free(
    replicas: Sequence[Replica], *, unwanted: Sequence[Key], wanted: dict[Key, Served]
) -> Replica | None:
    """Return a replica that may take other weights, or None. It is ready and idle, and its weights
    are wanted by nobody, or by requests that come later."""
    idle = [one for one in replicas if one.stage == "ready" and not one.asked]
    for one in idle:
        if one.key not in wanted:
            return one
    return next((one for one in idle if one.key in unwanted), None)


def _unchanged(key: Key, served: Served) -> Served:
    """Return weights, if they are still those that requests were made for."""
    if served.key != key:
        raise ModelError(
            "The weights have changed while replies that were to be drawn with those of before "
            "still waited for a replica. Take all that a call of submit yields before the next "
            "update, or close it."
        )
    return served


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
        if model not in self._numbers:
            self._numbers[model] = next(self._count)
        return self._numbers[model]

    def submit(self, lots: Sequence[Lot]) -> Iterator[Sequence[tuple[int, SampleResult]]]:
        """Yield lists of (place of a request, its reply), as they are finished; see ``Backend``."""
        call = Call()
        looks = [cast(Member, lot.sampler).between for lot in lots]
        asks, between = replies_to(lots, call, self._count), dict.fromkeys(filter(None, looks))
        coming = self._coming(call, asks, tuple(between))
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
        with self._lock:
            self._line.drop(asks)
            for replica in self.replicas:
                gone = [ask.number for ask in asks if replica.asked.pop(ask.number, None)]
                if gone and replica.child is not None:
                    replica.tell({"drop": gone})

    def _go_on(self, seconds: float) -> None:
        with self._lock:
            try:
                self._begin()
                self._hear(seconds)
                for replica in self.replicas:
                    if late := replica.overdue():
                        self._lose(replica, late)
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
        with contextlib.suppress(queue.Empty):
            while True:
                child, message = self._heard.get(timeout=max(seconds, 0.0001))
                seconds = 0.0
                for replica in self.replicas:
                    if replica.child is child:
                        replica.alive()
                        self._take(replica, message)

    def _take(self, replica: Replica, message: bytes | None) -> None:
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

    def _lose(self, replica: Replica, why: str) -> None:
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
