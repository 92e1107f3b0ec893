"""Credit: rewards of tree nodes, shaped by parent and siblings (MARS^2)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from sparring.core.records import BoolArray, Credit, FloatArray, TurnTable
from sparring.methods.credit.anchors import anchor_groups, node_groups, positions
from sparring.methods.credit.base import broadcast_to_turns, start_groups, trajectory_returns
from sparring.ops.groups import (
    centre,
    divide_by_deviation,
    group_counts,
    group_mean,
    leave_one_out_mean,
)

GROUP_RELATIVE = True


def mars2(
    turns: TurnTable,
    *,
    weight: float = 0.3,
    sibling_share: Annotated[float, Field(ge=0, le=1)] = 0.5,
    divide_by_std: bool = True,
    epsilon: Annotated[float, Field(ge=0)] = 1e-6,
) -> Credit:
    """Judge a turn by its node's reward, and by the difference to its parent and siblings.

    What: Episodes of one initial state form a tree whose nodes are (information state, action). A
    node's reward is the mean return of the episodes through it, plus a share of its difference to
    the turn before and to the other actions in the same state.
    When to use: with ``rollout.plan`` "tree", or in small games with large groups, which try
    several actions of a state.
    Mathematics:
        r = mean return of the trajectories through the node
        b = (1 - sibling_share) * r(parent) + sibling_share * mean of
            r over the other actions taken in the same state
        x = r + weight * (r - b)
        A = (x - mean x) / (std x + epsilon)
    The last line is over the turns of a (group, role). If only one of the two terms of b exists, b
    is this term; if neither exists, x = r.
    Shapes: advantages [N]; one value per node.
    Pitfalls:
        - The authors' code searches a tree of complete answers (AB-MCTS) and scores each node. Here
          a node is a turn, with a score from its episodes, so only the shaping is MARS^2's.
        - The mean over turns gives long episodes more weight.
        - The baseline compares turns of different depth, which is a bias.
        - A group of one turn gives 0.
    Reference: MARS^2; code of TsinghuaC3I/MARTI, ab_mcts_processor.py.
    Verified by: tests/methods/credit/test_anchor_groups.py,
    tests/play/plans/test_credit_on_trees.py.

    Args:
        weight: weight of the shaping term r - b, any number; 0 leaves the node's reward. The
            default 0.3 is that of the authors' code.
        sibling_share: share of the siblings (other actions in the same state) in b, in [0, 1]; the
            rest is the parent's. The default 0.5 is that of the authors' code.
        divide_by_std: true (default) divides by the sample deviation of x. False does not divide.
        epsilon: added to the deviation, in reward units, at least 0. The default matters only where
            the deviation is tiny. Unused without ``divide_by_std``.

    Raises:
        CreditError: a column is missing.
    """
    states, num_states = anchor_groups(turns, "mars2", "state_key")
    nodes, num_nodes = node_groups(turns, "mars2", states)
    rewards = group_mean(broadcast_to_turns(trajectory_returns(turns)[0], turns), nodes, num_nodes)
    state_of_node = np.zeros(num_nodes, dtype=np.int64)
    state_of_node[nodes] = states
    sibling_means = leave_one_out_mean(rewards, state_of_node, num_states)[nodes]
    has_siblings = (group_counts(state_of_node, num_states) > 1)[states]
    values = rewards[nodes]
    shaped_rewards = values + weight * (
        values
        - _baselines(
            values, sibling_means, has_siblings, positions(turns.trajectory) > 0, sibling_share
        )
    )
    groups, num_groups = start_groups(turns)
    advantages = centre(shaped_rewards, groups, num_groups)
    if divide_by_std:
        advantages = divide_by_deviation(
            advantages, shaped_rewards, groups, num_groups, epsilon=epsilon
        )
    return Credit(advantages=advantages)


def _baselines(
    values: FloatArray,
    sibling_means: FloatArray,
    has_siblings: BoolArray,
    has_parent: BoolArray,
    sibling_share: float,
) -> FloatArray:
    """Return the mix of rewards of each row's parent (the row before) and siblings.

    A row with neither gets its reward.
    """
    parents = np.append(values[:1], values[:-1])
    both_terms = (1.0 - sibling_share) * parents + sibling_share * sibling_means
    one_term = np.where(has_parent, parents, np.where(has_siblings, sibling_means, values))
    return np.where(has_parent & has_siblings, both_terms, one_term)
