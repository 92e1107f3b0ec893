"""Credit: difference rewards, what an action changed against a default action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from sparring.credit.base import check
from sparring.types import Credit, TurnTable

NEEDS = {"action_values"}


def difference_rewards(turns: TurnTable, state: Mapping[str, Any], *, default: Literal["uniform", "policy"] = "uniform") -> Credit:
    """Credit an agent with what would have been missing had it done something ordinary instead.

    What: the return with the action that was played minus the return with a default action in its place, everyone going on with
    the policy. Both are exact expectations from the game tree, not a second roll-out.
    When to use: teams, to tell an agent's own part from what the others would have reached anyway; games small enough to enumerate.
    Mathematics: D = Q(s, a) - mean over legal a' of Q(s, a') ("uniform"), or - sum over a' of policy(a' | s) Q(s, a') ("policy").
    Shapes: advantages [N].
    Options: ``default`` is what the agent is taken to have done instead: a legal action drawn uniformly, or one drawn by its own
    policy (the aristocrat utility), which is ``exact_advantage``.
    Pitfalls: unbiased with either default, for it depends on where the agent stood and not on what it did; but with "uniform" a good
    policy's advantages are mostly positive, so their mean is not 0 and their variance larger. The pitfalls of
    ``exact_advantage`` hold. The original D uses the realised states; this is its expectation.
    Reference: Wolpert and Tumer, 2002; Agogino and Tumer, 2008; Foerster et al., 2018 (arXiv 1705.08926, section on COMA's origin).
    Verified by: tests/credit/test_difference_rewards.py.

    Raises:
        CreditError: a reward or value is not finite, or the exact values are missing.
    """
    column = "default_value" if default == "uniform" else "state_value"
    check(turns, "difference_rewards", columns=("action_value", column))
    assert turns.action_value is not None
    return Credit(advantages=turns.action_value - getattr(turns, column), state=dict(state))
