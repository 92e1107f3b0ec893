"""What replicas are asked, how replies are drawn, and what replicas answer, read and checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast

import numpy as np

from sparring.core.errors import DivergedError
from sparring.core.records import FloatArray, SampledRun, SampleResult, SamplingParams
from sparring.models.samplers.base import Ids, Lot
from sparring.models.samplers.in_process import LOST, runs_of, vocabulary_of
from sparring.models.samplers.vllm.weights import Key, Served, key_of

PROBE = -1  # place of the request that tries a replica
SPARE = 16  # tokens that are listed besides those that truncation may keep


class Member(Protocol):
    """A sampler of a pool."""

    between: Callable[[], None] | None

    def ready(self, lot: Lot) -> Served:
        """Return the weights that a lot is drawn with."""
        ...


class Call:
    """What has come of the requests of one call, and the error that has ended it."""

    __slots__ = ("error", "found")

    def __init__(self) -> None:
        self.found: list[tuple[int, SampleResult]] = []
        self.error: Exception | None = None


@dataclass(slots=True, eq=False)
class Ask:
    """One request: what is asked, of which weights, and how many replicas were lost over it."""

    number: int
    place: int
    call: Call
    served: Served
    key: Key
    kind: Literal["ask", "score"]
    body: tuple[Any, ...]  # ids, and the seed or where scoring begins
    way: Mapping[str, Any]
    begun: int  # version of the weights of when it was asked
    renews: bool  # whether its reply goes on with newer weights
    lost: int = 0


def replies_to(lots: Sequence[Lot], call: Call, numbers: Iterator[int]) -> list[Ask]:
    """Return the requests of some lots, with their places."""
    found: list[Ask] = []
    for lot in lots:
        member = cast(Member, lot.sampler)
        served, renews = member.ready(lot), member.between is not None
        way = way_of(lot.params, lot.stop_ids, vocabulary_of(served.model))
        for ids, stream, _ in lot.requests:
            body = ids, stream & (2**63 - 1)  # -1 would be no seed
            found.append(_ask(next(numbers), len(found), call, served, "ask", body, way, renews))
    return found


def scores_of(
    served: Served,
    prompts: Sequence[Ids],
    replies: Sequence[Sequence[Ids]],
    params: SamplingParams,
    call: Call,
    numbers: Iterator[int],
) -> list[Ask]:
    """Return the requests for the log-probabilities of whole replies, with their places."""
    found: list[Ask] = []
    way = distribution(params)
    for prompt, own in zip(prompts, replies, strict=True):
        for reply in own:
            body = (*prompt, *reply), len(prompt)
            found.append(_ask(next(numbers), len(found), call, served, "score", body, way))
    return found


def probe_to(served: Served, numbers: Iterator[int]) -> Ask:
    """Return the request that tries a replica on the conversation that is the same always."""
    body = served.probe, 1
    return _ask(next(numbers), PROBE, Call(), served, "score", body, {"temperature": 1.0})


def _ask(
    number: int,
    place: int,
    call: Call,
    served: Served,
    kind: Literal["ask", "score"],
    body: tuple[Any, ...],
    way: Mapping[str, Any],
    renews: bool = False,
) -> Ask:
    begun = served.model.version
    return Ask(number, place, call, served, served.key, kind, body, way, begun, renews)


def way_of(params: SamplingParams, stop_ids: Ids, vocabulary: int) -> dict[str, Any]:
    """Return how replies are drawn, as values of JSON.

    Where some tokens are kept, more are listed, so that all of them are: several may be as likely
    as the last.
    """
    way = {
        "max_new_tokens": params.max_new_tokens,
        "stop_ids": list(stop_ids),
        **distribution(params),
    }
    if params.top_k:
        way["listed"] = min(params.top_k + SPARE, vocabulary)
    return way


def distribution(params: SamplingParams) -> dict[str, Any]:
    """Return what is drawn from, as values of JSON."""
    found: dict[str, Any] = {"temperature": params.temperature}
    if params.top_k:
        found |= {"top_p": params.top_p, "top_k": params.top_k}
    return found


def totals(found: Mapping[int, SampleResult], replies: Sequence[Sequence[Ids]]) -> list[FloatArray]:
    """Return the log-probability of every reply from those of its tokens."""
    sums = iter([math.fsum(found[place].logprobs) for place in range(len(found))])
    return [np.array([next(sums) for _ in own], dtype=np.float64) for own in replies]


def answer_of(ask: Ask, answer: Sequence[Any]) -> SampleResult | None:
    """Return an answer to a request; None where it is none.

    Args:
        ask: the request.
        answer: ids of a reply, log-probabilities, whether the limit came before a stop id, and what
            truncation kept, and of a reply where each run begins and what its weights are called.

    Raises:
        DivergedError: a log-probability is no number.
    """
    try:
        ids, logprobs, truncated, *more = answer
        sets = tuple(tuple(sorted(map(int, one))) for one in more[0]) if "listed" in ask.way else ()
        runs = _runs(ask, len(ids), more[1]) if ask.kind == "ask" else ()
        found = SampleResult(
            tuple(map(int, ids)), tuple(map(float, logprobs)), bool(truncated), sets, runs
        )
    except (TypeError, ValueError, IndexError):
        return None
    wanted = len(found.ids)
    if ask.kind == "score":
        own, begin = ask.body
        wanted = len(own) - begin
    elif not 0 < wanted <= ask.way["max_new_tokens"]:
        return None
    if len(found.logprobs) != wanted:
        return None
    if "listed" in ask.way and not (
        len(found.kept) == len(found.ids)
        and all(one in own for one, own in zip(found.ids, found.kept, strict=True))
    ):
        return None
    if ask.place != PROBE and not all(
        (math.isfinite(value) or (value == -math.inf and ask.kind == "score"))
        for value in found.logprobs
    ):
        raise DivergedError(LOST)
    return found


def _runs(ask: Ask, length: int, said: Sequence[Any]) -> tuple[SampledRun, ...]:
    begins = [(int(token), key_of(salt)) for token, salt in said]
    places = [token for token, _ in begins]
    if not begins or places != sorted({0, *places}) or places[-1] >= max(length, 1):
        raise ValueError(f"runs of a reply of {length} tokens begin at {places}")
    if any(key[0] != ask.served.number for _, key in begins):
        raise ValueError("another model's weights")
    return runs_of([(token, key[1]) for token, key in begins], length, ask.begun)
