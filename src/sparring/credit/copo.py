"""Credit: a blend of within-group and between-group advantages by consistency (COPO)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from sparring.credit.base import check, role_groups, spread, trajectory_returns
from sparring.ops.blocks import shares
from sparring.ops.groups import group_ids, group_mean
from sparring.ops.standardise import standardise
from sparring.types import Credit, FloatArray, TurnTable


def copo(
    turns: TurnTable,
    state: Mapping[str, Any],
    *,
    sharpness: float = 5.0,
    threshold: Annotated[float, Field(ge=0)] = 0.5,
    epsilon: Annotated[float, Field(ge=0)] = 1e-6,
) -> Credit:
    """Blend the advantage within the group with the group's own standing in the batch, by how much outcomes agree.

    What: where a group's outcomes differ, ``grpo`` counts; where they agree, and ``grpo`` has nothing to say, the group's mean return
    compared with that of other groups does.
    When to use: many groups that are all right or all wrong. Do not filter groups of equal returns before it.
    Mathematics: H_g = -sum over distinct returns of share * ln share; sigma = 1 / (1 + exp(-sharpness * (H_g - threshold)));
    A_i = sigma * (R_i - mean_g R) / (std_g R + epsilon) + (1 - sigma) * z_g, with z_g the group's mean return standardised over the groups
    of its game and role.
    Shapes: advantages [N]; groups per (group, role, game).
    Options: ``sharpness`` (the paper's rho) and ``threshold`` (its gamma, in nats) of the blend.
    Pitfalls: the paper blends two losses and measures consistency on final answers; this is the advantage-side reading, with returns for
    answers, and its sharpness and threshold are not the paper's: no reproduction is claimed. With continuous returns no two agree and
    ``grpo`` is what is left. z_g compares unlike tasks: it is biased towards easy ones.
    Reference: arXiv 2508.04138 (COPO).
    Verified by: tests/credit/test_copo.py.

    Raises:
        CreditError: a reward is not finite.
    """
    check(turns, "copo")
    returns, starts = trajectory_returns(turns)
    groups, count = group_ids(turns.group, turns.role, turns.game)
    roles, num_roles = role_groups(turns)
    ids = groups[starts]
    entropy = group_mean(-np.log(shares(returns, ids, count)), ids, count)
    local = _logistic(sharpness * (entropy - threshold))[ids]
    first = np.zeros(count, dtype=np.int64)
    first[ids] = roles[starts]
    standing = standardise(group_mean(returns, ids, count), first, num_roles, epsilon=epsilon)
    advantages = local * standardise(returns, ids, count, epsilon=epsilon) + (1.0 - local) * standing[ids]
    metrics = {"local_weight": float(local.mean())} if len(local) else {}
    return Credit(advantages=spread(advantages, turns), state=dict(state), metrics=metrics)


def _logistic(values: FloatArray) -> FloatArray:
    """Return 1 / (1 + exp(-values)) without overflow."""
    return 0.5 * (1.0 + np.tanh(0.5 * values))
