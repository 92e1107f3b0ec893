"""Credit: differences of values along the tree of a group's episodes (SPO-tree)."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from sparring.core.records import BoolArray, Credit, FloatArray, IntArray, TurnTable
from sparring.methods.credit.anchors import anchor_groups, positions
from sparring.methods.credit.base import require_column
from sparring.ops.groups import (
    discounted_returns,
    group_ids,
    group_mean,
    group_std,
    group_sum,
    leave_one_out_mean,
    trajectory_starts,
)

GROUP_RELATIVE = True


def spo_tree(
    turns: TurnTable,
    *,
    gamma: Annotated[float, Field(ge=0, le=1)] = 1.0,
    average: Literal["trajectories", "children"] = "trajectories",
    segments: Literal["turns", "branches"] = "turns",
    leave_one_out: bool = False,
    divide_by_std: bool = False,
    epsilon: Annotated[float, Field(gt=0)] = 1e-8,
) -> Credit:
    """Credit a turn with the change of value between states, estimated from the group's episodes.

    What: Episodes of one initial state form a tree; episodes with the same turns so far share a
    node. The value of a node is the mean return of its episodes from there on. A turn is credited
    with the gain of value.
    When to use: with ``rollout.plan`` "tree", which reaches every node several times. Without a
    plan, in small games with large groups. The values are Monte-Carlo estimates without a critic.
    Mathematics:
        V(s) = mean over the trajectories through s of G[t]
        A[t] = r[t] + gamma * V(s[t+1]) - V(s[t])
    V after the last turn is 0. Nodes are the information states of a (group, role); with perfect
    recall an information state contains the whole past. The advantages of a trajectory sum to R -
    V(start) (gamma 1).
    Shapes: advantages [N].
    Pitfalls:
        - With segments of turns, turns in nodes of only one trajectory get 0. So nothing is learnt
          after the last shared node, or after the plan's last boundary. On a plan's tree write
          ``segments: branches``.
        - With ``leave_one_out`` and no plan, a state's expected gradient is the exact one times the
          probability that another episode of the group reaches the state. Without
          ``leave_one_out`` it is smaller.
        - "children" is a biased baseline.
        - On a plan's tree with b edges from a node, the expected gradient of its turns is scaled by
          (b - 1) / b, or by a larger factor if episodes also meet by chance. ``leave_one_out`` is
          not exact there, because it omits one episode but not its branches.
        - Segments here are complete turns.
        - Edges of value 0 stay in the batch; the authors' code drops them.
    Reference: Segment Policy Optimization (arXiv 2505.23564), tree version.
    Verified by: tests/methods/credit/test_spo_tree.py, tests/play/plans/test_credit_on_trees.py.

    Args:
        gamma: discount per turn, in [0, 1]; 1 (default) does not discount.
        average: how V(s) averages: over the "trajectories" through s (default), or over the
            "children", the distinct next nodes or last actions, each with equal weight.
        segments: "turns" (default) gives every turn its own A, so a turn that could not be compared
            gets 0. "branches", as in the paper: a segment reaches from a node with several children
            to the next such node, or to the end. All its turns get the sum of their A, which is the
            change of value over the segment.
        leave_one_out: true takes the baseline V(s[t]) over the other trajectories (with "children":
            over the other children). False (default) includes the trajectory itself.
        divide_by_std: true divides by the population deviation of r + gamma * V(next) at s. False
            (default) does not divide.
        epsilon: added to the deviation, in reward units, above 0; the default is 1e-8. Unused
            without ``divide_by_std``.

    Raises:
        CreditError: a column is missing.
    """
    anchors, _ = anchor_groups(turns, "spo_tree", "state_key")
    # ids are sorted by depth first, so that the nodes of one depth have consecutive ids
    nodes, num_nodes = group_ids(positions(turns.trajectory), anchors)
    if average == "children":
        averages = _average_children(turns, nodes, num_nodes, gamma, leave_one_out)
        edge_values, baseline, deviation = averages
    else:
        returns = discounted_returns(turns.reward, turns.trajectory, gamma=gamma)
        values = group_mean(returns, nodes, num_nodes)[nodes]
        edge_values = turns.reward + gamma * _next_in_trajectory(values, turns.trajectory)
        baseline = leave_one_out_mean(returns, nodes, num_nodes) if leave_one_out else values
        deviation = (
            group_std(edge_values, nodes, num_nodes, ddof=0)[nodes] if divide_by_std else np.ones(0)
        )
    advantages = edge_values - baseline
    if divide_by_std:
        advantages = advantages / (deviation + epsilon)
    if segments == "branches":
        ids, num_segments = _segment_ids(turns, nodes, num_nodes)
        advantages = group_sum(advantages, ids, num_segments)[ids]
    return Credit(advantages=advantages)


def _segment_ids(turns: TurnTable, nodes: IntArray, num_nodes: int) -> tuple[IntArray, int]:
    edges, num_edges = group_ids(nodes, _children(turns, nodes, num_nodes))
    node_of_edge = np.zeros(num_edges, dtype=np.int64)
    node_of_edge[edges] = nodes
    is_start = np.bincount(node_of_edge, minlength=num_nodes)[nodes] > 1
    is_start[trajectory_starts(turns.trajectory)] = True
    return np.cumsum(is_start) - 1, int(is_start.sum())


def _children(turns: TurnTable, nodes: IntArray, num_nodes: int) -> IntArray:
    action = require_column(turns, "spo_tree", "action")
    next_nodes = np.append(nodes[1:], 0)[: len(nodes)]
    return np.where(_is_last(turns.trajectory), num_nodes + 1 + action, next_nodes)


def _is_last(trajectory: IntArray) -> BoolArray:
    return np.append(np.diff(trajectory) != 0, True)[: len(trajectory)]


def _next_in_trajectory(values: FloatArray, trajectory: IntArray) -> FloatArray:
    """Return the value of each row's next row in its trajectory, 0 after the last."""
    return np.where(_is_last(trajectory), 0.0, np.append(values[1:], 0.0)[: len(values)])


def _average_children(
    turns: TurnTable, nodes: IntArray, num_nodes: int, gamma: float, leave_one_out: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return (value of the row's edge, baseline, deviation over the state's edges), [N] each."""
    children = _children(turns, nodes, num_nodes)
    is_last = children >= num_nodes
    edges, num_edges = group_ids(nodes, children)  # ids are sorted by node, and so by depth
    node_of_edge = np.zeros(num_edges, dtype=np.int64)
    node_of_edge[edges] = nodes
    values, edge_values = np.zeros(num_nodes), np.zeros(num_edges)
    depth = positions(turns.trajectory)
    order = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[order], np.arange(depth.max(initial=-1) + 2))
    for low, high in reversed(list(pairwise(bounds))):
        rows = order[low:high]
        is_final = is_last[rows]
        next_values = np.where(is_final, 0.0, values[np.where(is_final, 0, children[rows])])
        first, end = int(edges[rows].min()), int(edges[rows].max()) + 1  # edges of this depth
        edge_values[first:end] = group_mean(
            turns.reward[rows] + gamma * next_values, edges[rows] - first, end - first
        )
        parents = node_of_edge[first:end]
        values[parents[0] : parents[-1] + 1] = group_mean(
            edge_values[first:end], parents - parents[0], int(parents[-1] - parents[0]) + 1
        )
    baseline = values[node_of_edge]
    if leave_one_out:
        baseline = leave_one_out_mean(edge_values, node_of_edge, num_nodes)
    deviation = group_std(edge_values, node_of_edge, num_nodes, ddof=0)[node_of_edge]
    return edge_values[edges], baseline[edges], deviation[edges]
