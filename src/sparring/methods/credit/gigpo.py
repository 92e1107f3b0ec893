"""Credit: group in group (GiGPO)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sparring.core.records import Credit, TurnTable
from sparring.methods.credit.anchors import Anchor, anchor_groups
from sparring.methods.credit.grpo import grpo
from sparring.ops.groups import centre, discounted_returns, divide_by_deviation

GROUP_RELATIVE = True
PRESETS = {"as_released": {"over": "turns"}}


def gigpo(
    turns: TurnTable,
    *,
    gamma: Annotated[float, Field(ge=0, le=1)] = 0.95,
    weight: float = 1.0,
    divide_by_std: bool = False,
    over: Literal["episodes", "turns"] = "episodes",
    anchor: Anchor = "view",
    similarity: Annotated[float, Field(gt=0, le=1)] | None = None,
    epsilon: Annotated[float, Field(ge=0)] = 1e-6,
) -> Credit:
    """Compare trajectories of a group, and turns with the same anchor state within the group.

    What: The trajectory's advantage in its group, plus a second term: the return from this turn on,
    compared with the other turns of the group in the same anchor state. These are groups of turns
    inside groups of episodes. The method needs no critic and no extra episodes.
    When to use: with ``rollout.group_size`` of 4 and more, in games with repeated positions.
    Mathematics:
        A[i, t] = (R_i - mean_g R) / F_g + weight * (G[i, t] - mean_c G) / F_c
        G[i, t] = sum over k >= t of gamma^(k - t) r[i, k]
    g is the (group, role), c the turns of g with the same anchor. F is 1, or the sample deviation +
    epsilon.
    Shapes: advantages [N]; statistics per (group, role) and per (group, role, game, anchor).
    Pitfalls:
        - A view that occurs once has no second term. The second term of m equal views has (m - 1)
          / m of its gradient.
        - If a view hides important information, different states are compared.
        - If a view recurs in an episode, a turn is compared with its own future.
        - Clusters are greedy and depend on the order of the texts. Here the order is alphabetical
          within a group; the authors' code uses the order of the batch.
        - The cost grows with the square of the number of distinct views of a group.
        - A group of one turn gives 0; in the authors' code it keeps its raw reward.
    Reference: arXiv 2505.10978; code of verl-agent.
    Verified by: tests/methods/credit/test_anchor_groups.py.

    Args:
        gamma: discount per turn of G in the second term, in [0, 1]; 1 does not discount. The
            default is 0.95. The first term is never discounted.
        weight: weight of the second term, any number; 1 (default) weighs both equally. 0 is GRPO.
        divide_by_std: true divides both terms by their sample deviations. False (default) only
            subtracts the means.
        over: how often a trajectory counts in the statistics of the first term: once ("episodes",
            the default, as in the paper), or once per turn ("turns", preset ``as_released``).
        anchor: which turns are compared. "view" (default): turns with the same view of the seat.
            "state_key": turns with the same information state, which share their whole past.
        similarity: smallest similarity of two texts of one cluster, above 0 and at most 1 (the
            share of matching characters; 0.95 in the authors' code). None (default) requires equal
            views. Works with ``anchor`` "view" only.
        epsilon: added to both deviations, in reward units, at least 0. Unused without
            ``divide_by_std``.

    Raises:
        CreditError: the anchor's column is missing.
        ConfigError: ``similarity`` is set and ``anchor`` is not "view".
    """
    groups, num_groups = anchor_groups(turns, "gigpo", anchor, similarity)
    episode_advantages = grpo(
        turns, divide_by_std=divide_by_std, over=over, epsilon=epsilon
    ).advantages
    returns = discounted_returns(turns.reward, turns.trajectory, gamma=gamma)
    turn_advantages = centre(returns, groups, num_groups)
    if divide_by_std:
        turn_advantages = divide_by_deviation(
            turn_advantages, returns, groups, num_groups, epsilon=epsilon
        )
    return Credit(advantages=episode_advantages + weight * turn_advantages)
