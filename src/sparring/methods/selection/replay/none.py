"""Replay: none; every game is trained on once."""

from __future__ import annotations

from sparring.methods.selection.replay.base import ReplayPlan, ReplayRequest


def none(request: ReplayRequest) -> ReplayPlan:
    """Keep no games and replay none.

    What: every step learns from its own games alone.
    When to use: the default; on-policy gradients need no correction.
    Pitfalls: games that were costly to play, and rare successes, are used once.
    Reference: none.
    Verified by: tests/methods/selection/replay/test_rules.py,
    tests/methods/selection/replay/test_rule_properties.py.
    """
    return ReplayPlan()
