"""Credit: rewards that halve from one correct answer to the next longer one (S-GRPO)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from sparring.core.records import BoolArray, Credit, FloatArray, IntArray, TurnTable
from sparring.methods.credit.base import broadcast_to_turns, start_groups, trajectory_returns
from sparring.ops.blocks import average_over_ties, rows_by_size
from sparring.ops.groups import centre, trajectory_sums

GROUP_RELATIVE = True


def s_grpo(
    turns: TurnTable, *, success: float = 0.5, length: Literal["tokens", "turns"] = "tokens"
) -> Credit:
    """Reward a group's shortest success with 1, and each longer one with half of the one before.

    What: Short successes get the largest rewards. The published method stops one reasoning path at
    several points; here the members of a group, in order of length, replace these points.
    When to use: to shorten reasoning that is already right, with members truncated on purpose.
    Mathematics: with the group in order of length, the j-th success gets
        x = 1 / 2^(j-1)
    and a failure 0;
        A_i = x_i - mean_g x
    Shapes: advantages [N]; groups per (group, role).
    Pitfalls: The paper's members are truncations of one reasoning path. With independent rollouts
    the order by length rewards short replies in general. Successes of equal length share the mean
    of their rewards. The amount by which a return exceeds ``success`` has no effect. A group of one
    trajectory gives 0.
    Reference: S-GRPO (arXiv 2505.07686).
    Verified by: tests/methods/credit/test_group_rewards.py.

    Args:
        success: smallest return that counts as a success, in reward units. The default 0.5 fits
            returns of 0 and 1.
        length: unit of the lengths that order the successes: sampled "tokens" of the trajectory
            (default), or its "turns".
    """
    returns, first_rows = trajectory_returns(turns)
    groups, num_groups = start_groups(turns)
    ids = groups[first_rows]
    turn_lengths = (
        turns.n_tokens.astype(np.float64) if length == "tokens" else np.ones(len(turns.reward))
    )
    lengths = trajectory_sums(turn_lengths, turns.trajectory)
    rewards = _halving_rewards(returns >= success, lengths, ids, num_groups)
    return Credit(advantages=broadcast_to_turns(centre(rewards, ids, num_groups), turns))


def _halving_rewards(
    is_success: BoolArray, lengths: FloatArray, ids: IntArray, num_groups: int
) -> FloatArray:
    """Return 1 / 2^(j-1) for the j-th success of each group by length, 0 for failures."""
    rewards = np.zeros(len(is_success))
    for rows in rows_by_size(ids, num_groups):
        keys = np.where(is_success[rows], lengths[rows], np.inf)  # sorts failures last
        order = np.argsort(keys, axis=1)
        members = np.take_along_axis(rows, order, axis=1)
        sorted_lengths = np.take_along_axis(keys, order, axis=1)
        tied_rewards = average_over_ties(
            sorted_lengths[:, 1:] != sorted_lengths[:, :-1],
            0.5 ** np.arange(rows.shape[1], dtype=np.float64),
        )
        rewards[members] = np.where(np.isfinite(sorted_lengths), tied_rewards, 0.0)
    return rewards
