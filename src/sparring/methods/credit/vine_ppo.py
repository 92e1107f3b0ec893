"""Credit: differences of values from playouts (VinePPO)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from sparring.core.records import Credit, FloatArray, TurnTable
from sparring.methods.credit.base import component
from sparring.ops.groups import trajectory_starts, whiten_values

NEEDS = {"playout", "playout_before"}
PRESETS = {"unbiased": {"whiten": False}}


def vine_ppo(
    turns: TurnTable, *, gamma: Annotated[float, Field(ge=0, le=1)] = 1.0, whiten: bool = True
) -> Credit:
    """Credit a turn with its change of the state's value, estimated by playouts.

    What: PPO's one-step advantage with Monte-Carlo values in place of a critic's.
    When to use: with outcome rewards only, if playouts are cheap compared with fitting a critic.
    ``rollout.playouts`` is the number of playouts per state.
    Mathematics:
        A[i, t] = r[i, t] + gamma V(s[i, t+1]) - V(s[i, t])
    V is the mean of the remaining payoff in K playouts from a state, and 0 at the end. ``whiten``,
    as in the authors' code, subtracts the mean of A and divides by its sample deviation. Both count
    a turn once per sampled token.
    Shapes: advantages [N].
    Pitfalls:
        - Every state of the batch costs K playouts, which need most of the sampled tokens; see the
          metric ``playouts/tokens``.
        - With K playouts the noise of a difference is sqrt(2 / K) of the returns' deviation.
        - V is of the complete history, with information hidden from the seat. Given the seat's
          knowledge, the expected difference is Q - V of its information state. So hidden cards add
          noise, not bias.
        - If other seats move between two turns of a seat, V before a turn contains these moves, and
          V after the previous turn does not. Both are correct.
        - Chance events between two successive turns of a seat are in neither V. So the later turn
          gets their luck, which is noise and not bias.
        - Whitening subtracts a constant from all turns, which is not a baseline.
        - Equal differences give 0.
    Reference: Kazemnejad et al., 2024 (arXiv 2410.01679); code of thu-nics/VPR, core_gigpo.py.
    Verified by: tests/methods/credit/test_critics.py, tests/measure/test_credit_lab.py.

    Args:
        gamma: discount per turn of the value that follows, in [0, 1]; 1 (default), as in the
            authors' code.
        whiten: true (default) whitens over the tokens of the batch. False (preset ``unbiased``)
            does not; then the expected gradient is that of the return.
    """
    returns_after, returns_before = turns.column("playout"), turns.column("playout_before")
    payoffs = component(turns, "vine_ppo", "game")
    cumulative_payoffs = _cumulative_payoffs(payoffs, turns)
    values_after, values_before = (
        returns_after - cumulative_payoffs,
        returns_before - (cumulative_payoffs - payoffs),
    )
    advantages: FloatArray = turns.reward + gamma * values_after - values_before
    if whiten and len(advantages):
        scale = float(np.abs(returns_after).mean() + np.abs(returns_before).mean())
        advantages = whiten_values(advantages, turns.n_tokens.astype(np.float64), scale)
    return Credit(advantages=advantages)


def _cumulative_payoffs(payoffs: FloatArray, turns: TurnTable) -> FloatArray:
    if not len(payoffs):
        return payoffs
    sums = np.cumsum(payoffs)
    first_rows = trajectory_starts(turns.trajectory)
    lengths = np.diff(np.append(first_rows, len(payoffs)))
    sums_before = np.where(first_rows > 0, sums[first_rows - 1], 0.0)
    totals: FloatArray = sums - np.repeat(sums_before, lengths)
    return totals
