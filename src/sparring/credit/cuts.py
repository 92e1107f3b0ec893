"""What critics make of games that were truncated (``rollout.max_turns``, ``model.context``).

They have not ended, so they are not worth 0 there.

What the seat would be asked next is not in the record: others may have to move first, and chance.
So the critic has no conversation to read after the cut. The nearest place where it was asked, and
is fitted, is before the seat's last turn. With "bootstrap" the trajectory is cut there:

    r[T] + gamma V[T+1] is taken to be V[T], T the last turn of a cut trajectory

Earlier turns look ahead to V[T] as they should. The last turn's difference is 0: it has no
advantage, it teaches the critic nothing, and what was paid for it is not looked at. With "zero" the
game counts as ended: V[T+1] = 0.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from sparring.types import BoolArray, FloatArray, TurnTable

Cut = Literal["bootstrap", "zero"]


def cut_turns(turns: TurnTable, cut: Cut) -> BoolArray:
    """Return which turns are the last of a trajectory that is to be bootstrapped, [N]."""
    if turns.cut is None or cut == "zero":
        return np.zeros(len(turns.reward), dtype=bool)
    return turns.cut


def continued(reward: FloatArray, value: FloatArray, cut: BoolArray) -> FloatArray:
    """Return rewards [N] that stand for what follows a cut turn too.

    The value before it, so that its difference is 0.
    """
    return np.where(cut, value, reward)


def whitened(advantages: FloatArray, unknown: BoolArray) -> FloatArray:
    """Return advantages with mean 0 and deviation 1 over those that are known.

    The unknown ones stay 0, and so does a lone one.
    """
    known = advantages[~unknown]
    if len(known) < 2:
        return advantages
    return np.where(unknown, 0.0, (advantages - known.mean()) / (known.std(ddof=1) + 1e-8))
