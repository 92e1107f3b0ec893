"""Credit: the outcome itself (REINFORCE)."""

from __future__ import annotations

from sparring.core.records import Credit, TurnTable
from sparring.methods.credit.base import broadcast_to_turns, trajectory_returns


def outcome(turns: TurnTable) -> Credit:
    """Give every turn its trajectory's whole return.

    What: REINFORCE without a baseline.
    When to use: as the unbiased reference; its variance is high.
    Mathematics:
        A[i, t] = R_i = sum over t of r[i, t]
    Shapes: advantages [N].
    Pitfalls: If all rewards have one sign, the gradient moves every sampled action in the same
    direction. Only many samples show which action is better.
    Reference: Williams, 1992.
    Verified by: tests/methods/credit/test_role_baselines.py, tests/methods/credit/test_bias.py.
    """
    returns, _ = trajectory_returns(turns)
    return Credit(advantages=broadcast_to_turns(returns, turns))
