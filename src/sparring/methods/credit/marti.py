"""Credit: rewards shaped by an agent's record of returns (MARTI)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sparring.core.errors import ConfigError
from sparring.core.records import Credit, FloatArray, TurnTable
from sparring.methods.credit.base import broadcast_to_turns, start_groups, trajectory_returns
from sparring.ops.groups import group_counts, group_ids, group_sum, leave_one_out_mean

GROUP_RELATIVE = {"baseline": {"group"}}


def marti(
    turns: TurnTable,
    state: Mapping[str, Any],
    *,
    shaping: Literal["margin", "quality", "none"] = "quality",
    alpha: Annotated[float, Field(ge=0)] = 0.5,
    low: float = 0.0,
    high: float = 1.0,
    baseline: Literal["team", "group", "none"] = "team",
) -> Credit:
    """Reward an agent for exceeding, or for repeating, its mean past return.

    What: The mean of an agent's past returns measures its quality. This measure shapes the return
    before agents are compared.
    When to use: teams of agents (debate, chains) that share an outcome. "quality" gives agents with
    a good record more weight; "margin" rewards agents that improve.
    Mathematics:
        Q = mean past return of the agent, from earlier batches
        margin: Delta = R - Q
        quality: Delta = Q R - (1 - Q)(1 - R)
        R' = R + alpha Delta
        A = R' - mean of R' of the others of the group
    Delta is 0 if the agent has no past returns.
    Shapes: advantages [N], the same for all turns of a trajectory; state {"GAME/ROLE": [n, sum of
    returns]}.
    Pitfalls:
        - An agent is a (game, role); in self-play one policy plays all roles.
        - Quality is R + Q - 1, margin R - Q. With both, R' is (1 + alpha) R plus a constant per
          role, which the baseline "group" removes.
        - "team" keeps these constants; they raise or lower all turns of a role, and change only the
          variance.
        - "team" is for shared outcomes. With opposed payoffs it compares winners with losers. Team
          mates of the same episode shrink the gradient.
        - The record has no decay.
        - A group of one agent gives 0, except with the baseline "none".
        - Equal returns give 0 with the baseline "group". With "team" they give 0 if the agents'
          records are equal or all empty.
    Reference: MARTI (arXiv 2602.07848); code of TsinghuaC3I/MARTI, auto_reward_alloc.py.
    Verified by: tests/methods/credit/test_role_baselines.py.

    Args:
        shaping: "quality" (default) rewards agents with a good record more, "margin" rewards
            improvement over an agent's own record. "none" leaves the return; with the baseline
            "group" this is ``rloo``.
        alpha: weight of the shaping, at least 0; 0 switches it off. The default is 0.5.
        low: the return of a loss, in reward units; the default is 0. The formulas are for [0, 1],
            so returns are mapped there, shaped, and mapped back. Set -1 for zero-sum games.
        high: the return of a win, in reward units; it must be above ``low``. The default is 1.
        baseline: subtracted mean: of the other agents of the group over all roles ("team", the
            default), of the others of the same role ("group"), or "none".

    Raises:
        ConfigError: high is not above low.
    """
    if high <= low:
        raise ConfigError(
            f"credit 'marti': high={high} is not above low={low}; write the returns of a win and "
            "of a loss."
        )
    returns, first_rows = trajectory_returns(turns)
    agents, num_agents = group_ids(turns.game[first_rows], turns.role[first_rows])
    row_of_agent = np.zeros(num_agents, dtype=np.int64)  # any row of the agent
    row_of_agent[agents] = first_rows
    names = [
        f"{turns.game_names[turns.game[row]]}/{turns.role_names[turns.role[row]]}"
        for row in row_of_agent.tolist()
    ]
    records = [state.get(name, (0.0, 0.0)) for name in names]
    has_past = np.array([num > 0 for num, _ in records], dtype=bool)
    means = np.array([total / num if num > 0 else low for num, total in records])
    quality = (means - low) / (high - low)
    scaled_returns = (returns - low) / (high - low)
    changes = np.zeros_like(scaled_returns)
    if num_agents:
        shaped_changes = _shaping(scaled_returns, quality[agents], shaping)
        changes = np.where(has_past[agents], shaped_changes, 0.0)
    rewards = returns + alpha * (high - low) * changes
    if baseline != "none":
        groups, num_groups = (
            start_groups(turns) if baseline == "group" else group_ids(turns.group, turns.game)
        )
        rewards = rewards - leave_one_out_mean(rewards, groups[first_rows], num_groups)
    increments = zip(
        names,
        records,
        group_counts(agents, num_agents).tolist(),
        group_sum(returns, agents, num_agents).tolist(),
        strict=True,
    )
    new_records = {
        name: [record[0] + num, record[1] + total] for name, record, num, total in increments
    }
    new_state = {**state, **new_records}
    metrics = {f"record/{name}": record[1] / record[0] for name, record in new_state.items()}
    return Credit(advantages=broadcast_to_turns(rewards, turns), state=new_state, metrics=metrics)


def _shaping(
    returns: FloatArray, quality: FloatArray, shaping: Literal["margin", "quality", "none"]
) -> FloatArray:
    if shaping == "none":
        return np.zeros_like(returns)
    if shaping == "margin":
        return returns - quality
    return quality * returns - (1.0 - quality) * (1.0 - returns)
