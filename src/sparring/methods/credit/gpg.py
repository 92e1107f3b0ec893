"""Credit: group policy gradient (GPG)."""

from __future__ import annotations

import numpy as np

from sparring.core.records import Credit, TurnTable
from sparring.methods.credit.base import broadcast_to_turns, start_groups, trajectory_returns
from sparring.ops.groups import centre, is_varied

GROUP_RELATIVE = True


def gpg(turns: TurnTable) -> Credit:
    """Subtract the group's mean, and rescale for groups of equal returns.

    What: Centred returns, divided by the share of trajectories whose group has unequal returns.
    When to use: in place of ``grpo`` without the division, if many groups are all right or all
    wrong, and such groups should not make the step smaller.
    Mathematics:
        A_i = B / (B - M) * (R_i - mean_g R)
    with B trajectories in the batch, M of them in groups of equal returns.
    Shapes: advantages [N]; groups per (group, role).
    Pitfalls: If only one group of a large batch has unequal returns, its factor is B over its size.
    The factor depends on the batch. So the gradient of two joined batches is not the mean of their
    gradients. Other published code counts nonzero rewards, not groups of unequal returns; this
    estimator follows the paper. A group of one trajectory gives 0.
    Reference: Chu et al., 2025 (arXiv 2504.02546).
    Verified by: tests/methods/credit/test_group_baselines.py.
    """
    returns, first_rows = trajectory_returns(turns)
    groups, num_groups = start_groups(turns)
    ids = groups[first_rows]
    is_useful = is_varied(returns, ids, num_groups)[ids]
    factor = len(returns) / max(int(is_useful.sum()), 1)
    advantages = np.where(is_useful, factor * centre(returns, ids, num_groups), 0.0)
    return Credit(
        advantages=broadcast_to_turns(advantages, turns),
        metrics={"useful_share": 1.0 / factor if is_useful.any() else 0.0},
    )
