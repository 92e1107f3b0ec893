"""What replicas answer, read and checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sparring.errors import DivergedError
from sparring.samplers.draws import LOST
from sparring.samplers.vllm.replica import PROBE, Ask
from sparring.types import FloatArray, SampleResult

Ids = tuple[int, ...]


class Call:
    """What has come of the requests of one call, and the error that has ended it."""

    __slots__ = ("error", "found")

    def __init__(self) -> None:
        self.found: list[tuple[int, SampleResult]] = []
        self.error: Exception | None = None


def totals(found: Mapping[int, SampleResult], replies: Sequence[Sequence[Ids]]) -> list[FloatArray]:
    """Return the log-probability of every reply from those of its tokens."""
    sums = iter([math.fsum(found[place].logprobs) for place in range(len(found))])
    return [np.array([next(sums) for _ in own], dtype=np.float64) for own in replies]


def answer_of(ask: Ask, answer: Sequence[Any]) -> SampleResult | None:
    """Return an answer to a request; None where it is none.

    Args:
        ask: the request.
        answer: ids of a reply, log-probabilities, whether the limit came before a stop id, and what
            truncation kept.

    Raises:
        DivergedError: a log-probability is no number.
    """
    try:
        ids, logprobs, truncated, *more = answer
        sets = tuple(tuple(sorted(map(int, one))) for one in more[0]) if "listed" in ask.way else ()
        found = SampleResult(
            tuple(map(int, ids)), tuple(map(float, logprobs)), bool(truncated), sets
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
    if "listed" in ask.way and not _keeps(found):
        return None
    if ask.place != PROBE and not all(_is_one(value, ask) for value in found.logprobs):
        raise DivergedError(LOST)
    return found


def _keeps(found: SampleResult) -> bool:
    """Return whether each id of a reply is in its kept set."""
    return len(found.kept) == len(found.ids) and all(
        one in own for one, own in zip(found.ids, found.kept, strict=True)
    )


def _is_one(value: float, ask: Ask) -> bool:
    """Return whether this is a log-probability; of a reply that truncation excludes it is -inf."""
    return math.isfinite(value) or (value == -math.inf and ask.kind == "score")
