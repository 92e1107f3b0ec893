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
    """Reward an agent for exceeding, or for confirming, its mean past return.

    What: The mean of an agent's past returns is a measure of its quality. The return is shaped by
    this measure before agents are compared.
    When to use: teams of agents (debate, chains) that share an outcome: to give agents with a good
    record more weight ("quality"), or to reward agents that improve ("margin").
    Mathematics:
        Q = mean past return of the agent, from earlier batches
        margin: Delta = R - Q
        quality: Delta = Q R - (1 - Q)(1 - R)
        R' = R + alpha Delta
        A = R' - mean of R' of the others of the group
    Delta is 0 while there is no past.
    Shapes: advantages [N], the same for all turns of a trajectory; state {"GAME/ROLE": [n, sum of
    returns]}.
    Pitfalls:
        - An agent is a (game, role); in self-play one policy plays all roles.
        - Quality is R + Q - 1, margin R - Q. Both multiply the part that depends on the game by 1 +
          alpha, and differ by a constant per role, which the baseline "group" removes.
        - "team" keeps the constants, which raise or lower all turns of a role, and change only the
          variance. "team" is for shared outcomes: with opposed payoffs winners are compared with
          losers, and team mates of the same episode shrink the gradient.
        - The record has no decay.
        - An agent alone in its group gives 0, except with the baseline "none".
        - Equal returns give 0 with the baseline "group"; with "team" they do so while the agents'
          records are equal or all empty.
    Reference: MARTI (arXiv 2602.07848); code of TsinghuaC3I/MARTI, auto_reward_alloc.py.
    Verified by: tests/methods/credit/test_role_baselines.py.

    Args:
        shaping: "quality" (default) rewards agents with a good record more, "margin" rewards
            improvement over an agent's own record. "none" leaves the return; with the baseline
            "group" this is ``rloo``.
        alpha: weight of the shaping, at least 0; 0 switches it off. The default is 0.5.
        low: the return of a loss, in reward units; the default is 0. The formulas are for [0, 1],
            so returns are mapped there, shaped, and mapped back. Zero-sum games want low=-1.
        high: the return of a win, in reward units; it must be above ``low``. The default is 1.
        baseline: whose mean is subtracted: that of the others in the group over all roles ("team",
            the default), that of the others of the same role ("group"), or "none".
        ConfigError: high is not above low.
    """
    if high <= low:
        raise ConfigError(
            f"credit 'marti': high={high} is not above low={low}; write the returns of a win and "
            "of a loss."
        )
    returns, starts = trajectory_returns(turns)
    agents, count = group_ids(turns.game[starts], turns.role[starts])
    first = np.zeros(count, dtype=np.int64)
    first[agents] = starts
    names = [
        f"{turns.game_names[turns.game[row]]}/{turns.role_names[turns.role[row]]}"
        for row in first.tolist()
    ]
    past = [state.get(name, (0.0, 0.0)) for name in names]
    has_past = np.array([entry[0] > 0 for entry in past], dtype=bool)
    quality = np.array(
        [(entry[1] / entry[0] - low) / (high - low) if entry[0] > 0 else 0.0 for entry in past]
    )
    unit = (returns - low) / (high - low)
    change = (
        np.where(has_past[agents], _shaping(unit, quality[agents], shaping), 0.0) if count else unit
    )
    shaped = returns + alpha * (high - low) * change
    if baseline != "none":
        groups, num_groups = (
            start_groups(turns) if baseline == "group" else group_ids(turns.group, turns.game)
        )
        shaped = shaped - leave_one_out_mean(shaped, groups[starts], num_groups)
    added = zip(
        names,
        past,
        group_counts(agents, count).tolist(),
        group_sum(returns, agents, count).tolist(),
        strict=True,
    )
    new_state = {
        **state,
        **{name: [entry[0] + number, entry[1] + total] for name, entry, number, total in added},
    }
    metrics = {f"record/{name}": entry[1] / entry[0] for name, entry in new_state.items()}
    return Credit(advantages=broadcast_to_turns(shaped, turns), state=new_state, metrics=metrics)


def _shaping(
    returns: FloatArray, quality: FloatArray, shaping: Literal["margin", "quality", "none"]
) -> FloatArray:
    """Return Delta of returns in [0, 1] given the agents' means."""
    if shaping == "none":
        return np.zeros_like(returns)
    return (
        returns - quality
        if shaping == "margin"
        else quality * returns - (1.0 - quality) * (1.0 - returns)
    )
