"""A stored episode as one value of JSON: what `sparring show --json` and the viewer show."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sparring.rollout.credit_store import Credits
from sparring.rollout.turn_record import turn_record
from sparring.types import Episode


def episode_record(step: int, episode: Episode, credit: Credits) -> dict[str, Any]:
    """Return all that is stored of an episode.

    Args:
        step: it was played in.
        episode: what is shown.
        credit: of ``Stored.credit``.
    """
    return {
        "step": step,
        "episode": asdict(episode) | {"turns": [turn_record(turn) for turn in episode.turns]},
        "credit": list(credit.values()),
    }


def finite(value: Any) -> Any:
    """Return a value as JSON may hold it: numbers that are not finite as null, sets as lists."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): finite(part) for key, part in value.items()}
    if isinstance(value, set | frozenset):
        return [finite(part) for part in sorted(value)]
    return [finite(part) for part in value] if isinstance(value, list | tuple) else value
