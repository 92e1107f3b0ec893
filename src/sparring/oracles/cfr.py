"""Oracle: exact values at the seat's information state.

All seats play the average policy of CFR.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sparring.oracles.base import Oracle
from sparring.oracles.equilibrium import EquilibriumOracle, Play
from sparring.players.cfr import CfrAgent, Variant


def cfr(
    *,
    against: Play = "average",
    iterations: Annotated[int, Field(ge=1)] = 400,
    variant: Variant = "cfr_plus",
    max_histories: Annotated[int, Field(ge=1)] = 500_000,
    margin: Annotated[float, Field(ge=0)] = 0.0,
) -> Oracle:
    """Value of every legal action near equilibrium, given what the seat knows.

    It is for games with something hidden.

    What: the expected return of each action at the seat's information state, when the seat and the
    others then play CFR's average policy.
    When to use: Kuhn, Leduc, liar's dice: games whose whole tree can be walked.
    Mathematics:
        Q(I, a) = sum over histories h in I of w(h) u(h a) / sum of w(h)
    with w(h) the probability that chance and the other seats make h, and u(h a) the seat's expected
    return from there, by enumeration.
    Pitfalls: an equilibrium mixes actions of equal value, and the average policy is not quite an
    equilibrium. So one of these actions is best by a tiny difference: give a ``margin`` above
    ``bound``. Values are exact for this policy (certainty 1); ``bound`` is its NashConv, how far it
    is from equilibrium. Against a policy that is no equilibrium other actions may earn more. The
    oracle abstains, counted as ``unreached``, at information states that the others' play never
    leads to. This is rare against the average policy and common against best responses, which mix
    nothing. The first question about a game solves it (seconds for Leduc poker).
    Reference: Zinkevich et al., "Regret minimization in games with incomplete information", 2007;
    Tammelin, "CFR+", 2014.
    Verified by: tests/oracles/test_cfr.py.

    Args:
        against: what the other seats play. "average" (default): the average policy.
            "best_response": each other seat plays its own best response to the average policy.
        iterations: passes of the solver over the game tree, at least 1. The default 400 is near
            equilibrium in Kuhn and Leduc poker.
        variant: the solver, "cfr" or "cfr_plus" (default).
        max_histories: the largest game tree to walk, in histories, at least 1. A larger game is
            refused.
        margin: actions worth at most this less than the best one are best too; in the game's units,
            at least 0.
    """
    return EquilibriumOracle(
        "cfr", CfrAgent(iterations, variant, max_histories), "average", against, margin
    )
