"""Credit: difference rewards, the effect of an action compared with a default action."""

from __future__ import annotations

from typing import Literal

from sparring.core.records import Credit, TurnTable

NEEDS = {"action_value"}
NEEDS_BY = {"default": {"uniform": {"default_value"}, "policy": {"state_value"}}}


def difference_rewards(
    turns: TurnTable, *, default: Literal["uniform", "policy"] = "uniform"
) -> Credit:
    """Credit an action with its exact value minus that of a default action.

    What: The return with the action that was played, minus the return with a default action in its
    place. Afterwards all seats follow the policy. The default action is a legal action drawn
    uniformly, or one drawn by the seat's own policy. Both returns are exact expectations from the
    game tree, not a second rollout.
    When to use: teams, to separate an agent's contribution from the result of the others. The game
    must be small enough to enumerate.
    Mathematics:
        D = Q(s, a) - mean over legal a' of Q(s, a')          ("uniform")
        D = Q(s, a) - sum over a' of policy(a' | s) Q(s, a')  ("policy")
    Shapes: advantages [N].
    Pitfalls: Both defaults are unbiased, because the subtracted term depends on the agent's state
    and not on its action. With "uniform" most advantages of a good policy are positive. So their
    mean is not 0 and their variance is larger. "policy" is the aristocrat utility; it equals
    ``exact_advantage``, with the same pitfalls. This D is the expectation of the original D.
    Reference: Wolpert and Tumer, 2002; Agogino and Tumer, 2008; Foerster et al., 2018 (arXiv
    1705.08926, section on COMA's origin).
    Verified by: tests/methods/credit/test_exact_values.py.

    Args:
        default: how the default action is drawn: "uniform" over legal actions, or by the "policy".
    """
    column = "default_value" if default == "uniform" else "state_value"
    return Credit(advantages=turns.column("action_value") - turns.column(column))
