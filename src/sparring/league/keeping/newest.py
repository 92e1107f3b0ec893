"""Keep the newest snapshots."""

from __future__ import annotations

from sparring.core.records import PlayerRef
from sparring.league.keeping.base import KeepRequest


def newest(request: KeepRequest) -> tuple[PlayerRef, ...]:
    """Keep the newest snapshots.

    What: the oldest snapshot leaves whenever there are too many.
    When to use: for opponents of about the learner's strength: a window over the last
    ``league.every`` * ``league.keep`` steps, as in delta-uniform self-play.
    Mathematics: numbered from 1, oldest first, these of n snapshots stay:

        {n - keep + 1, ..., n}

    Pitfalls: opponents that beat the learner long ago never return, so that play may cycle (rock,
    paper, scissors). ``spread`` keeps some of every age.
    Reference: Bansal et al., 2018 (arXiv 1710.03748): opponents are drawn from the newest share of
    the history.
    Verified by: tests/league/keeping/test_newest.py.
    """
    return tuple(request.members[-request.keep :])
