"""Credit: differences of values that were found by playing on (VinePPO)."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from sparring.core.records import Credit, FloatArray, TurnTable
from sparring.methods.credit.base import component
from sparring.ops.groups import trajectory_starts, whitened

NEEDS = {"playout", "playout_before"}
PRESETS = {"unbiased": {"whiten": False}}


def vine_ppo(
    turns: TurnTable, *, gamma: Annotated[float, Field(ge=0, le=1)] = 1.0, whiten: bool = True
) -> Credit:
    """Take what a turn changed in the value of the position, as games that go on from there say.

    What: PPO's one-step advantage with Monte-Carlo values in place of a critic's.
    When to use: where outcomes are all that is paid, and plays are cheap beside a critic that has
    to be fitted. Set ``rollout.playouts`` to the number of games for each position.
    Mathematics:
        A[i, t] = r[i, t] + gamma V(s[i, t+1]) - V(s[i, t])
    V is the mean of what the game still pays in K games that go on from a position, and 0 at the
    end. Whitened, as in the release, A less its mean is divided by the sample deviation; both count
    a turn once per sampled token.
    Shapes: advantages [N].
    Pitfalls: it costs K games for every position of the batch, which is nearly all of what is
    sampled; count these tokens (``playouts/tokens``). With K games the noise of a difference is
    sqrt(2 / K) of the returns' deviation. V is of the whole history, what is hidden from the seat
    included. Given what the seat knows, the expected difference is Q - V of its information state:
    hidden cards are noise and no bias. Where seats move between the turns of one seat, V before
    a turn knows their moves and V after the turn before does not; both are right. Chance that falls
    between two turns with no move between them is in neither V, so its luck goes to the later turn.
    That is noise and no bias. Whitening takes a constant off that is no baseline: it shifts all
    turns alike. Equal differences give 0.
    Reference: Kazemnejad et al., 2024 (arXiv 2410.01679); code of thu-nics/VPR, core_gigpo.py.
    Verified by: tests/methods/credit/test_critics.py, tests/measure/test_credit_lab.py.

    Args:
        gamma: discount per turn of the value that follows, in [0, 1]; 1 (default), as released.
        whiten: true (default) whitens over the tokens of the batch. False (preset ``unbiased``)
            leaves the differences, whose expected gradient is that of the return.
    """
    after, before = turns.column("playout"), turns.column("playout_before")
    paid = component(turns, "vine_ppo", "game")
    so_far = _until(paid, turns)
    found: FloatArray = turns.reward + gamma * (after - so_far) - (before - (so_far - paid))
    if whiten and len(found):
        size = float(np.abs(after).mean() + np.abs(before).mean())
        found = whitened(found, turns.n_tokens.astype(np.float64), size)
    return Credit(advantages=found)


def _until(paid: FloatArray, turns: TurnTable) -> FloatArray:
    """Return what the game has paid up to each turn, the turn's own pay included, [N]."""
    if not len(paid):
        return paid
    sums = np.cumsum(paid)
    starts = trajectory_starts(turns.trajectory)
    lengths = np.diff(np.append(starts, len(paid)))
    earlier = np.where(starts > 0, sums[starts - 1], 0.0)
    found: FloatArray = sums - np.repeat(earlier, lengths)
    return found
