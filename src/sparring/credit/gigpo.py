"""Credit: group in group (GiGPO)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from sparring.credit.anchors import Anchor, anchor_groups
from sparring.credit.grpo import grpo
from sparring.ops.groups import centre
from sparring.ops.returns import discounted_returns
from sparring.ops.standardise import over_deviation
from sparring.types import Credit, TurnTable

PRESETS = {"as_released": {"over": "turns"}}


def gigpo(
    turns: TurnTable,
    state: Mapping[str, Any],
    *,
    gamma: Annotated[float, Field(ge=0, le=1)] = 0.95,
    weight: float = 1.0,
    divide_by_std: bool = False,
    over: Literal["episodes", "turns"] = "episodes",
    anchor: Anchor = "view",
    similarity: Annotated[float, Field(gt=0, le=1)] | None = None,
    epsilon: Annotated[float, Field(ge=0)] = 1e-6,
) -> Credit:
    """Compare whole games of one start, and turns of them that met the same view.

    What: a trajectory's advantage in its group, plus what a turn still earned against the other turns of the group that
    faced the same view: groups of steps inside groups of games, without a critic and without extra play.
    When to use: with ``rollout.group_size`` of 4 and more, in games whose positions come back.
    Mathematics: A[i, t] = (R_i - mean_g R) / F_g + weight * (G[i, t] - mean_c G) / F_c, where
    G[i, t] = sum over k >= t of gamma^(k - t) r[i, k], g is the (group, role), c the turns of g with the same anchor, and F is
    1, or the sample deviation + epsilon.
    Shapes: advantages [N]; statistics per (group, role) and per (group, role, game, anchor).
    Options: ``anchor`` "view" is what the seat sees now, "state_key" all it can know: turns that meet there share their past.
    ``similarity`` puts like texts in one cluster (0.95 in released code). ``over`` counts a trajectory of the first term once
    ("episodes", the paper) or once per turn ("turns", preset ``as_released``). ``weight`` 0 is GRPO.
    Pitfalls: a view met once adds nothing, and one that m members met adds (m - 1) / m of its gradient. A view that hides
    what matters compares unlike positions, and one that a game meets twice compares a turn with its own future. Greedy
    clusters depend on the order of the texts: ours is alphabetical and no text leaves its group, released code takes the
    order of the batch; cost grows with the square of the distinct views of a group.
    A group of one gives 0; in released code a lone turn keeps its raw reward.
    Reference: arXiv 2505.10978; code of verl-agent.
    Verified by: tests/credit/test_gigpo.py, tests/credit/test_anchors.py.

    Raises:
        CreditError: a reward is not finite, or the anchor's column is missing.
        ConfigError: ``similarity`` without texts.
    """
    groups, count = anchor_groups(turns, "gigpo", anchor, similarity)
    episode = grpo(turns, state, divide_by_std=divide_by_std, over=over, epsilon=epsilon).advantages
    returns = discounted_returns(turns.reward, turns.trajectory, gamma=gamma)
    step = centre(returns, groups, count)
    if divide_by_std:
        step = over_deviation(step, returns, groups, count, epsilon=epsilon)
    return Credit(advantages=episode + weight * step, state=dict(state))
