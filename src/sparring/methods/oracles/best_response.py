"""Oracle: value of each action if the seat then plays its best response to an equilibrium."""

from __future__ import annotations

from dataclasses import dataclass

from sparring.methods.oracles.cfr import EquilibriumOracle


@dataclass(kw_only=True, eq=False)
class BestResponseOracle(EquilibriumOracle):
    """Value of every legal action if the seat then plays its best response to an equilibrium.

    What: the expected return of each action at the seat's information state. Afterwards the seat
    plays its best response, and the others play CFR's average policy.
    When to use: to judge a move by the best possible continuation, not by that of the average
    policy.
    Mathematics:
        Q(I, a) as in oracle cfr, with u(h a) under the seat's best response
    The best response is computed from the seat's last decisions to its first.
    Pitfalls: as for oracle cfr. Information states must have perfect recall, as in OpenSpiel.
    Reference: Lanctot et al., 2017 (arXiv:1711.00832), section 2; Johanson et al., "Accelerating
    best response calculation", 2011.
    Verified by: tests/methods/oracles/test_cfr.py.

    Args:
        iterations: passes of the solver over the game tree, at least 1. Few iterations give
            exploitable opponents. The default 400 is near equilibrium in Kuhn and Leduc poker.
        variant: the solver, "cfr" or "cfr_plus" (default).
        max_histories: the largest game tree to walk, in histories, at least 1. The oracle does not
            cover larger games.
        margin: an action is also best if its value is at most this much below the largest value, in
            the game's units, at least 0.
    """

    name, continuation = "best_response", "best_response"


best_response = BestResponseOracle
