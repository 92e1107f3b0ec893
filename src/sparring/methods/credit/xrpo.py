"""Credit: group advantages sharpened by novelty (XRPO)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from sparring.core.records import Credit, TurnTable
from sparring.methods.credit.base import (
    broadcast_to_turns,
    require_column,
    start_groups,
    trajectory_returns,
)
from sparring.ops.groups import group_mean, standardise, trajectory_sums

GROUP_RELATIVE = True


def xrpo(
    turns: TurnTable,
    *,
    success: float = 0.5,
    strength: Annotated[float, Field(ge=0)] = 2.5,
    cap: Annotated[float, Field(ge=0)] = 0.5,
    epsilon: Annotated[float, Field(ge=0)] = 1e-6,
) -> Credit:
    """Give a larger advantage to successes that were unlikely under the policy.

    What: ``grpo`` plus a bonus for successes whose mean log-probability per token is below the
    group's.
    When to use: rewards of right and wrong, where the policy repeats the solutions it already has.
    Mathematics:
        s_i = mean log-probability of trajectory i's tokens
        eta_i = exp(s_i - mean_g s)
        A_i = A0_i + min(max(strength * (1 - eta_i), 0), cap * A0_i)
            where R_i >= success and A0_i > 0, else A0_i
    A0 is the advantage of ``grpo``.
    Shapes: advantages [N]; groups per (group, role).
    Pitfalls: The combination of bonus and advantage is our reading, not a reproduction. The bonus
    depends on the sampler's temperature, and favours rare wordings as much as rare ideas.
    Trajectories without a sampled token have s = 0. A group of one trajectory, or of equal returns,
    gives 0.
    Reference: XRPO (arXiv 2510.06672).
    Verified by: tests/methods/credit/test_group_rewards.py.

    Args:
        success: smallest return that counts as a success, in reward units. The default 0.5 fits
            returns of 0 and 1.
        strength: size of the bonus per unit of novelty 1 - eta, at least 0 (lambda in the paper). 0
            is ``grpo``; the default is 2.5.
        cap: largest bonus, as a share of A0, at least 0 (kappa in the paper). 0 is ``grpo``; the
            default 0.5 adds at most half.
        epsilon: added to the deviation in A0, in reward units, at least 0. The default matters only
            where the deviation is tiny.

    Raises:
        CreditError: the table has no log-probabilities.
    """
    returns, first_rows = trajectory_returns(turns)
    groups, num_groups = start_groups(turns)
    ids = groups[first_rows]
    group_advantages = standardise(returns, ids, num_groups, epsilon=epsilon)
    logprob = require_column(turns, "xrpo", "logprob")
    num_tokens = trajectory_sums(turns.n_tokens.astype(np.float64), turns.trajectory)
    mean_logprobs = trajectory_sums(logprob, turns.trajectory) / np.maximum(num_tokens, 1.0)
    group_means = group_mean(mean_logprobs, ids, num_groups)
    # novelty is max(1 - eta, 0)
    novelty = -np.expm1(np.minimum(mean_logprobs - group_means[ids], 0.0))
    bonus = np.minimum(strength * novelty, cap * np.maximum(group_advantages, 0.0))
    advantages = group_advantages + np.where(returns >= success, bonus, 0.0)
    return Credit(advantages=broadcast_to_turns(advantages, turns))
