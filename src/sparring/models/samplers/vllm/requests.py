"""Builds requests and sampling parameters for vLLM replicas, and checks their answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast

import numpy as np

from sparring.core.errors import DivergedError
from sparring.core.records import FloatArray, SampledSpan, SampleResult, SamplingParams
from sparring.models.samplers.base import Ids, SampleBatch
from sparring.models.samplers.in_process import NO_PROBABILITIES, spans_of, vocabulary_of
from sparring.models.samplers.vllm.served_weights import Key, ServedWeights, parse_weights_id

PROBE_INDEX = -1  # ``index_in_call`` of the request that checks a replica
EXTRA_LISTED = 16  # number of tokens that vLLM lists in addition to top_k


class PoolMember(Protocol):
    """A sampler that draws its replies with a pool of replicas."""

    between_tokens: Callable[[], None] | None

    def weights_for(self, batch: SampleBatch) -> ServedWeights:
        """Return the weights that a batch is sampled with."""
        ...


class PendingCall:
    """New results of the requests of one call, and the error that ended the call."""

    __slots__ = ("error", "results")

    def __init__(self) -> None:
        self.results: list[tuple[int, SampleResult]] = []
        self.error: Exception | None = None


@dataclass(slots=True, eq=False)
class ReplicaRequest:
    """A request for a reply or for scores."""

    number: int  # unique in the pool
    index_in_call: int
    call: PendingCall
    served: ServedWeights
    key: Key
    kind: Literal["ask", "score"]  # "ask": a reply
    body: tuple[Any, ...]  # ids, then the seed of a reply or the first index to score
    options: Mapping[str, Any]
    version: int  # version of the weights at the time of the request
    may_change_weights: bool  # whether the reply may continue with newer weights
    num_lost_replicas: int = 0  # replicas that were lost while they worked on this request


def reply_requests(
    batches: Sequence[SampleBatch], call: PendingCall, numbers: Iterator[int]
) -> list[ReplicaRequest]:
    """Return the requests of batches, with ``index_in_call`` from 0."""
    requests: list[ReplicaRequest] = []
    for batch in batches:
        member = cast(PoolMember, batch.sampler)
        served, has_hook = member.weights_for(batch), member.between_tokens is not None
        options = sampling_options(batch.params, batch.stop_ids, vocabulary_of(served.model))
        for ids, stream, _ in batch.requests:
            body = ids, stream & (2**63 - 1)  # vLLM reads -1 as no seed
            number, index = next(numbers), len(requests)
            requests.append(
                _build_request(number, index, call, served, "ask", body, options, has_hook)
            )
    return requests


def score_requests(
    served: ServedWeights,
    prompts: Sequence[Ids],
    replies: Sequence[Sequence[Ids]],
    params: SamplingParams,
    call: PendingCall,
    numbers: Iterator[int],
) -> list[ReplicaRequest]:
    """Return the requests for log-probabilities of whole replies, with ``index_in_call`` from 0."""
    requests: list[ReplicaRequest] = []
    options = distribution(params)
    for prompt, group in zip(prompts, replies, strict=True):
        for reply in group:
            body = (*prompt, *reply), len(prompt)
            requests.append(
                _build_request(next(numbers), len(requests), call, served, "score", body, options)
            )
    return requests


def probe_request(served: ServedWeights, numbers: Iterator[int]) -> ReplicaRequest:
    """Return the request that checks a replica: the scores of the fixed ``served.probe``."""
    body = served.probe, 1
    return _build_request(
        next(numbers), PROBE_INDEX, PendingCall(), served, "score", body, {"temperature": 1.0}
    )


def _build_request(
    number: int,
    index_in_call: int,
    call: PendingCall,
    served: ServedWeights,
    kind: Literal["ask", "score"],
    body: tuple[Any, ...],
    options: Mapping[str, Any],
    may_change_weights: bool = False,
) -> ReplicaRequest:
    fields = number, index_in_call, call, served, served.key, kind, body, options
    return ReplicaRequest(*fields, served.model.version, may_change_weights)


def sampling_options(params: SamplingParams, stop_ids: Ids, vocabulary: int) -> dict[str, Any]:
    """Return the sampling parameters as JSON values.

    With ``top_k``, vLLM lists more than k tokens, because several may be as likely as the k-th one.
    """
    options = {
        "max_new_tokens": params.max_new_tokens,
        "stop_ids": list(stop_ids),
        **distribution(params),
    }
    if params.top_k:
        options["listed"] = min(params.top_k + EXTRA_LISTED, vocabulary)
    return options


def distribution(params: SamplingParams) -> dict[str, Any]:
    """Return the parameters of the distribution as JSON values."""
    fields: dict[str, Any] = {"temperature": params.temperature}
    if params.top_k:
        fields |= {"top_p": params.top_p, "top_k": params.top_k}
    return fields


def sum_scores(
    results: Mapping[int, SampleResult], replies: Sequence[Sequence[Ids]]
) -> list[FloatArray]:
    """Return the log-probability of every reply: the sum over its tokens."""
    sums = iter([math.fsum(results[index].logprobs) for index in range(len(results))])
    return [np.array([next(sums) for _ in group], dtype=np.float64) for group in replies]


def parse_answer(request: ReplicaRequest, answer: Sequence[Any]) -> SampleResult | None:
    """Return the checked answer to a request; None if it is invalid.

    Args:
        request: the request.
        answer: ids of a reply, log-probabilities, whether the reply was truncated, supports, and
            for a reply [index of the first token, id of the weights] of each span.

    Raises:
        DivergedError: a log-probability is not finite.
    """
    try:
        ids, logprobs, truncated, *details = answer
        supports = (
            tuple(tuple(sorted(map(int, token))) for token in details[0])
            if "listed" in request.options
            else ()
        )
        spans = _parse_spans(request, len(ids), details[1]) if request.kind == "ask" else ()
        result = SampleResult(
            tuple(map(int, ids)), tuple(map(float, logprobs)), bool(truncated), supports, spans
        )
    except (TypeError, ValueError, IndexError):
        return None
    length = len(result.ids)
    if request.kind == "score":
        sequence, first_index = request.body
        length = len(sequence) - first_index
    elif not 0 < length <= request.options["max_new_tokens"]:
        return None
    if len(result.logprobs) != length:
        return None
    if "listed" in request.options and not (
        len(result.support) == len(result.ids)
        and all(token in support for token, support in zip(result.ids, result.support, strict=True))
    ):
        return None
    if request.index_in_call != PROBE_INDEX and not all(
        (math.isfinite(value) or (value == -math.inf and request.kind == "score"))
        for value in result.logprobs
    ):
        raise DivergedError(NO_PROBABILITIES)
    return result


def _parse_spans(
    request: ReplicaRequest, length: int, pairs: Sequence[Any]
) -> tuple[SampledSpan, ...]:
    span_starts = [(int(token), parse_weights_id(weights_id)) for token, weights_id in pairs]
    first_tokens = [token for token, _ in span_starts]
    is_ordered = bool(span_starts) and first_tokens == sorted({0, *first_tokens})
    if not is_ordered or first_tokens[-1] >= max(length, 1):
        raise ValueError(f"spans of a reply of {length} tokens begin at {first_tokens}")
    if any(key[0] != request.served.number for _, key in span_starts):
        raise ValueError("another model's weights")
    return spans_of([(token, key[1]) for token, key in span_starts], length, request.version)
