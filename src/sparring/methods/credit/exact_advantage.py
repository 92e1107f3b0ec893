"""Credit: the exact advantage of every action, from the game tree."""

from __future__ import annotations

from sparring.core.records import FloatArray, TurnTable

NEEDS = {"action_value", "state_value"}


def exact_advantage(turns: TurnTable) -> FloatArray:
    """Judge a turn by the exact value of its action, not by the sampled outcome.

    What: The exact value of the action, minus the exact value of the seat's state, if all seats
    follow the policy that played. Both come from an enumeration of the game. Other estimators are
    measured against this one.
    When to use: to measure the effect of credit without noise, in games small enough to enumerate;
    to judge other estimators.
    Mathematics:
        A[t] = Q(s_t, a_t) - V(s_t)
        V(s) = sum over a of policy(a | s) Q(s, a)
    with the policy renormalised over legal actions.
    Shapes: advantages [N].
    Pitfalls: The values contain the game's payoffs only, not the rewards that plug-ins add. V
    excludes illegal replies. So an illegal reply, whose value is the reward of its turn, is
    compared with legal actions. The values assume that one policy plays all seats. Against other
    opponents they are wrong.
    Reference: the policy gradient theorem (Sutton et al., 2000) with the advantage enumerated.
    Verified by: tests/methods/credit/test_exact_values.py.
    """
    return turns.column("action_value") - turns.column("state_value")
