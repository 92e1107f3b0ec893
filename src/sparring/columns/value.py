"""Column: the critic's value before each turn."""

from __future__ import annotations

from sparring.columns.base import Source
from sparring.types import FloatArray

ASKS = {"critic"}


def value(source: Source) -> FloatArray:
    """Say what the critic expects before the turn.

    The seat has been told and has said nothing yet.

    What: the value head at the last token that the seat was given, [N], in the environment's units
    times its scale.
    """
    return source.critic("before")
