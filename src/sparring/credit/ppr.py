"""Credit: process rewards and outcome on one scale (PPR)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sparring.credit.base import check, spread, start_groups
from sparring.credit.components import component
from sparring.errors import ConfigError
from sparring.ops.groups import centre, group_counts, group_ids
from sparring.ops.returns import discounted_returns, trajectory_sums
from sparring.ops.standardise import over_deviation
from sparring.types import Credit, FloatArray, TurnTable


def ppr(
    turns: TurnTable,
    state: Mapping[str, Any],
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
    """Bring a process reward per turn and the outcome of the game to one scale, and compare what follows within the group.

    What: both are mapped to [0, 1] and centred, so that neither a long game nor a generous judge earns by itself.
    When to use: with a reward plug-in that scores every turn (``process``), of which only the order can be trusted.
    Mathematics: p = process / largest_process; o = (sum of outcome - lowest_outcome) / (highest_outcome - lowest_outcome). "half":
    r[t] = p[t] - 1/2, and o - 1/2 more at the last turn. "mean": r[t] = p[t] - mean of the trajectory's p + o, whose mean is o.
    Whatever else a turn earned is added. A = (G - mean G) / (std G + epsilon) over the turns of a (group, role), G the
    (discounted) return to go of r.
    Shapes: advantages [N]; statistics per (group, role).
    Options: ``process`` (an oracle's ``best_action`` by default) and ``outcome`` name components of the reward; the three bounds give
    their scales (a game of -1 to 1 by default); ``centring``; ``gamma``; ``divide_by_std``.
    Pitfalls: sources differ on the centring, and neither could be checked against the paper: no reproduction. With "half" a turn
    scored below 1/2 is a loss, so many of them favour short games; with "mean" the outcome counts once per turn that is left.
    The bound on shaping scales components down before they come here: set ``reorder_outcomes`` to have them whole.
    Reference: PPR with ReNorm (literal readings of a review and of notes).
    Verified by: tests/credit/test_ppr.py, tests/credit/test_components.py.

    Raises:
        CreditError: a reward is not finite, or a component is missing.
        ConfigError: the outcome's bounds are in the wrong order.
    """
    check(turns, "ppr")
    if highest_outcome <= lowest_outcome:
        given = f"lowest_outcome={lowest_outcome} and highest_outcome={highest_outcome}"
        raise ConfigError(f"credit 'ppr': {given}: the second must be larger; write the least and the most that a game pays.")
    scored, paid = component(turns, "ppr", process), component(turns, "ppr", outcome)
    share = (trajectory_sums(paid, turns.trajectory) - lowest_outcome) / (highest_outcome - lowest_outcome)
    reward = turns.reward - scored - paid + _centred(scored / largest_process, spread(share, turns), turns, centring)
    returns = discounted_returns(reward, turns.trajectory, gamma=gamma)
    groups, count = start_groups(turns)
    advantages = centre(returns, groups, count)
    if divide_by_std:
        advantages = over_deviation(advantages, returns, groups, count, epsilon=epsilon)
    return Credit(advantages=advantages, state=dict(state))


def _centred(scored: FloatArray, share: FloatArray, turns: TurnTable, centring: Literal["half", "mean"]) -> FloatArray:
    """Return per turn the centred process reward and outcome."""
    if centring == "half":
        last = np.append(np.diff(turns.trajectory) != 0, True)[: len(scored)]
        return scored - 0.5 + np.where(last, share - 0.5, 0.0)
    own, count = group_ids(turns.trajectory)
    means = np.bincount(own, weights=scored, minlength=count) / np.maximum(group_counts(own, count), 1)
    return scored - means[own] + share
