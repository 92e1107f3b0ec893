"""Credit: leave-one-out baselines (RLOO)."""

from __future__ import annotations

from sparring.core.records import Credit, TurnTable
from sparring.methods.credit.base import broadcast_to_turns, start_groups, trajectory_returns
from sparring.ops.groups import leave_one_out_mean

GROUP_RELATIVE = True


def rloo(turns: TurnTable) -> Credit:
    """Compare a trajectory's return with the mean of the others in its group.

    What: One advantage per trajectory. The baseline leaves out the trajectory itself, so it is
    unbiased.
    When to use: as ``grpo``, where an unbiased gradient matters more than a fixed scale.
    Mathematics:
        A[i, t] = R_i - 1 / (n - 1) * sum over j != i of R_j = n / (n - 1) * (R_i - mean_g R)
    Shapes: advantages [N]; groups per (group, role).
    Pitfalls: A group of one trajectory, or of equal returns, gives 0.
    Reference: Ahmadian et al., 2024; Kool et al., 2019.
    Verified by: tests/methods/credit/test_group_baselines.py, tests/methods/credit/test_bias.py.
    """
    returns, first_rows = trajectory_returns(turns)
    groups, num_groups = start_groups(turns)
    baseline = leave_one_out_mean(returns, groups[first_rows], num_groups)
    advantages = broadcast_to_turns(returns - baseline, turns)
    baselines = broadcast_to_turns(baseline, turns)
    return Credit(advantages=advantages, baselines=baselines)
