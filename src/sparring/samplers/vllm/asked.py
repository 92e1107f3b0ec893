"""How replies are drawn, as replicas are told it."""

from __future__ import annotations

from typing import Any

from sparring.samplers.base import Ids
from sparring.types import SamplingParams

SPARE = 16  # tokens that are listed besides those that truncation may keep


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
