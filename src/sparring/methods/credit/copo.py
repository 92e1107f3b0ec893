"""Credit: a blend of within-group and between-group advantages by consistency (COPO)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from sparring.core.records import Credit, TurnTable
from sparring.methods.credit.base import broadcast_to_turns, role_groups, trajectory_returns
from sparring.ops.blocks import shares_of_value
from sparring.ops.groups import group_ids, group_mean, standardise


def copo(
    turns: TurnTable,
    *,
    sharpness: float = 5.0,
    threshold: Annotated[float, Field(ge=0)] = 0.5,
    epsilon: Annotated[float, Field(ge=0)] = 1e-6,
) -> Credit:
    """Blend within-group and between-group advantages, weighted by how much the outcomes differ.

    What: If the outcomes of a group differ, the advantage is that of ``grpo``. If they agree,
    ``grpo`` gives 0. Then the group's mean return is compared with that of other groups.
    When to use: many groups in which all replies are right or all are wrong. Do not filter groups
    of equal returns before this estimator.
    Mathematics:
        H_g = -sum over distinct returns of share * ln share
        sigma = 1 / (1 + exp(-sharpness * (H_g - threshold)))
        A_i = sigma * (R_i - mean_g R) / (std_g R + epsilon) + (1 - sigma) * z_g
    z_g is the group's mean return, standardised over the groups of its game and role.
    Shapes: advantages [N]; groups per (group, role, game).
    Pitfalls:
        - This is not a reproduction. The paper blends two losses and measures consistency on final
          answers; this blends advantages and uses returns. The default values of sharpness and
          threshold are ours.
        - Continuous returns never agree, so the result is ``grpo``.
        - z_g compares different tasks, so replies to easy tasks get larger advantages.
    Reference: arXiv 2508.04138 (COPO).
    Verified by: tests/methods/credit/test_group_rewards.py.

    Args:
        sharpness: slope of the blend per nat of entropy H_g (the paper's rho). Large values switch
            abruptly between the two terms at the threshold, 0 gives both the weight 1/2; the
            default is 5.
        threshold: the entropy H_g at which both terms have equal weight (the paper's gamma), in
            nats, at least 0. The default is 0.5; a group with half successes has ln 2 = 0.69.
        epsilon: added to the deviation within the group and to the deviation between groups, in
            reward units, at least 0. The default matters only where the deviation is tiny.
    """
    returns, first_rows = trajectory_returns(turns)
    groups, num_groups = group_ids(turns.group, turns.role, turns.game)
    roles, num_roles = role_groups(turns)
    ids = groups[first_rows]
    entropy = group_mean(-np.log(shares_of_value(returns, ids, num_groups)), ids, num_groups)
    local_weight = (0.5 * (1.0 + np.tanh(0.5 * (sharpness * (entropy - threshold)))))[ids]
    role_of_group = np.zeros(num_groups, dtype=np.int64)
    role_of_group[ids] = roles[first_rows]
    means = group_mean(returns, ids, num_groups)
    group_advantages = standardise(means, role_of_group, num_roles, epsilon=epsilon)[ids]
    member_advantages = standardise(returns, ids, num_groups, epsilon=epsilon)
    advantages = local_weight * member_advantages + (1.0 - local_weight) * group_advantages
    metrics = {"local_weight": float(local_weight.mean())} if len(local_weight) else {}
    return Credit(advantages=broadcast_to_turns(advantages, turns), metrics=metrics)
