"""What replicas answer, read and checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sparring.errors import DivergedError
from sparring.samplers.draws import LOST, runs_of
from sparring.samplers.vllm.asked import PROBE, Ask
from sparring.samplers.vllm.weights import key_of
from sparring.types import FloatArray, SampledRun, SampleResult

Ids = tuple[int, ...]


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
    if "listed" in ask.way and not _keeps(found):
        return None
    if ask.place != PROBE and not all(_is_one(value, ask) for value in found.logprobs):
        raise DivergedError(LOST)
    return found


def _runs(ask: Ask, length: int, said: Sequence[Any]) -> tuple[SampledRun, ...]:
    """Return the sampled runs of a reply.

    Raises:
        ValueError: they are not of this model, or not of this reply.
    """
    begins = [(int(token), key_of(salt)) for token, salt in said]
    places = [token for token, _ in begins]
    if not begins or places != sorted({0, *places}) or places[-1] >= max(length, 1):
        raise ValueError(f"runs of a reply of {length} tokens begin at {places}")
    if any(key[0] != ask.served.number for _, key in begins):
        raise ValueError("another model's weights")
    return runs_of([(token, key[1]) for token, key in begins], length, ask.begun)


def _keeps(found: SampleResult) -> bool:
    """Return whether each id of a reply is in its kept set."""
    return len(found.kept) == len(found.ids) and all(
        one in own for one, own in zip(found.ids, found.kept, strict=True)
    )


def _is_one(value: float, ask: Ask) -> bool:
    """Return whether this is a log-probability; of a reply that truncation excludes it is -inf."""
    return math.isfinite(value) or (value == -math.inf and ask.kind == "score")
