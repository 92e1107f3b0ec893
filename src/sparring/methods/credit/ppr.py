"""Credit: process rewards and outcome on one scale (PPR)."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from sparring.core.errors import ConfigError
from sparring.core.records import Credit, FloatArray, TurnTable
from sparring.methods.credit.base import broadcast_to_turns, component, start_groups
from sparring.ops.groups import (
    centre,
    discounted_returns,
    divide_by_deviation,
    group_counts,
    group_ids,
    trajectory_sums,
)

REQUIRES = {"components": {"process", "outcome"}}  # options that name components


def ppr(
    turns: TurnTable,
    *,
    process: str = "best_action",
    outcome: str = "game",
    centring: Literal["half", "mean"] = "half",
    largest_process: Annotated[float, Field(gt=0)] = 1.0,
    lowest_outcome: float = -1.0,
    highest_outcome: float = 1.0,
    gamma: Annotated[float, Field(ge=0, le=1)] = 1.0,
    divide_by_std: bool = True,
    epsilon: Annotated[float, Field(ge=0)] = 1e-6,
) -> Credit:
    """Combine a process reward per turn and the outcome on one scale, relative to the group.

    What: The process reward and the outcome are both mapped to [0, 1] and centred. So a long game
    or a generous judge alone does not raise the reward.
    When to use: with a reward plug-in that scores every turn (``process``), if only the order of
    its scores can be trusted.
    Mathematics:
        p = process / largest_process
        o = (sum of outcome - lowest_outcome) / (highest_outcome - lowest_outcome)
    "half":
        r[t] = p[t] - 1/2, and o - 1/2 more at the last turn
    "mean":
        r[t] = p[t] - mean of the trajectory's p + o
    All other rewards of the turn are added to r[t].
        A = (G - mean G) / (std G + epsilon)
    over the turns of a (group, role), with G the (discounted) return of r from the turn on.
    Shapes: advantages [N]; statistics per (group, role).
    Pitfalls: Our sources differ on the centring, and we could not check them against the paper, so
    this is not a reproduction. With "half" a turn with p below 1/2 is a loss, so many such turns
    favour short episodes. With "mean" the outcome counts once per remaining turn. The bound on
    shaping scales components down; set ``reorder_outcomes`` for the unscaled components.
    Reference: PPR with ReNorm (our readings of a review and of notes).
    Verified by: tests/methods/credit/test_judged_turns.py,
    tests/methods/credit/test_exact_values.py.

    Args:
        process: name of the reward component that scores turns; the default is an oracle's
            ``best_action``.
        outcome: name of the reward component that holds the game's payoff; the default is "game".
        centring: "half" (default) subtracts 1/2 from the process reward and from the outcome, which
            is paid at the last turn. "mean" subtracts the trajectory's mean process reward and pays
            the outcome at every turn.
        largest_process: the process reward of one turn that counts as 1, in reward units, above 0;
            the default is 1.
        lowest_outcome: smallest payoff of a game, in reward units, mapped to 0. The default is -1.
        highest_outcome: largest payoff of a game, in reward units, mapped to 1; it must be above
            ``lowest_outcome``. The default is 1.
        gamma: discount per turn of G, in [0, 1]; 1 (default) does not discount.
        divide_by_std: true (default) divides by the sample deviation of G. False only subtracts the
            mean.
        epsilon: added to the deviation of G, which is in units of the mapped rewards; at least 0.
            The default matters only where the deviation is tiny. Unused without ``divide_by_std``.

    Raises:
        CreditError: a component is missing.
        ConfigError: the outcome's bounds are in the wrong order.
    """
    if highest_outcome <= lowest_outcome:
        bounds = f"lowest_outcome={lowest_outcome} and highest_outcome={highest_outcome}"
        raise ConfigError(
            f"credit 'ppr': {bounds}: the second must be larger; write the lowest and the highest "
            "payoff of a game."
        )
    process_rewards, payoffs = component(turns, "ppr", process), component(turns, "ppr", outcome)
    outcomes = trajectory_sums(payoffs, turns.trajectory)
    scaled_outcomes = (outcomes - lowest_outcome) / (highest_outcome - lowest_outcome)
    turn_outcomes = broadcast_to_turns(scaled_outcomes, turns)
    scores = process_rewards / largest_process
    centred_sums = _centre_and_sum(scores, turn_outcomes, turns, centring)
    reward = turns.reward - process_rewards - payoffs + centred_sums
    returns = discounted_returns(reward, turns.trajectory, gamma=gamma)
    groups, num_groups = start_groups(turns)
    advantages = centre(returns, groups, num_groups)
    if divide_by_std:
        advantages = divide_by_deviation(advantages, returns, groups, num_groups, epsilon=epsilon)
    return Credit(advantages=advantages)


def _centre_and_sum(
    scores: FloatArray, outcomes: FloatArray, turns: TurnTable, centring: Literal["half", "mean"]
) -> FloatArray:
    if centring == "half":
        is_last = np.append(np.diff(turns.trajectory) != 0, True)[: len(scores)]
        return scores - 0.5 + np.where(is_last, outcomes - 0.5, 0.0)
    trajectories, num_groups = group_ids(turns.trajectory)
    means = np.bincount(trajectories, weights=scores, minlength=num_groups) / np.maximum(
        group_counts(trajectories, num_groups), 1
    )
    return scores - means[trajectories] + outcomes
