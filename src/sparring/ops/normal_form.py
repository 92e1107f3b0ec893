"""Games given by a table: in normal form, and cooperative ones with their Shapley value.

In normal form there is one axis per side. A coalition of a cooperative game of n players is the bit
mask of its members.

The stationary distribution of a Markov chain, also where its rates differ by any factor.

States are taken out one by one (Grassmann, Taksar and Heyman, 1985). Nothing is subtracted, so that
it can be done on the logarithms of the rates: rates too small for a number of their own still say
which of several closed sets of states has how much of the mass.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import factorial

import numpy as np

from sparring.core.records import FloatArray


def choice_payoffs(payoffs: FloatArray, strategies: Sequence[FloatArray], side: int) -> FloatArray:
    """Return what each choice of a side earns where the other sides play so, [m_side].

    Args:
        payoffs: the payoffs to this side, [m_0, ..., m_{n-1}].
        strategies: of each side a distribution over its choices, [m_s].
        side: whose choices.
    """
    left = np.moveaxis(payoffs, side, 0)
    for other in reversed([s for s in range(len(strategies)) if s != side]):
        left = left @ strategies[other]
    return left


def largest_size(arrays: Sequence[FloatArray]) -> float:
    """Return the largest absolute value in some arrays, at least the smallest normal number."""
    return max(np.finfo(np.float64).tiny, *(float(np.abs(array).max()) for array in arrays))


def in_range(payoffs: Sequence[FloatArray]) -> tuple[tuple[FloatArray, ...], FloatArray, float]:
    """Return payoffs moved and scaled into [-1, 1], what was taken from each, and the scale.

    From each side's payoffs their middle is taken; all are divided by half of the largest range of
    one. No preference between choices changes. Where no payoff differs from another of its side
    they are zeros, and the scale is 0.

    Args:
        payoffs: of each side an array of finite numbers.
    """
    ends = np.array([(float(table.min()), float(table.max())) for table in payoffs])
    middles: FloatArray = ends.sum(axis=1) / 2
    half = float(np.diff(ends, axis=1).max()) / 2
    if half == 0.0:
        return tuple(np.zeros_like(table) for table in payoffs), middles, 0.0
    moved = (table - middle for table, middle in zip(payoffs, middles, strict=True))
    return tuple(table / half for table in moved), middles, half


def softmax(values: FloatArray) -> FloatArray:
    """Return weights in proportion to the exponentials of some numbers, [m]."""
    raised = np.exp(values - values.max())
    found: FloatArray = raised / raised.sum()
    return found


def shares_above_zero(values: FloatArray) -> FloatArray:
    """Return weights in proportion to what is above 0, [m]; uniform where nothing is.

    Of regrets, this is regret matching.
    """
    above = np.maximum(values, 0.0)
    total = above.sum()
    found: FloatArray = above / total if total > 0 else np.full(len(above), 1.0 / len(above))
    return found


def onto_simplex(weights: FloatArray, least: float = 0.0) -> FloatArray:
    """Return the distribution nearest to some weights among those that are nowhere below ``least``.

    It is max(w_i - t, least) with the one t that makes the sum 1.

    Args:
        weights: any numbers, [m].
        least: the smallest probability, at most 1 / m.
    """
    size, total = len(weights), float(weights.sum())
    if abs(total - 1.0) < 1e-12 and float(weights.min()) >= least:
        return weights / total  # nothing but rounding is to be mended
    ordered = np.sort(weights)[::-1] - least
    counts = np.arange(1, size + 1)
    shifts = (np.cumsum(ordered) - (1.0 - size * least)) / counts
    last = int(np.flatnonzero(ordered >= shifts)[-1])
    found: FloatArray = np.maximum(weights - shifts[last], least)
    return found


def stationary(log_rates: FloatArray) -> FloatArray:
    """Return the share of time that a chain spends in each state, [n].

    Args:
        log_rates: logarithm of the rate from each state to each other, [n, n]; -inf where there is
            none. The diagonal is not looked at. Every state can be reached from every other.
    """
    rates, size = log_rates.copy(), len(log_rates)
    np.fill_diagonal(rates, -np.inf)
    for last in range(size - 1, 0, -1):
        rates[:last, last] -= np.logaddexp.reduce(rates[last, :last])
        through = rates[:last, last, None] + rates[None, last, :last]
        rates[:last, :last] = np.logaddexp(rates[:last, :last], through)
    logs = np.zeros(size)
    for state in range(1, size):
        logs[state] = np.logaddexp.reduce(logs[:state] + rates[:state, state])
    return softmax(logs)


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
