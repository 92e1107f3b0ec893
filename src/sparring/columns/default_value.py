"""Column: the exact value of a random legal action."""

from __future__ import annotations

from sparring.columns.base import Source
from sparring.types import FloatArray

ASKS = {"tree"}


def default_value(source: Source) -> FloatArray:
    """Say what a legal action drawn uniformly is truly worth to the seat.

    What: the mean over legal actions of Q(state, action), [N], by enumeration of the game tree.
    """
    return source.exact()["default_value"]
