"""Column: what the position after each turn is worth, by playing on from it."""

from __future__ import annotations

from sparring.columns.base import Source, played_on
from sparring.types import FloatArray

ASKS = {"playouts"}


def playout(source: Source) -> FloatArray:
    """Say what games that were played on from after the turn paid its seat in the mean.

    What: [N], in the game's units. After the last turn of a play it is the play's own return.
    ``rollout.playouts`` is the number of games for each turn. Where no game could be played before
    a turn, or after it, both columns have the play's own return there, so that their difference
    says nothing.
    """
    return played_on(source, "playout")
