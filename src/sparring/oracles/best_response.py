"""Oracle: what the best response to an equilibrium earns after each action, at the seat's information state."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sparring.agents.cfr import CfrAgent, Variant
from sparring.oracles.base import Oracle
from sparring.oracles.equilibrium import EquilibriumOracle


def best_response(
    *,
    iterations: Annotated[int, Field(ge=1)] = 400,
    variant: Variant = "cfr_plus",
    max_histories: Annotated[int, Field(ge=1)] = 500_000,
    margin: Annotated[float, Field(ge=0)] = 0.0,
) -> Oracle:
    """Value of every legal action if the seat plays its best response from there on, the others near equilibrium.

    What: the expected return of each action at the seat's information state; afterwards the seat makes no mistake, and the others play
    CFR's average policy. Few ``iterations`` make opponents with faults to be found.
    When to use: when a move is to be judged by what it leaves possible, not by what the average policy would make of it.
    Mathematics: Q(I, a) of oracle cfr with u(h a) under the seat's best response, settled from its last decisions to its first.
    Options: ``iterations``, ``variant``, ``max_histories`` and ``margin`` as for oracle cfr.
    Pitfalls: as for oracle cfr. Needs perfect recall, as OpenSpiel's information states give it.
    Reference: Lanctot et al., 2017 (arXiv:1711.00832), section 2; Johanson et al., "Accelerating best response calculation", 2011.
    Verified by: tests/oracles/test_cfr.py.
    """
    return EquilibriumOracle("best_response", CfrAgent(iterations, variant, max_histories), "best_response", "average", margin)
