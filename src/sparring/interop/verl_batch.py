"""A batch of verl as rows of turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from sparring.interop.rows import PREFIX, Rows
from sparring.interop.spans import Spans
from sparring.types import FloatArray

NUMBERS = ("old_log_probs", "rollout_log_probs", "ref_log_prob")


def numbers_of(tensor: Tensor) -> FloatArray:
    """Return a tensor as float64."""
    numbers: FloatArray = tensor.detach().double().cpu().numpy()
    return numbers


def rows_of(place: Spans, rewards: FloatArray, group: list[Any], known: Mapping[str, Any]) -> Rows:
    """Return verl's batch as rows of turns."""
    columns = {
        name.removeprefix(PREFIX): list(values)
        for name, values in known.items()
        if name.startswith(PREFIX)
    }
    found = {
        name: numbers_of(known[name])
        for name in (*NUMBERS, "values")
        if known.get(name) is not None
    }
    numbers = {}
    if "old_log_probs" in found:
        numbers["old_logprob"] = numbers["logprob"] = place.sampled(found["old_log_probs"])
    if "rollout_log_probs" in found:
        numbers["logprob"] = place.sampled(found["rollout_log_probs"])
    if "ref_log_prob" in found:
        numbers["reference_logprob"] = place.sampled(found["ref_log_prob"])
    values = found.get("values")
    if values is not None:
        numbers["value"] = place.first(values)
    return Rows(
        num_turns=place.num_turns,
        n_tokens=place.n_tokens,
        reward=place.total(rewards),
        group=group,
        columns=columns,
        numbers=numbers,
        token_value=None if values is None else values[place.mask],
    )
