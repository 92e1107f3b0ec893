"""Credit: agent-wise normalisation (Dr. MAS)."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from sparring.core.records import Credit, FloatArray, IntArray, TurnTable
from sparring.methods.credit.base import broadcast_to_turns, trajectory_returns
from sparring.ops.groups import group_ids, group_mean, group_std_or_zero

GROUP_RELATIVE = [
    {"agent_is": {"role"}, "mean": {"agent"}},
    {"agent_is": {"role"}, "std": {"agent"}},
]
PRESETS = {"global": {"mean": "global", "std": "global"}}

Scope = Literal["agent", "global"]


def dr_mas(
    turns: TurnTable,
    *,
    mean: Scope = "agent",
    std: Scope = "agent",
    agent_is: Literal["role", "agent"] = "role",
    over: Literal["turns", "episodes"] = "turns",
    epsilon: Annotated[float, Field(ge=0)] = 1e-6,
) -> Credit:
    """Normalise a team's returns per agent instead of over all agents of a group.

    What: ``grpo`` whose mean and deviation are those of one agent of the team. Each of the two can
    also be taken over all agents.
    When to use: teams of different agents (a solver and a critic) on the same task. The returns of
    different agents have different means and deviations. With shared statistics one agent's
    gradient explodes.
    Mathematics:
        A[i, k, t] = (R[i, k] - mean) / (std + epsilon)
    The mean and the sample deviation are over the samples of agent k in the group ("agent"), or
    over those of all agents in the group ("global").
    Shapes: advantages [N]; statistics per (group, agent).
    Pitfalls: "turns" gives long trajectories more weight in the statistics. In zero-sum games a
    global mean is near 0 for every role. A scope of one sample or of equal returns gives 0.
    Reference: Feng et al., 2026 (Dr. MAS, arXiv 2602.08847); code of langfengQ/DrMAS.
    Verified by: tests/methods/credit/test_role_baselines.py.

    Args:
        mean: samples of the group that the mean is over: those of the same "agent" (default), or
            "global", those of all agents. With both scopes global (preset "global") this is plain
            GRPO over the team, for comparison.
        std: samples of the group that the deviation is over, with the same choices: "agent"
            (default) or "global".
        agent_is: what identifies an agent: its "role" in the game (default), or "agent", the name
            of the agent in the seat.
        over: how often a trajectory counts in the statistics: once per turn ("turns", the default,
            as in the authors' code), or once ("episodes").
        epsilon: added to the deviation, in reward units, at least 0. The default matters only where
            the deviation is tiny.
    """
    returns, first_rows = trajectory_returns(turns)
    group, agent = turns.group, turns.role if agent_is == "role" else turns.agent
    values = broadcast_to_turns(returns, turns)
    if over == "episodes":
        values, group, agent = returns, group[first_rows], agent[first_rows]
    scopes = {"agent": group_ids(group, agent), "global": group_ids(group)}
    advantages = _normalise(values, scopes[mean], scopes[std], epsilon)
    return Credit(
        advantages=advantages if over == "turns" else broadcast_to_turns(advantages, turns)
    )


def _normalise(
    values: FloatArray,
    mean_groups: tuple[IntArray, int],
    std_groups: tuple[IntArray, int],
    epsilon: float,
) -> FloatArray:
    """Return (value - mean) / (deviation + epsilon), 0 where the deviation is 0."""
    centred = values - group_mean(values, *mean_groups)[mean_groups[0]]
    centred = centred - group_mean(centred, *mean_groups)[mean_groups[0]]
    deviation = group_std_or_zero(values, *std_groups)
    factor = np.divide(
        1.0, deviation + epsilon, out=np.zeros(len(deviation)), where=deviation > 0.0
    )
    return centred * factor[std_groups[0]]
