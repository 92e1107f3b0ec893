"""Where the critic reads a conversation: before a turn, after it, or before each of its sampled
tokens.

It is fitted where the estimator reads it. Legend: as in ``pack.py``; K values asked for.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from sparring.columns.base import Place
from sparring.learn.pack import Pack
from sparring.types import IntArray


def fitted_at(needs: Collection[str]) -> Place:
    """Return where an estimator with these NEEDS wants the critic fitted.

    "value" is before a turn, whatever else is needed; then "token_value" before each token;
    "value_after" alone after a turn.
    """
    if "value" in needs:
        return "before"
    if "token_value" in needs:
        return "token"
    return "after" if "value_after" in needs else "before"


def read_at(data: Pack, place: Place, which: IntArray) -> tuple[IntArray, IntArray]:
    """Return the distinct sequence and the position [K] that the critic reads.

    Args:
        data: the pack.
        place: "before" is the last token the seat was given, "after" the last one of its reply,
            "token" the one before each token.
        which: turns [K], rows of the turn table; for "token" sampled tokens [K], indices into the
            pack.
    """
    if place == "token":
        return data.ask[data.turn_of[which], 0], data.position_of[which] - 1
    sequence, position = data.ask[which, 0], data.ask[which, 1]
    if place == "before":
        return sequence, position
    begin, end = (np.searchsorted(data.turn_of, which, side=side) for side in ("left", "right"))
    said = end > begin  # else the reply is empty, and nothing came after what was asked
    position = position.copy()
    position[said] = data.position_of[end[said] - 1]
    return sequence, position


def num_values(data: Pack, place: Place, tokens: IntArray) -> int:
    """Return how many values are fitted where these sampled tokens are trained."""
    return len(tokens) if place == "token" else len(np.unique(data.turn_of[tokens]))
