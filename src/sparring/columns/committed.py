"""Column: whether a reply was played."""

from __future__ import annotations

from sparring.columns.base import Source
from sparring.errors import ConfigError
from sparring.types import BoolArray

ASKS = {"candidates"}


def committed(source: Source) -> BoolArray:
    """Say whether the play went on from a reply.

    What: true or false per row, [N]; one row of each ``state_group`` is true. An estimator that
    NEEDS it gets a row for every candidate, as with the column ``state_group``.
    """
    if source.turns.committed is None:
        raise ConfigError(
            "The column 'committed' is part of a table of all candidates; write "
            "turn_table(episodes, candidates=True)."
        )
    return source.turns.committed
