"""Column: who else played."""

from __future__ import annotations

import numpy as np

from sparring.columns.base import Source
from sparring.rollout.table import ordered_turns
from sparring.types import IntArray


def opponents(source: Source) -> IntArray:
    """Number the players of the other seats, so that turns against the same ones are alike.

    What: a number per row, [N], equal exactly where the same players (by name) sat in the other
    seats, in the same order. A partner counts as well. Numbers are in order of appearance and mean
    nothing from one batch to the next.
    """
    numbers: dict[tuple[str, ...], int] = {}
    rows = ordered_turns(source.episodes, candidates=source.turns.state_group is not None)
    found = [
        numbers.setdefault(
            (*episode.agents[: turn.seat], *episode.agents[turn.seat + 1 :]), len(numbers)
        )
        for episode, turn in rows
    ]
    return np.array(found, dtype=np.int64)
