"""Credit: the outcome for every turn, with statistics over turns (AgentFlow's Flow-GRPO)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sparring.core.records import Credit, TurnTable
from sparring.methods.credit.grpo import grpo

GROUP_RELATIVE = True


def flow_grpo(
    turns: TurnTable,
    *,
    weigh: Literal["turns", "trajectories"] = "turns",
    epsilon: Annotated[float, Field(ge=0)] = 1e-6,
) -> Credit:
    """Give every turn its trajectory's outcome, normalised over all turns of the group.

    What: ``grpo`` in which every turn of every trajectory is one sample of the group.
    When to use: to compare with AgentFlow; otherwise use ``grpo``.
    Mathematics:
        A[i, t] = (R_i - mean) / (std + epsilon)
    with mean and sample deviation over the turns of all trajectories of the group.
    Shapes: advantages [N]; statistics per (group, role).
    Pitfalls: With "turns" long trajectories have more weight in the statistics, so long failures
    lower the mean. A group of one trajectory, or of equal returns, gives 0.
    Reference: AgentFlow (Flow-GRPO); code of lupantech/AgentFlow.
    Verified by: tests/methods/credit/test_group_baselines.py.

    Args:
        weigh: how often a trajectory counts in the statistics: once per turn ("turns", the default,
            as published), or once ("trajectories"), which is ``grpo`` itself.
        epsilon: added to the deviation, in reward units, at least 0. The default matters only where
            the deviation is tiny.
    """
    return grpo(turns, over="turns" if weigh == "turns" else "episodes", epsilon=epsilon)
