"""Oracle: exact values at the seat's information state, all seats playing the average policy of CFR."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sparring.agents.cfr import CfrAgent, Variant
from sparring.oracles.base import Oracle
from sparring.oracles.equilibrium import EquilibriumOracle, Play


def cfr(
    *,
    against: Play = "average",
    iterations: Annotated[int, Field(ge=1)] = 400,
    variant: Variant = "cfr_plus",
    max_histories: Annotated[int, Field(ge=1)] = 500_000,
    margin: Annotated[float, Field(ge=0)] = 0.0,
) -> Oracle:
    """Value of every legal action near equilibrium, given what the seat knows, in games with something hidden.

    What: the expected return of each action at the seat's information state, the seat and the others then playing CFR's average policy.
    When to use: Kuhn, Leduc, liar's dice: games whose whole tree can be walked.
    Mathematics: Q(I, a) = sum over histories h in I of w(h) u(h a) / sum of w(h), with w(h) the probability that chance and the other
    seats make h, and u(h a) the seat's expected return from there, by enumeration.
    Options: ``against`` "best_response": each other seat plays its own best response to the average policy instead. ``iterations`` and
    ``variant`` ("cfr" or "cfr_plus") of the solver, ``max_histories`` the largest tree to walk. Actions within ``margin`` of
    the best value count as best, in the game's units.
    Pitfalls: an equilibrium mixes actions of equal value, and the average policy is not quite one, so of such actions one is best by a
    hair: give a ``margin`` above ``bound``. Values are exact for this policy (certainty 1); ``bound`` is its NashConv, how far it is
    from equilibrium. Against a policy that is no equilibrium other actions may earn more. Abstains, counted as ``unreached``, where
    the others never let the seat come by: rare on average, common against best responses, which mix nothing. The first
    question about a game solves it (seconds for Leduc poker).
    Reference: Zinkevich et al., "Regret minimization in games with incomplete information", 2007; Tammelin, "CFR+", 2014.
    Verified by: tests/oracles/test_cfr.py.
    """
    return EquilibriumOracle("cfr", CfrAgent(iterations, variant, max_histories), "average", against, margin)
