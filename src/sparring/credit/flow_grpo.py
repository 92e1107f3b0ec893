"""Credit: a group's outcome for every turn, statistics over turns (AgentFlow's Flow-GRPO)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from sparring.credit.base import check
from sparring.credit.grpo import grpo
from sparring.types import Credit, TurnTable


def flow_grpo(
    turns: TurnTable,
    state: Mapping[str, Any],
    *,
    weigh: Literal["turns", "trajectories"] = "turns",
    epsilon: Annotated[float, Field(ge=0)] = 1e-6,
) -> Credit:
    """Give every turn its trajectory's outcome, normalised over all turns of the group.

    What: ``grpo`` that treats every turn of every trajectory as one sample of the group.
    When to use: to compare with AgentFlow; otherwise ``grpo``.
    Mathematics: A[i, t] = (R_i - mean) / (std + epsilon), mean and sample deviation over the turns of all trajectories of the group.
    Shapes: advantages [N]; statistics per (group, role).
    Options: ``weigh`` "trajectories" counts each trajectory once, which is ``grpo`` itself.
    Pitfalls: with "turns" long trajectories weigh more in the statistics, so long failures pull the mean down.
    A group of one, or of equal returns, gives 0.
    Reference: AgentFlow (Flow-GRPO); code of lupantech/AgentFlow.
    Verified by: tests/credit/test_flow_grpo.py.

    Raises:
        CreditError: a reward is not finite.
    """
    check(turns, "flow_grpo")
    return grpo(turns, state, over="turns" if weigh == "turns" else "episodes", epsilon=epsilon)
