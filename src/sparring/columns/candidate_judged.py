"""Column: whether anything judged a reply among several."""

from __future__ import annotations

import numpy as np

from sparring.columns.base import Source
from sparring.rollout.table import ordered_turns
from sparring.types import BoolArray

ASKS = {"candidates"}


def candidate_judged(source: Source) -> BoolArray:
    """Say whether a reply has a ``candidate_value``.

    What: true or false per row, [N].
    """
    turns = ordered_turns(source.episodes, candidates=True)
    return np.array([turn.score is not None for _, turn in turns], dtype=bool)
