"""Credit: turn-level generalised advantage estimation with a critic."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sparring.core.records import Credit, TurnTable
from sparring.methods.credit.base import Cut, cut_turns, whiten_known, with_bootstrap
from sparring.ops.groups import generalised_advantages

NEEDS = {"value"}
REQUIRES = {"losses": {"value_loss"}}


def gae(
    turns: TurnTable,
    *,
    gamma: Annotated[float, Field(ge=0, le=1)] = 1.0,
    lam: Annotated[float, Field(ge=0, le=1)] = 0.95,
    whiten: bool = False,
    cut: Cut = "bootstrap",
) -> Credit:
    """Compare the rewards after a turn with the critic's prediction.

    What: A value head (the critic) reads the conversation at the seat's prompts. The temporal
    differences between the seat's turns are summed with decay. Rewards during other seats' turns
    count towards the seat's preceding turn.
    When to use: games of many turns, where returns are noisy. Add the loss ``value_loss`` to fit
    the critic.
    Mathematics:
        delta[t] = r[t] + gamma V[t+1] - V[t]
        A[t] = delta[t] + gamma lam A[t+1]
    with V = 0 after the last turn. The critic's target is
        A[t] + V[t]
    Shapes: advantages and value_targets [N].
    Pitfalls: With ``lam`` < 1 an unfitted critic biases the gradient.
    Reference: Schulman et al., 2016, at the level of turns.
    Verified by: tests/methods/credit/test_critics.py.

    Args:
        gamma: discount per turn, in [0, 1]; 1 (default) does not discount.
        lam: decay of the sum of differences per turn, in [0, 1]. 1 gives the return minus the value
            (no bias), 0 the one-step difference; the default 0.95 accepts a small bias for less
            variance.
        whiten: true gives the batch's advantages mean 0 and deviation 1. False (default) does not
            change them. The critic's targets are never whitened.
        cut: "bootstrap" (default): an episode truncated by ``rollout.max_turns`` has not ended. The
            seat's next prompt is unknown, so V replaces r + gamma V_next of its last turn. That
            turn has advantage 0, and earlier turns bootstrap from its V. "zero": the episode counts
            as ended.
    """
    value = turns.column("value")
    is_truncated = cut_turns(turns, cut)
    reward = with_bootstrap(turns.reward, value, is_truncated)
    advantages = generalised_advantages(reward, value, turns.trajectory, gamma=gamma, lam=lam)
    targets = advantages + value
    if whiten:
        advantages = whiten_known(advantages, is_truncated)
    return Credit(advantages=advantages, value_targets=targets, baselines=value)
