"""Credit: the mean of trajectory advantages for identical steps (SALT)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sparring.core.records import Credit, TurnTable
from sparring.methods.credit.anchors import (
    Anchor,
    anchor_groups,
    mean_over_trajectories,
    node_groups,
)
from sparring.methods.credit.grpo import grpo
from sparring.methods.credit.rloo import rloo

GROUP_RELATIVE = True


def salt(
    turns: TurnTable,
    *,
    base: Literal["grpo", "dr_grpo", "rloo"] = "grpo",
    anchor: Anchor = "view",
    epsilon: Annotated[float, Field(ge=0)] = 1e-6,
) -> Credit:
    """Give identical steps of a group's trajectories the mean of these trajectories' advantages.

    What: Trajectories of one initial state form a graph in which the same action at the same anchor
    is one step. A step that good and bad episodes share gets a small advantage. A step of a single
    episode keeps that episode's advantage.
    When to use: with ``rollout.group_size`` of 4 and more, if the outcome is the only reward.
    Mathematics:
        A[i, t] = mean over j in T of A_j
    T are the trajectories of the same (group, role, game) that took the same action at the same
    anchor, each counted once. A_j are the trajectory advantages of ``base``.
    Shapes: advantages [N]; one value per (group, role, game, anchor, action).
    Pitfalls:
        - This is our reading of the abstract (identical steps are merged, other steps keep their
          advantage), not a reproduction. We could not check the paper's rule for identical steps.
        - Turns without an action are never merged.
        - A group of one trajectory gives 0. A step that the whole group shares also gets 0.
    Reference: SALT (our reading of its abstract).
    Verified by: tests/methods/credit/test_anchor_groups.py.

    Args:
        base: the estimator that gives A_j: "grpo" (default), "dr_grpo" (``grpo`` without the
            division), or "rloo".
        anchor: "view" (default): the seat's current view. "state_key": the information state, which
            is all that the seat can know.
        epsilon: added to the deviation of the returns, in reward units, at least 0. The default
            matters only where the deviation is tiny. Used with ``base`` "grpo" only.

    Raises:
        CreditError: a column is missing.
    """
    anchors, _ = anchor_groups(turns, "salt", anchor)
    steps, num_steps = node_groups(turns, "salt", anchors)
    if base == "rloo":
        advantages = rloo(turns).advantages
    else:
        advantages = grpo(turns, divide_by_std=base == "grpo", epsilon=epsilon).advantages
    return Credit(
        advantages=mean_over_trajectories(advantages, steps, num_steps, turns.trajectory)[steps]
    )
