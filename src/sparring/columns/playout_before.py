"""Column: what the position before each turn is worth, by playing on from it."""

from __future__ import annotations

from sparring.columns.base import Source, played_on
from sparring.types import FloatArray

ASKS = {"playouts"}


def playout_before(source: Source) -> FloatArray:
    """Say what games that were played on from before the turn paid its seat in the mean.

    What: [N], in the game's units. Where the position is that after an earlier turn, it is the same
    games' mean as in the column ``playout``; what stands where no game could be played is said
    there.
    """
    return played_on(source, "playout_before")
