"""Column: what judged the replies to a prompt said of each."""

from __future__ import annotations

import numpy as np

from sparring.columns.base import Source
from sparring.rollout.table import ordered_turns
from sparring.types import FloatArray

ASKS = {"candidates"}


def candidate_value(source: Source) -> FloatArray:
    """Say what each of several replies to a prompt was judged by.

    What: [N], the score of a reply: of the run's rewards or the oracle, as
    ``rollout.candidates.by`` says, or of ``knowledge``; 0 where nothing judged it, which
    ``candidate_judged`` tells. Values of different prompts need not be comparable.
    """
    scores = (turn.score for _, turn in ordered_turns(source.episodes, candidates=True))
    return np.array([score or 0.0 for score in scores], dtype=np.float64)
