"""Replay: none; the update uses every episode once."""

from __future__ import annotations

from sparring.methods.selection.replay.base import ReplayPlan, ReplayRequest


def none(request: ReplayRequest) -> ReplayPlan:
    """Store and replay no episodes.

    What: every step trains only on its episodes.
    When to use: the default; on-policy gradients need no correction.
    Pitfalls: the update uses costly episodes and rare successes only once.
    Reference: none.
    Verified by: tests/methods/selection/replay/test_rules.py,
    tests/methods/selection/replay/test_rule_properties.py.
    """
    return ReplayPlan()
