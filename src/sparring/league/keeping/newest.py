"""The last snapshots alone."""

from __future__ import annotations

from sparring.core.records import PlayerRef
from sparring.league.keeping.base import KeepRequest


def newest(request: KeepRequest) -> tuple[PlayerRef, ...]:
    """Keep the snapshots that were taken last.

    What: the oldest snapshot leaves whenever there are too many.
    When to use: opponents of about the learner's strength are wanted: a window over the last
    ``league.every`` * ``league.keep`` steps, as in delta-uniform self-play.
    Mathematics: of n snapshots, oldest first, these stay:

        kept = {n - keep + 1, ..., n}

    Pitfalls: what beat the learner long ago is not met again, so that play may go in circles
    (rock, paper, scissors); ``spread`` keeps some of every age.
    Reference: Bansal et al., 2018 (arXiv 1710.03748): opponents are drawn from the newest share of
    the history.
    Verified by: tests/league/keeping/test_newest.py.
    """
    return tuple(request.members[-request.keep :])
