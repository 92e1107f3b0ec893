"""Column: the exact value of the state before each turn."""

from __future__ import annotations

from sparring.columns.base import Source
from sparring.types import FloatArray

ASKS = {"tree"}


def state_value(source: Source) -> FloatArray:
    """Say what the information state before the turn is truly worth to its seat.

    What: V(state), [N], by enumeration of the game tree, with all seats following the policy of
    now.
    """
    return source.exact()["state_value"]
