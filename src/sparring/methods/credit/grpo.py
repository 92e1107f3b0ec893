"""Credit: group-relative advantages (GRPO, Dr. GRPO)."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from sparring.core.records import BoolArray, Credit, TurnTable
from sparring.methods.credit.base import broadcast_to_turns, start_groups, trajectory_returns
from sparring.ops.groups import centre, divide_by_deviation, group_counts

Trains = Literal["all", "unfailed", "as_released"]
TRAINS_NEEDS: dict[str, set[str]] = {  # value of ``trains`` -> columns that it needs
    "unfailed": {"failed"},
    "as_released": {"wideseek_turns"},
}


def mask_of_trained_turns(turns: TurnTable, trains: Trains) -> BoolArray | None:
    """Return a mask of the turns that carry loss, [N], or None if all turns do.

    Args:
        turns: the table, with the column that ``TRAINS_NEEDS`` names.
        trains: the rule.

    Raises:
        CreditError: the column is missing.
    """
    if trains == "all":
        return None
    if trains == "unfailed":
        return ~np.asarray(turns.column("failed"), dtype=bool)
    return np.asarray(turns.column("wideseek_turns"), dtype=bool)


def trained_share(mask: BoolArray | None) -> dict[str, float]:
    """Return the metric ``trained_share``, the true share of a mask; no metric without a mask."""
    if mask is None or not len(mask):
        return {}
    return {"trained_share": float(mask.mean())}


PRESETS = {"dr_grpo": {"divide_by_std": False}, "wideseek_r1": {"trains": "as_released"}}
GROUP_RELATIVE = True
NEEDS_BY = {"trains": TRAINS_NEEDS}


def grpo(
    turns: TurnTable,
    *,
    divide_by_std: bool = True,
    ddof: Literal[0, 1] = 1,
    over: Literal["episodes", "turns"] = "episodes",
    epsilon: Annotated[float, Field(ge=0)] = 1e-6,
    trains: Trains = "all",
) -> Credit:
    """Compare a trajectory's return with the others of its group.

    What: One advantage per trajectory, the same for all its turns. The trajectories of a group
    share initial state and role.
    When to use: with ``rollout.group_size`` of 4 and more. In zero-sum self-play the group mean
    contains only the luck of the initial state, and ``mars`` or ``rae`` are better.
    Mathematics:
        A[i, t] = (R_i - mean_g R) / (std_g R + epsilon)
    Without the division this is Dr. GRPO.
    Shapes: advantages [N]; statistics per (group, role).
    Pitfalls: A group of one trajectory, or of equal returns, gives 0. ``trains`` excludes turns by
    their outcome from the loss, but not from the group's statistics. Then the gradient is not that
    of the return, and actions that end in a failure are never discouraged.
    Metrics: trained_share, the share of the turns that train, if ``trains`` is not "all".
    Reference: Shao et al., 2024 (DeepSeekMath); Liu et al., 2025 (Dr. GRPO). ``trains``
    "as_released": code of WideSeek-R1 (arXiv 2602.04634), RLinf, reward.py.
    Verified by: tests/methods/credit/test_grpo.py.

    Args:
        divide_by_std: true (default) divides by the group's deviation. False (preset ``dr_grpo``)
            only subtracts the mean.
        ddof: 1 (default) takes the sample deviation (divisor n - 1), 0 the population deviation
            (divisor n). Unused without ``divide_by_std``.
        over: how often a trajectory counts in the statistics: once ("episodes", the default), or
            once per turn ("turns"), as in the code of many papers. "turns" gives long episodes more
            weight.
        epsilon: added to the deviation, in reward units, at least 0. The default matters only where
            the deviation is tiny. Unused without ``divide_by_std``.
        trains: the turns that carry loss. "all" (default), for the exact gradient. "unfailed":
            turns of conversations that no limit ended (column ``failed``). "as_released" (preset
            ``wideseek_r1``): turns that WideSeek-R1 trains in teams with a lead (column
            ``wideseek_turns``). Here groups are by role; in the authors' code they have all agents.
    """
    returns, first_rows = trajectory_returns(turns)
    groups, num_groups = start_groups(turns)
    if over == "turns":
        values, ids = broadcast_to_turns(returns, turns), groups
    else:
        values, ids = returns, groups[first_rows]
    advantages = centre(values, ids, num_groups)
    baselines = values - advantages
    if divide_by_std:
        advantages = divide_by_deviation(
            advantages, values, ids, num_groups, ddof=ddof, epsilon=epsilon
        )
    is_single = group_counts(groups[first_rows], num_groups)[ids] < 2
    advantages = np.where(is_single, 0.0, advantages)
    if over != "turns":
        advantages = broadcast_to_turns(advantages, turns)
        baselines = broadcast_to_turns(baselines, turns)
    mask = mask_of_trained_turns(turns, trains)
    return Credit(
        advantages=advantages, baselines=baselines, trained=mask, metrics=trained_share(mask)
    )
