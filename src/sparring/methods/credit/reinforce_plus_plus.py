"""Credit: batch-whitened returns (REINFORCE++ and its baseline variant)."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from sparring.core.records import Credit, TurnTable
from sparring.methods.credit.base import broadcast_to_turns, start_groups, trajectory_returns
from sparring.ops.groups import centre, discounted_returns, whiten_values

GROUP_RELATIVE = {"baseline": {"group"}}
PRESETS = {"baseline": {"baseline": "group"}}


def reinforce_plus_plus(
    turns: TurnTable,
    *,
    gamma: Annotated[float, Field(ge=0, le=1)] = 1.0,
    baseline: Literal["none", "group"] = "none",
    over: Literal["turns", "tokens"] = "turns",
) -> Credit:
    """Whiten returns over the whole batch, optionally after subtracting the group's mean.

    What: REINFORCE with one mean and one deviation for the batch. So a group with a small deviation
    does not get a large scale.
    When to use: as ``grpo``, if groups are small or their deviations differ strongly. Preset
    "baseline" is for several rollouts per initial state.
    Mathematics:
        x[i, t] = sum over k >= t of gamma^(k-t) r[i, k]  ("none")
        x[i, t] = R_i - mean_g R                          ("group")
        A = (x - mean x) / sqrt(var x + 1e-8)
    with mean and sample variance over the batch.
    Shapes: advantages [N]; the group's mean per (group, role).
    Pitfalls: Without the baseline a zero-sum batch is only rescaled. With the baseline, x of a
    group of one is 0; in the authors' code x is its raw reward. Here gamma discounts per turn, in
    the authors' code per token. Equal returns give 0.
    Reference: Hu et al., 2025 (arXiv 2501.03262); volcengine/verl core_algos.py.
    Verified by: tests/methods/credit/test_role_baselines.py.

    Args:
        gamma: discount per turn of the return, in [0, 1]; 1 (default) does not discount. Used with
            ``baseline`` "none" only; "group" uses the trajectory's undiscounted return.
        baseline: "none" (default) whitens the returns from each turn on. "group" (preset
            ``baseline``) first subtracts the group's mean from the trajectory's return.
        over: how often a turn counts in the batch's mean and variance: once ("turns", the default),
            or once per sampled token ("tokens"), as the authors' code whitens.
    """
    if baseline == "group":
        returns, first_rows = trajectory_returns(turns)
        groups, num_groups = start_groups(turns)
        values = broadcast_to_turns(centre(returns, groups[first_rows], num_groups), turns)
        scale = float(np.abs(returns).mean()) if len(returns) else 0.0
    else:
        values = discounted_returns(turns.reward, turns.trajectory, gamma=gamma)
        scale = float(np.abs(values).mean()) if len(values) else 0.0
    weights = np.ones(len(values)) if over == "turns" else turns.n_tokens.astype(np.float64)
    return Credit(advantages=whiten_values(values, weights, scale))
