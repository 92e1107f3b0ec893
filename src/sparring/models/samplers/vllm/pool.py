"""Replicas of vLLM, which draw replies for several samplers, even at the same time.

The thread that waits for replies also runs the replicas: it receives their messages, sends waiting
requests, and restarts lost replicas. Requests of a lost replica are sent again with the same seeds,
so that replies are the same.
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
from sparring.models.samplers.base import Ids, SampleBatch
from sparring.models.samplers.vllm.replica import Replica, ReplicaMailbox, ReplicaSettings
from sparring.models.samplers.vllm.requests import (
    PROBE_INDEX,
    PendingCall,
    PoolMember,
    ReplicaRequest,
    parse_answer,
    probe_request,
    reply_requests,
    score_requests,
    sum_scores,
)
from sparring.models.samplers.vllm.served_weights import Key, ServedWeights

POLL_SECONDS = 0.02  # longest wait for a message before other work
HOUR_SECONDS = 3600.0
# the run ends after so many
MAX_STARTS = 2  # failed starts of a replica in a row
MAX_REFUSALS = 2  # refusals of weights in a row, by a replica or by the check
MAX_LOSSES = 3  # replicas that were lost while working on one request


class FailureLimits:
    """Counts failures of a pool's replicas, and ends the run beyond the limits.

    Args:
        restarts: largest number of replicas that may be lost in an hour.

    Attributes:
        num_lost: number of lost replicas in total.
    """

    def __init__(self, restarts: int) -> None:
        self._restarts, self.num_lost = restarts, 0
        self._losses: deque[float] = deque()  # times of losses in the last hour
        # counts in a row, by number of the replica
        self._failed_starts: Counter[int] = Counter()
        self._refusals: Counter[int] = Counter()

    def note_ready(self, replica: Replica) -> None:
        """Note that a replica is ready for weights."""
        self._failed_starts[replica.number] = 0

    def note_passed_check(self, replica: Replica) -> None:
        """Note that a replica passed the check of its weights."""
        self._refusals[replica.number] = 0

    def reset(self) -> None:
        """Reset all counts except the losses of the last hour."""
        self._failed_starts.clear()
        self._refusals.clear()

    def count_refusal(self, replica: Replica, problem: str) -> None:
        """Count refused weights.

        Raises:
            RunError: weights were refused too often in a row.
        """
        self._refusals[replica.number] += 1
        if self._refusals[replica.number] >= MAX_REFUSALS:
            raise _failure(f"replica {replica.number} {problem}.{replica.describe_output()}")

    def count_loss(self, replica: Replica, requests: Sequence[ReplicaRequest], cause: str) -> None:
        """Count the loss of a replica; call this before ending the replica.

        Args:
            replica: the replica.
            requests: its requests without an answer.
            cause: a sentence whose subject is the replica.

        Raises:
            RunError: the replica cannot be started, or replicas are lost too often, in total or
                while working on one request.
        """
        problem, output = f"replica {replica.number} {cause}", replica.describe_output()
        if replica.stage == "starting":
            self._failed_starts[replica.number] += 1
            if self._failed_starts[replica.number] >= MAX_STARTS:
                raise _failure(
                    f"{problem}, before it was ready, {MAX_STARTS} times in a row.{output}"
                )
        for request in requests:
            request.num_lost_replicas += request.index_in_call != PROBE_INDEX
            if request.num_lost_replicas >= MAX_LOSSES:
                raise _failure(f"{problem}, the third one lost with the same request.{output}")
        now, self.num_lost = time.monotonic(), self.num_lost + 1
        self._losses = deque(
            lost_at for lost_at in (*self._losses, now) if lost_at > now - HOUR_SECONDS
        )
        if len(self._losses) > self._restarts:
            losses = f"{len(self._losses)} replicas were lost in an hour (sampler.restarts)"
            raise _failure(f"{problem}, and {losses}.{output}")


def _failure(problem: str) -> RunError:
    return RunError(f"The sampler vllm stops: {problem}")


class RequestQueue:
    """Waiting requests in order of arrival, and the assignment of weights to replicas.

    Weights are loaded in the order of their first request. A replica keeps its weights while
    requests for them wait. If no replica has the weights of the first request, later
    requests are not sent, so that a replica becomes free.
    """

    def __init__(self) -> None:
        self._requests: deque[ReplicaRequest] = deque()

    def add(self, requests: Sequence[ReplicaRequest]) -> None:
        """Append requests."""
        self._requests.extend(requests)

    def add_first(self, requests: Sequence[ReplicaRequest]) -> None:
        """Insert requests before all others, in order of their numbers."""
        self._requests.extendleft(sorted(requests, key=lambda r: r.number, reverse=True))

    def drop(self, requests: Sequence[ReplicaRequest]) -> None:
        """Remove requests."""
        if requests and self._requests:
            numbers = {request.number for request in requests}
            self._requests = deque(
                request for request in self._requests if request.number not in numbers
            )

    def use_present_weights(self) -> None:
        """Let requests that accept newer weights wait for the present weights."""
        for request in self._requests:
            if request.may_change_weights:
                request.key = request.served.key

    def clear(self) -> list[ReplicaRequest]:
        """Remove and return all requests."""
        requests, self._requests = list(self._requests), deque()
        return requests

    def missing_weights(
        self, replicas: Sequence[Replica]
    ) -> Iterator[tuple[Replica, ServedWeights]]:
        """Yield (replica, weights) for weights that a replica must load.

        Raises:
            ModelError: the weights of waiting requests have changed.
        """
        needed = self._needed_weights()
        for index, (key, served) in enumerate(needed.items()):
            if any(replica.key == key for replica in replicas):
                continue
            later_keys = list(needed)[index + 1 :]
            replica = _find_free(replicas, needed_later=later_keys, needed=needed)
            if replica is None:
                return
            yield replica, _require_unchanged(key, served)
        for key, served in needed.items():
            num_replicas = sum(replica.key == key for replica in replicas)
            num_requests = sum(request.key == key for request in self._requests)
            while num_replicas < num_requests and (
                replica := _find_free(replicas, needed_later=(), needed=needed)
            ):
                num_replicas += 1
                yield replica, _require_unchanged(key, served)

    def next_batches(
        self, replicas: Sequence[Replica]
    ) -> Iterator[tuple[Replica, list[ReplicaRequest]]]:
        """Yield (replica, requests to send); the requests have one kind and one distribution."""
        ready_replicas: dict[Key, list[Replica]] = {}
        for key in self._needed_weights():
            replicas_with_key = [replica for replica in replicas if replica.key == key]
            if not replicas_with_key:
                break  # later weights wait until a replica is free for this key
            if all(replica.stage == "ready" for replica in replicas_with_key):
                ready_replicas[key] = replicas_with_key
        requests, self._requests = self._requests, deque()
        batches: dict[tuple[int, str, int], tuple[Replica, list[ReplicaRequest]]] = {}
        num_pending = {replica.number: len(replica.pending) for replica in replicas}
        for request in requests:
            if request.key not in ready_replicas:
                self._requests.append(request)
                continue
            replica = min(ready_replicas[request.key], key=lambda r: num_pending[r.number])
            num_pending[replica.number] += 1
            batch_key = replica.number, request.kind, id(request.options)
            batches.setdefault(batch_key, (replica, []))[1].append(request)
        yield from batches.values()

    def _needed_weights(self) -> dict[Key, ServedWeights]:
        weights: dict[Key, ServedWeights] = {}
        for request in self._requests:
            weights.setdefault(request.key, request.served)
        return weights


def _find_free(
    replicas: Sequence[Replica], *, needed_later: Sequence[Key], needed: dict[Key, ServedWeights]
) -> Replica | None:
    """Return an idle replica whose weights no request or only later requests need; or None."""
    idle_replicas = [
        replica for replica in replicas if replica.stage == "ready" and not replica.pending
    ]
    for replica in idle_replicas:
        if replica.key not in needed:
            return replica
    return next((replica for replica in idle_replicas if replica.key in needed_later), None)


def _require_unchanged(key: Key, served: ServedWeights) -> ServedWeights:
    if served.key != key:
        raise ModelError(
            "The weights have changed while requests for replies with the earlier weights were "
            "waiting for a replica. Read everything that a call of submit yields before the next "
            "update, or close it."
        )
    return served


class ReplicaPool:
    """The replicas of equal settings, started at the first request; see ``samplers.base.Backend``.

    Args:
        settings: settings of the replicas.
    """

    def __init__(self, settings: ReplicaSettings) -> None:
        self.settings = settings
        self._lock = threading.RLock()
        self._mailbox: ReplicaMailbox = Mailbox()
        self._queue = RequestQueue()
        self._count = itertools.count(1)
        self._numbers: weakref.WeakKeyDictionary[LanguageModel, int] = weakref.WeakKeyDictionary()
        self._served: weakref.WeakValueDictionary[int, ServedWeights] = (
            weakref.WeakValueDictionary()
        )
        self.limits = FailureLimits(settings.restarts)
        self._failure_reasons: dict[int, str] = {}  # last error message of each replica
        self.replicas: list[Replica] = []
        self._end: weakref.finalize[[list[Replica], Path], ReplicaPool] | None = None

    def served(self, model: LanguageModel) -> ServedWeights:
        """Return the weights of a model for replicas."""
        with self._lock:
            number = self._number_of(model)
            base_number = self._number_of(model.shared_base or model)
            weights = self._served.get(number)
            if weights is None:
                weights = self._served[number] = ServedWeights(model, number, base_number)
            return weights

    def _number_of(self, model: LanguageModel) -> int:
        if model not in self._numbers:
            self._numbers[model] = next(self._count)
        return self._numbers[model]

    def submit(
        self, batches: Sequence[SampleBatch]
    ) -> Iterator[Sequence[tuple[int, SampleResult]]]:
        """Yield lists of (index of a request, its reply), as they are finished; see ``Backend``."""
        call = PendingCall()
        hooks = [cast(PoolMember, batch.sampler).between_tokens for batch in batches]
        requests = reply_requests(batches, call, self._count)
        answers = self._wait_for(call, requests, tuple(dict.fromkeys(filter(None, hooks))))
        next(answers)  # queues all requests; from here on a close drops them
        return answers

    def score(
        self,
        served: ServedWeights,
        prompts: Sequence[Ids],
        replies: Sequence[Sequence[Ids]],
        params: SamplingParams,
    ) -> list[FloatArray]:
        """Return the log-probabilities of whole replies; see ``samplers.base.ReplyScorer``."""
        call = PendingCall()
        requests = score_requests(served, prompts, replies, params, call, self._count)
        results = {
            index: result
            for finished in self._wait_for(call, requests)
            for index, result in finished
        }
        return sum_scores(results, replies)

    def _wait_for(
        self,
        call: PendingCall,
        requests: Sequence[ReplicaRequest],
        hooks: Sequence[Callable[[], None]] = (),
    ) -> Iterator[Sequence[tuple[int, SampleResult]]]:
        """Yield () when requests are queued, and then lists of results.

        Args:
            call: the call of the requests.
            requests: the requests.
            hooks: functions that are called repeatedly until all replies are there; they may change
                weights.
        """
        num_waiting = len(requests)
        try:
            with self._lock:
                self._queue.add(requests)
            self._advance(0.0)
            yield ()
            while num_waiting:
                for hook in hooks:
                    hook()
                self._advance(0.0 if call.results else POLL_SECONDS)
                if call.error is not None:
                    raise call.error
                results, call.results = call.results, []
                num_waiting -= len(results)
                yield results
        finally:
            self._drop_requests(requests if num_waiting else ())

    def _drop_requests(self, requests: Sequence[ReplicaRequest]) -> None:
        with self._lock:
            self._queue.drop(requests)
            for replica in self.replicas:
                numbers = [
                    request.number
                    for request in requests
                    if replica.pending.pop(request.number, None)
                ]
                if numbers and replica.child is not None:
                    replica.tell({"drop": numbers})

    def _advance(self, seconds: float) -> None:
        with self._lock:
            try:
                self._start_replicas()
                self._receive(seconds)
                for replica in self.replicas:
                    if reason := replica.timeout_reason():
                        self._end_replica(replica, reason)
                self._queue.use_present_weights()
                for replica in self.replicas:
                    if replica.is_outdated and replica.served is not None:
                        replica.load(replica.served)
                for replica, served in self._queue.missing_weights(self.replicas):
                    replica.load(served)
                for replica, requests in self._queue.next_batches(self.replicas):
                    replica.send(requests)
            except BaseException as error:
                self._fail_all(error)
                raise

    def _start_replicas(self) -> None:
        if self._end is None:
            folder = Path(tempfile.mkdtemp(prefix="sparring-vllm-"))
            (folder / "config.json").write_text(self.settings.config)
            count = range(self.settings.replicas)
            self.replicas = [Replica(n, self.settings, folder, self._mailbox) for n in count]
            self._end = weakref.finalize(self, _end_all, self.replicas, folder)
        for replica in self.replicas:
            if replica.stage == "off":
                replica.start()

    def _receive(self, seconds: float) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                child, message = self._mailbox.get(timeout=max(seconds, 0.0001))
                seconds = 0.0
                for replica in self.replicas:
                    if replica.child is child:
                        replica.note_message()
                        self._handle_message(replica, message)

    def _handle_message(self, replica: Replica, message: bytes | None) -> None:
        if message is None:
            self._end_replica(replica, self._failure_reasons.pop(replica.number, "has ended"))
            return
        fields = json.loads(message)
        if "failed" in fields:
            self._failure_reasons[replica.number] = f"has failed: {fields['failed']}"
        elif "ready" in fields:
            self.limits.note_ready(replica)
            replica.mark_ready()
        elif "refused" in fields:
            self.limits.count_refusal(replica, f"refuses weights: {fields['why']}")
            assert replica.served is not None, "it was told to load weights"
            replica.load(replica.served)
        elif "loaded" in fields:
            self._send_probe(replica)
        for number, *answer in fields.get("done", ()):
            self._take_answer(replica, number, answer)

    def _take_answer(self, replica: Replica, number: int, answer: list[Any]) -> None:
        """Handle an answer; store it if the replica's weights are still being checked."""
        request = replica.pending.get(number)
        if request is None:
            return
        if replica.stage == "checking" and request.index_in_call != PROBE_INDEX:
            replica.early_answers.append((number, answer))
            return
        del replica.pending[number]
        self._handle_answer(replica, request, answer)
        if request.index_in_call == PROBE_INDEX and replica.stage == "ready":
            answers, replica.early_answers = replica.early_answers, []
            for early_answer in answers:
                self._take_answer(replica, *early_answer)

    def _send_probe(self, replica: Replica) -> None:
        assert replica.served is not None, "it was told to load weights"
        replica.check(probe_request(replica.served, self._count))

    def _handle_answer(
        self, replica: Replica, request: ReplicaRequest, answer: Sequence[Any]
    ) -> None:
        result = parse_answer(request, answer)
        if result is None:
            replica.pending[request.number] = request
            self._end_replica(replica, "sent an answer that cannot be read")
        elif request.index_in_call != PROBE_INDEX:
            request.call.results.append((request.index_in_call, result))
        elif (difference := replica.compare_probe(result.logprobs)) is None:
            self.limits.note_passed_check(replica)
        else:
            self.limits.count_refusal(
                replica, f"computes wrong log-probabilities for its weights: {difference}"
            )
            self._end_replica(replica, "had wrong log-probabilities")

    def _end_replica(self, replica: Replica, cause: str) -> None:
        self.limits.count_loss(replica, list(replica.pending.values()), cause)
        self._queue.add_first(
            [request for request in replica.end() if request.index_in_call != PROBE_INDEX]
        )

    def _fail_all(self, error: BaseException) -> None:
        reason = (
            error if isinstance(error, Exception) else RunError("Another call was interrupted.")
        )
        requests = self._queue.clear()
        for replica in self.replicas:
            requests += replica.end()
        for request in requests:
            request.call.error = reason
        self.limits.reset()
        self._failure_reasons.clear()

    def close(self) -> None:
        """End all replicas; the next request restarts them."""
        with self._lock:
            if self._end is not None:
                self._end()
            self._end, self.replicas = None, []


def _end_all(replicas: Sequence[Replica], folder: Path) -> None:
    for replica in replicas:
        replica.end()
    shutil.rmtree(folder, ignore_errors=True)


_pools: weakref.WeakValueDictionary[ReplicaSettings, ReplicaPool] = weakref.WeakValueDictionary()


def pool_of(settings: ReplicaSettings) -> ReplicaPool:
    """Return the pool of these settings, shared by all samplers of this process."""
    pool = _pools.get(settings)
    if pool is None:
        pool = _pools[settings] = ReplicaPool(settings)
    return pool
