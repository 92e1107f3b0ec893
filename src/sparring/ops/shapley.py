"""The Shapley value of a cooperative game, exactly. n players.

A coalition is the bit mask of its members.
"""

from __future__ import annotations

from functools import cache
from math import factorial

import numpy as np

from sparring.core.records import FloatArray

MAX_PLAYERS = 8


def shapley_values(worth: FloatArray) -> FloatArray:
    """Return what each player adds on average over all orders in which they could join, [n].

    phi_i = sum over S without i of |S|! (n - |S| - 1)! / n! * (v(S with i) - v(S)).

    Args:
        worth: v of every coalition, [2^n], 2^n <= 256; coalition S stands at the sum of 2^i over
            its members.
    """
    size = len(worth)
    players = size.bit_length() - 1
    assert size == 1 << players and players <= MAX_PLAYERS, (
        f"{size} coalitions are not those of at most {MAX_PLAYERS} players"
    )
    values: FloatArray = _weights(players) @ worth
    return values


@cache
def _weights(players: int) -> FloatArray:
    """Return the matrix [n, 2^n] that turns worths into Shapley values."""
    weights = np.zeros((players, 1 << players))
    for coalition in range(1 << players):
        others = coalition.bit_count()
        for player in range(players):
            if coalition >> player & 1:
                weights[player, coalition] = (
                    factorial(others - 1) * factorial(players - others) / factorial(players)
                )
            else:
                weights[player, coalition] = (
                    -factorial(others) * factorial(players - others - 1) / factorial(players)
                )
    weights.setflags(write=False)
    return weights
