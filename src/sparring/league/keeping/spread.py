"""Keep snapshots at even distances in the history."""

from __future__ import annotations

from sparring.core.records import PlayerRef
from sparring.league.keeping.base import KeepRequest


def spread(request: KeepRequest) -> tuple[PlayerRef, ...]:
    """Keep the oldest and the newest snapshot, and others at even distances between them.

    What: while there are too many, the snapshot whose two neighbours are closest to each other
    leaves; of equal ones the oldest.
    When to use: the default. Opponents of all stages of the run stay, against forgetting.
    Mathematics: of snapshots at steps s_1 < ... < s_n the one with the smallest gap leaves,

        i* = argmin over 1 < i < n of s_{i+1} - s_{i-1}

    With two snapshots the older one leaves.
    Pitfalls: among few snapshots most are old ones, which the learner beats. ``newest`` helps, and
    so does a matchmaker that weighs them by their results.
    Reference: none; the usual thinning of a history to a fixed number.
    Verified by: tests/league/keeping/test_spread.py.
    """
    remaining = list(request.members)
    while len(remaining) > request.keep:
        steps = [member.step or 0 for member in remaining]
        gaps = [steps[i + 1] - steps[i - 1] for i in range(1, len(steps) - 1)]
        del remaining[1 + gaps.index(min(gaps)) if gaps else 0]
    return tuple(remaining)
