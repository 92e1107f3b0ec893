"""Credit: progress attribution, each turn's learnt share of the final reward (SPA)."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from sparring.core.records import Credit, TurnTable
from sparring.methods.credit.base import broadcast_to_turns, start_groups
from sparring.ops.groups import (
    discounted_returns,
    leave_one_out_mean,
    trajectory_starts,
    trajectory_sums,
)

NEEDS = {"value_after"}
REQUIRES = {"losses": {"value_loss"}}
CRITIC = "contribution"


def spa(
    turns: TurnTable,
    *,
    grounding: Annotated[float, Field(ge=0)] = 0.5,
    gamma: Annotated[float, Field(ge=0, le=1)] = 1.0,
    baseline: Literal["none", "group"] = "none",
) -> Credit:
    """Split the final reward into contributions of turns, which a value head predicts.

    What: The value head reads the conversation after each turn and predicts what the turn
    contributed. The head is fitted so that the contributions of a trajectory add up to its return.
    The turns are then rewarded with their contributions.
    When to use: long tasks with one reward at the end. Add the loss ``value_loss``, which fits the
    head after the turns.
    Mathematics:
        c_t = V(after turn t)
        r'_t = c_t + grounding if the turn was legal
        A_t = sum over k >= t of gamma^(k-t) r'_k
            [- mean over the others of the group of their sum of r']
    The head minimises
        (sum_t c_t - R)^2 / 2
    This loss has the gradient
        (sum_k c_k - R) sum_t grad c_t
    The loss on fixed targets has the same gradient:
        sum_t (c_t - target_t)^2 / 2
        target_t = c_t - (sum_k c_k - R)
    Shapes: advantages and value_targets [N].
    Pitfalls:
        - No advantage contains the return itself.
        - Before the head is fitted the advantages are noise, and an error of the head is a bias.
        - The targets change with the other turns' contributions, so they are right for one update
          only. Use learner.epochs=1, minibatches=1.
        - ``value_loss`` averages over turns, and the paper sums over a trajectory. This changes
          only the effective learning rate.
        - The published method first fits a separate model on an expert's episodes; here the head
          learns during the run. The published trainer multiplies by (T - t - 1); this one does not.
        - Without a baseline, grounding favours long episodes.
        - A fitted head with ``grounding`` 0 has no bias: contributions before a turn do not depend
          on the turn's action, and the sum of all is the mean return given the whole episode.
        - The default ``grounding`` pays for continuing. In a game whose only choice is when to
          stop, the gradient reverses.
    Reference: Wang et al., 2025 (SPA-RL, arXiv 2505.20732); code of WangHanLinHenry/SPA-RL-Agent.
    Verified by: tests/methods/credit/test_critics.py, tests/engine/test_local.py.

    Args:
        grounding: bonus for each legal turn, in reward units, at least 0; 0 switches it off. The
            default is 0.5.
        gamma: discount per turn of the sum of contributions, in [0, 1]; 1 (default) does not
            discount.
        baseline: "none" (default) subtracts nothing. "group" subtracts the mean sum of r' of the
            other trajectories with the same initial state and role. A group of one subtracts its
            own sum, which leaves 0 at the first turn (with gamma 1).
    """
    contributions = turns.column("value_after")
    excess = trajectory_sums(contributions - turns.reward, turns.trajectory)
    step_rewards = contributions + grounding * turns.legal
    advantages = discounted_returns(step_rewards, turns.trajectory, gamma=gamma)
    if baseline == "group":
        groups, num_groups = start_groups(turns)
        totals = trajectory_sums(step_rewards, turns.trajectory)
        advantages = advantages - broadcast_to_turns(
            leave_one_out_mean(totals, groups[trajectory_starts(turns.trajectory)], num_groups),
            turns,
        )
    metrics = {"attribution_error": float(np.abs(excess).mean())} if len(excess) else {}
    return Credit(
        advantages=advantages,
        value_targets=contributions - broadcast_to_turns(excess, turns),
        metrics=metrics,
    )
