"""Column: which replies answer one prompt."""

from __future__ import annotations

from sparring.columns.base import Source
from sparring.errors import ConfigError
from sparring.types import IntArray

ASKS = {"candidates"}


def state_group(source: Source) -> IntArray:
    """Number the prompts, so that replies to one prompt have the same number.

    What: a number per row, [N], equal exactly for the replies to one prompt. An estimator that
    NEEDS it gets a row for every candidate, where ``rollout.candidates.count`` is above 1; all
    others get the replies that were played alone. A reply that was not played is a trajectory of
    its own, of one turn, after the trajectory of its seat.
    """
    if source.turns.state_group is None:
        raise ConfigError(
            "The column 'state_group' is part of a table of all candidates; write "
            "turn_table(episodes, candidates=True)."
        )
    return source.turns.state_group
