"""Credit: group-relative advantages over the leaves of a tree of episodes (ARPO, AEPO)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from sparring.core.records import Credit, FloatArray, TurnTable
from sparring.methods.credit.anchors import anchor_groups, node_groups
from sparring.methods.credit.base import require_column
from sparring.methods.credit.grpo import grpo
from sparring.ops.groups import group_mean

GROUP_RELATIVE = True


def branch_grpo(
    turns: TurnTable,
    *,
    divide_by_std: bool = True,
    surprise_weight: Annotated[float, Field(ge=0)] = 0.0,
    epsilon: Annotated[float, Field(ge=0)] = 1e-6,
) -> Credit:
    """Compare the leaves of a group's tree; shared turns get the mean advantage of their leaves.

    What: Episodes of one initial state form a tree: episodes with the same turns so far are on one
    branch. Every leaf is a member of the group. A shared turn gets the mean advantage of the leaves
    below it.
    When to use: with ``rollout.plan`` "branch" or "tree" and ``rollout.group_size`` of 8 and more.
    Without a plan, only in games where the members of a group share their first turns by chance.
    Mathematics: per trajectory
        A_i = (R_i - mean_g R) / (std_g R + epsilon)
    A turn gets the mean of A_i over the trajectories with the same information state and action,
    times
        1 + surprise_weight * z
    The surprise of a turn is minus its log-probability per token. z is this surprise minus its mean
    over the batch's turns, over their population deviation.
    Shapes: advantages [N]; statistics per (group, role).
    Pitfalls:
        - The plan "branch" grows the tree as ARPO does, where entropy rises.
        - Without a plan episodes share turns only by chance, and only the credit is ARPO's.
        - Each copy of a shared turn gets the mean, so all copies together get the sum over their
          leaves. The group mean contains these leaves too. So the expected gradient of a turn that
          m of n episodes share is scaled by 1 - m / n.
        - Surprise is a function of the action itself, so this weight biases the gradient. For
          z < -1 / surprise_weight the sign changes.
        - A turn that the whole group shares gets 0. A group of one trajectory gets 0.
    Reference: ARPO (arXiv 2507.19849), AEPO (arXiv 2510.14545, our reading).
    Verified by: tests/methods/credit/test_anchor_groups.py,
    tests/play/plans/test_credit_on_trees.py.

    Args:
        divide_by_std: true (default) divides by the group's sample deviation. False only subtracts
            the mean.
        surprise_weight: weight of the surprise z, at least 0; the default 0 leaves it out. Above 0
            this is our reading of AEPO's entropy-balanced advantage: the sampler's surprise
            replaces token entropy, and turns replace tokens. We do not know the paper's
            coefficient.
        epsilon: added to the deviation of the returns, in reward units, at least 0. The default
            matters only where the deviation is tiny. Unused without ``divide_by_std``.

    Raises:
        CreditError: a column is missing.
    """
    anchors, _ = anchor_groups(turns, "branch_grpo", "state_key")
    branches, num_branches = node_groups(turns, "branch_grpo", anchors)
    leaf_advantages = grpo(turns, divide_by_std=divide_by_std, epsilon=epsilon).advantages
    advantages = group_mean(leaf_advantages, branches, num_branches)[branches]
    if surprise_weight > 0.0:
        advantages = advantages * (1.0 + surprise_weight * _surprise(turns))
    return Credit(advantages=advantages)


def _surprise(turns: TurnTable) -> FloatArray:
    """Return each turn's standardised surprise per token, 0 for turns without tokens."""
    has_tokens = turns.n_tokens > 0
    surprise = -require_column(turns, "branch_grpo", "logprob") / np.maximum(turns.n_tokens, 1)
    if not has_tokens.any():
        return np.zeros_like(surprise)
    values = surprise[has_tokens]
    return np.where(has_tokens, (surprise - values.mean()) / (values.std() + 1e-8), 0.0)
