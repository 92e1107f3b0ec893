"""Credit: asymmetric group-relative advantages (A-GRAE)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from sparring.core.records import Credit, TurnTable
from sparring.methods.credit.base import broadcast_to_turns, start_groups, trajectory_returns
from sparring.ops.groups import group_mean, standardise

GROUP_RELATIVE = True


def a_grae(
    turns: TurnTable,
    *,
    success: float = 0.5,
    alpha: Annotated[float, Field(gt=0)] = 1.0,
    epsilon: Annotated[float, Field(ge=0)] = 1e-6,
) -> Credit:
    """Shift weight from easy to hard tasks, and to successes, as the batch's success rate grows.

    What: Two success rates weigh the advantages of ``grpo``: p of the group, and omega of the
    batch. If omega is small, easy groups (large p) weigh more, and positive advantages are scaled
    down. If omega is large, hard groups (small p) weigh more, and positive advantages are unscaled.
    When to use: rewards of right and wrong, with groups of mixed difficulty.
    Mathematics:
        A = A0 / 2 * (omega / sqrt(p) + (1 - omega) / sqrt(1 - p))
    times min(1, omega / alpha) where A > 0. A0 is the advantage of ``grpo``, and
        p = share of the group with R >= success
        omega = mean of p over groups
    Shapes: advantages [N]; groups per (group, role).
    Pitfalls: A group with p of 0 or 1 gives 0, even if its returns differ. If no group succeeds,
    nothing is learnt. The authors' code has 1 - sqrt(p) in the second denominator; this estimator
    follows the paper. A group of one trajectory, or of equal returns, gives 0.
    Reference: "Unveiling Implicit Advantage Symmetry" (A-GRAE); code of HKU-HealthAI/A-GRAE.
    Verified by: tests/methods/credit/test_group_rewards.py.

    Args:
        success: smallest return that counts as a success, in reward units. The default 0.5 fits
            returns of 0 and 1.
        alpha: the batch's success rate from which positive advantages are unscaled, above 0. At
            lower rates they are scaled by omega / alpha. The paper uses 1 (default) for mathematics
            and 0.5 for geometry and medicine.
        epsilon: added to the group's deviation in A0, in reward units, at least 0. The default
            matters only where the deviation is tiny.
    """
    returns, first_rows = trajectory_returns(turns)
    groups, num_groups = start_groups(turns)
    ids = groups[first_rows]
    success_rates = group_mean((returns >= success).astype(np.float64), ids, num_groups)
    is_mixed = (success_rates > 1e-9) & (success_rates < 1 - 1e-9)
    omega = float(success_rates.mean()) if num_groups else 0.0
    safe_rates = np.where(is_mixed, success_rates, 0.5)
    weight = np.where(
        is_mixed,
        0.5 * (omega / np.sqrt(safe_rates) + (1.0 - omega) / np.sqrt(1.0 - safe_rates)),
        0.0,
    )
    advantages = weight[ids] * standardise(returns, ids, num_groups, epsilon=epsilon)
    advantages = advantages * np.where(advantages > 0, min(1.0, omega / alpha), 1.0)
    return Credit(advantages=broadcast_to_turns(advantages, turns), metrics={"success_rate": omega})
