"""What replicas are asked, and how replies are drawn, as they are told it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast

from sparring.samplers.base import Ids, Lot
from sparring.samplers.of_model import vocabulary_of
from sparring.samplers.vllm.weights import Key, Served
from sparring.types import SampleResult, SamplingParams

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


def betweens(lots: Sequence[Lot]) -> tuple[Callable[[], None], ...]:
    """Return what the samplers of some lots call while replies are awaited, each once."""
    found = [cast(Member, lot.sampler).between for lot in lots]
    return tuple(dict.fromkeys(one for one in found if one is not None))


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
    """Return a request for weights of now."""
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
