"""Several replies to one prompt, of which one is played.

In every decision of a trained seat the policy replies K times. Each reply is judged, one is
*committed* and the play goes on from there; all K are recorded as one state group. Reply 0 is drawn
from the stream of a decision without candidates, so a run in which reply 0 is always committed
plays what a run without candidates plays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from sparring.rng import Stream
from sparring.types import Episode

Commit = Literal["best", "any_best", "random"]
# what each turn of these episodes is worth, a row per episode; None where nothing says so
Grade = Callable[[Sequence[Episode]], Sequence[Sequence[float | None]]]


@dataclass(frozen=True, slots=True)
class Candidates:
    """How the replies to one prompt are drawn, judged and chosen."""

    count: int  # replies to each prompt, at least 2
    grade: Grade  # judges them
    commit: Commit = "any_best"  # see ``chosen``
    explore: float = 0.0  # share of the decisions in which ``random`` is committed


def chosen(scores: Sequence[float | None], commit: Commit, explore: float, stream: Stream) -> int:
    """Return the number of the reply that is committed.

    Args:
        scores: of the replies; one that nothing could judge (None) is below all that were judged.
        commit: "best", the first of the largest score; "any_best", one of these, drawn uniformly;
            "random", reply 0, since all are drawn alike.
        explore: probability of "random" instead.
        stream: of the decision.
    """
    judged = [score for score in scores if score is not None]
    if commit == "random" or not judged or (explore and stream.uniform(0) < explore):
        return 0
    best = [number for number, score in enumerate(scores) if score == max(judged)]
    return best[0] if commit == "best" else best[stream.integer(1, len(best))]
