"""Checks the contract of samplers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparring.core.errors import ModelError
from sparring.core.records import SampleRequest, SampleResult, SamplingParams
from sparring.core.rng import Stream
from sparring.models.samplers.base import (
    Ids,
    SampleBatch,
    Sampler,
    backend_of,
    sample,
    stream_backend_replies,
)

PARAMS = SamplingParams(max_new_tokens=3, temperature=0.9)
LOGPROB_TOLERANCE = 1e-5  # tolerance for samplers that are not invariant
SCORE_TOLERANCE = 1e-4  # tolerance for the sum of a reply's log-probabilities
BATCH_SIZES = (1, 2, 3, 7)  # numbers of requests in a call


def check_sampler(
    make: Callable[[], Sampler],
    *,
    vocabulary: int,
    stop_ids: Ids,
    weights: Mapping[str, Any] | None = None,
    conversations: int = 16,
    seed: int = 0,
) -> None:
    """Check a sampler on random conversations of two turns.

    The sampler must yield the index of each request once; a reply must end with the first stop id
    or at the limit. A reply must not depend on the order of requests, on calls, or on
    caches: ids must be equal, and log-probabilities within 1e-5, or equal if the sampler is
    ``invariant``. Scores must be sums of log-probabilities. The sampler must raise ModelError for a
    conversation that is too long, and use the new weights after ``publish``.

    Args:
        make: returns a new sampler, always with the same weights.
        vocabulary: number of tokens.
        stop_ids: ids that end a reply.
        weights: the weights that are published; None: ``publish`` is not checked.
        conversations: number of conversations.
        seed: seed of the conversations.

    Raises:
        AssertionError: the sampler breaks one of these rules.
    """
    root = Stream.from_seed(seed)
    openings = _make_openings(root, conversations, min(make().context // 2, 40), vocabulary)
    sampler, request_order = make(), list(range(len(openings)))
    replies = _draw_all(sampler, openings, request_order, len(openings), stop_ids)
    for result in replies:
        check_reply(result, PARAMS, vocabulary, stop_ids)
    follow_ups = [
        _add_turn(*pair, root, vocabulary) for pair in zip(openings, replies, strict=True)
    ]
    later_replies = _draw_all(sampler, follow_ups, request_order, len(follow_ups), stop_ids)
    shuffled = sorted(request_order, key=lambda index: root.child("order").integer(index, 1 << 30))
    for size in BATCH_SIZES:
        for order in (request_order, shuffled):
            other, order_name = make(), "another" if order is shuffled else "the same"
            case = f"requests in {order_name} order, {size} per call"
            _compare(sampler, replies, _draw_all(other, openings, order, size, stop_ids), case)
            _compare(
                sampler, later_replies, _draw_all(other, follow_ups, order, size, stop_ids), case
            )
            other_replies = _draw_all(make(), follow_ups, order, size, stop_ids)
            _compare(sampler, later_replies, other_replies, f"a new sampler and {case}")
    _check_scores(sampler, openings, replies)
    _check_length(sampler, stop_ids)
    if weights is not None:
        _check_publish(sampler, weights, openings, replies, stop_ids)


def check_backend(
    make: Callable[[], Sequence[Sampler]],
    *,
    vocabulary: int,
    stop_ids: Ids,
    conversations: int = 6,
    seed: int = 0,
) -> None:
    """Check a backend that draws for several samplers in one call, on conversations of two turns.

    Each sampler must reply as in a separate call: ids must be equal, and log-probabilities within
    1e-5, or equal if the sampler is ``invariant``.

    Args:
        make: returns new samplers of one backend, at least two, always with the same weights.
        vocabulary: number of tokens.
        stop_ids: ids that end a reply.
        conversations: number of conversations; each sampler gets the same conversations.
        seed: seed of the conversations.

    Raises:
        AssertionError: the backend breaks one of these rules.
    """
    root, samplers, single_samplers = Stream.from_seed(seed), make(), make()
    assert len(samplers) > 1, "Return at least two samplers."
    backends = [backend_of(sampler) for sampler in samplers]
    assert None not in backends and len(set(backends)) == 1, (
        f"The backends are {backends}; samplers of one joint call must share a backend."
    )
    max_length = min(*(sampler.context // 2 for sampler in samplers), 40)
    all_requests = [_make_openings(root, conversations, max_length, vocabulary)] * len(samplers)
    for turn in range(2):
        replies = [
            _draw_all(sampler, results, range(len(results)), len(results), stop_ids)
            for sampler, results in zip(single_samplers, all_requests, strict=True)
        ]
        for indices in (range(len(samplers)), *((index,) for index in range(len(samplers)))):
            for joint_samplers in (make(), samplers):
                chosen_samplers = [joint_samplers[index] for index in indices]
                requests = [all_requests[index] for index in indices]
                all_results = _sample_all(chosen_samplers, requests, stop_ids)
                for index, results in zip(indices, all_results, strict=True):
                    _compare(samplers[index], replies[index], results, "other samplers")
        all_requests = [
            [_add_turn(*pair, root.child(turn), vocabulary) for pair in zip(*batches, strict=True)]
            for batches in zip(all_requests, replies, strict=True)
        ]
    joint_results = _sample_all(
        [samplers[0], samplers[1], samplers[0]], [all_requests[0], [], all_requests[0]], stop_ids
    )
    assert joint_results[0] == joint_results[2] and not joint_results[1], (
        "A sampler that gets the same requests in two batches returns different replies."
    )


def _sample_all(
    samplers: Sequence[Sampler], requests: Sequence[Sequence[SampleRequest]], stop_ids: Ids
) -> list[list[SampleResult]]:
    pairs = zip(samplers, requests, strict=True)
    batches = [SampleBatch(sampler, batch, PARAMS, stop_ids) for sampler, batch in pairs]
    backend = backend_of(samplers[0])
    assert backend is not None, "the samplers have a backend"
    finished = stream_backend_replies(backend, batches)
    results = {index: result for part in finished for index, result in part}
    indices = iter(range(len(results)))
    return [[results[next(indices)] for _ in batch] for batch in requests]


def check_reply(
    result: SampleResult, params: SamplingParams, vocabulary: int, stop_ids: Ids
) -> None:
    """Check the length, the ids, the end and the log-probabilities of one reply."""
    ids, has_stop = result.ids, bool(result.ids) and result.ids[-1] in stop_ids
    assert 1 <= len(ids) <= params.max_new_tokens, (
        f"A reply has 1 to max_new_tokens ids, not {ids}."
    )
    assert all(0 <= token < vocabulary for token in ids), f"{ids} has ids that are not tokens."
    assert not set(ids[:-1]) & set(stop_ids), f"{ids} continues after a stop id of {stop_ids}."
    assert result.truncated is not has_stop, (
        f"The reply {ids} has truncated={result.truncated}; true means that it lacks a stop id."
    )
    assert has_stop or len(ids) == params.max_new_tokens, f"{ids} ends before a stop id or limit."
    valid_flags = [math.isfinite(value) and value <= 1e-6 for value in result.logprobs]
    assert len(valid_flags) == len(ids) and all(valid_flags), (
        f"The log-probabilities of {ids} are {result.logprobs}; return a finite one for each id."
    )


def _make_openings(root: Stream, count: int, length: int, vocabulary: int) -> list[SampleRequest]:
    prefix = [root.child("rules").integer(counter, vocabulary) for counter in range(length)]
    requests = []
    for number in range(count):
        opening_stream = root.child("opening").child(number)
        ending = tuple(opening_stream.integer(counter, vocabulary) for counter in range(number % 3))
        ids = (*prefix[: 1 + opening_stream.integer(9, length - 3)], *ending)
        stream = root.child("reply").child(number).key
        requests.append(SampleRequest(ids=ids, stream=stream))
    return [*requests, SampleRequest(ids=requests[-1].ids, stream=root.child("equal").key)]


def _add_turn(
    request: SampleRequest, result: SampleResult, root: Stream, vocabulary: int
) -> SampleRequest:
    draws = root.child("next").child(request.stream)
    ids = request.ids + result.ids
    new_ids = tuple(draws.integer(counter, vocabulary) for counter in range(1 + request.stream % 4))
    return SampleRequest(ids=ids + new_ids, stream=draws.key, num_cached_ids=len(ids) - 1)


def _draw_all(
    sampler: Sampler,
    requests: Sequence[SampleRequest],
    order: Sequence[int],
    size: int,
    stop_ids: Ids,
) -> list[SampleResult]:
    results: dict[int, SampleResult] = {}
    for start in range(0, len(order), size):
        batch_indices = order[start : start + size]
        batch = [requests[index] for index in batch_indices]
        results |= dict(zip(batch_indices, sample(sampler, batch, PARAMS, stop_ids), strict=True))
    return [results[index] for index in range(len(requests))]


def _compare(
    sampler: Sampler, expected: Sequence[SampleResult], actual: Sequence[SampleResult], case: str
) -> None:
    for reply, other in zip(expected, actual, strict=True):
        assert reply.ids == other.ids, (
            f"With {case}, a reply is {other.ids}, but {reply.ids} in one call for all. "
            "Draw t of a reply must be draw t of its request's stream."
        )
        if sampler.invariant:
            assert reply == other, (
                f"With {case}, log-probabilities are {other.logprobs}, but "
                f"{reply.logprobs} in one call for all. Return invariant=False, or compute each "
                "row of a batch without the other rows."
            )
        pairs = zip(reply.logprobs, other.logprobs, strict=True)
        assert all(abs(a - b) <= LOGPROB_TOLERANCE for a, b in pairs), (
            f"With {case}, log-probabilities are {other.logprobs}, but "
            f"{reply.logprobs} in one call for all; the difference is larger than 1e-5."
        )


def _check_scores(
    sampler: Sampler, requests: Sequence[SampleRequest], results: Sequence[SampleResult]
) -> None:
    if sampler.score is None:
        return
    prompts, replies = [request.ids for request in requests], [[result.ids] for result in results]
    for result, scores in zip(results, sampler.score(prompts, replies, PARAMS), strict=True):
        assert abs(scores[0] - sum(result.logprobs)) <= SCORE_TOLERANCE, (
            f"score returns {scores[0]} for the reply {result.ids}, whose log-probabilities are "
            f"{result.logprobs}."
        )


def _check_length(sampler: Sampler, stop_ids: Ids) -> None:
    too_long_request = SampleRequest(ids=(stop_ids[0],) * sampler.context, stream=0)
    try:
        sample(sampler, [too_long_request], PARAMS, stop_ids)
    except ModelError:
        return
    raise AssertionError(
        f"The sampler has context={sampler.context}, but accepted a prompt of as many ids, which "
        "leaves no room for a reply; raise ModelError."
    )


def _check_publish(
    sampler: Sampler,
    weights: Mapping[str, Any],
    requests: Sequence[SampleRequest],
    replies: Sequence[SampleResult],
    stop_ids: Ids,
) -> None:
    copies = {name: weight.clone() for name, weight in weights.items()}
    old_version = sampler.version
    order = range(len(requests))
    for number, factor in enumerate((0.5, 1.0), old_version + 1):
        version = sampler.publish({name: factor * copies[name] for name in copies}, number)
        assert version == sampler.version == number, (
            f"publish was given version {number}, returned {version}, and version is "
            f"{sampler.version}."
        )
        new_replies = _draw_all(sampler, requests, order, len(requests), stop_ids)
        changed = [a.logprobs != b.logprobs for a, b in zip(replies, new_replies, strict=True)]
        assert factor == 1.0 or all(changed), "publish got new weights, but replies stayed equal."
    _compare(sampler, replies, new_replies, "the first weights published again")
