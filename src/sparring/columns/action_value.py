"""Column: the exact value of what was played."""

from __future__ import annotations

from sparring.columns.base import Source
from sparring.types import FloatArray

ASKS = {"tree"}


def action_value(source: Source) -> FloatArray:
    """Say what the action that was played is truly worth to its seat.

    What: Q(state, action), [N], by enumeration of the game tree, with all seats following the
    policy of now, renormalised over legal actions. A reply that was no legal action is worth what
    its turn was paid. For games small enough (``evaluation.max_states``).
    """
    return source.exact()["action_value"]
