"""Games in normal form, Shapley values, and stationary distributions of Markov chains.

A game in normal form is a table with one axis per side. A coalition of a cooperative game of n
players is the bit mask of its members.

``stationary`` eliminates the states of a Markov chain one by one (Grassmann, Taksar and Heyman,
1985). The method never subtracts, so it can use logarithms of rates. So even rates that would
round to 0 determine the probability of each closed set of states.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import factorial

import numpy as np

from sparring.core.records import FloatArray


def choice_payoffs(payoffs: FloatArray, strategies: Sequence[FloatArray], side: int) -> FloatArray:
    """Return the expected payoff of each choice of a side against the other strategies, [m_side].

    Args:
        payoffs: the payoffs to this side, [m_0, ..., m_{n-1}].
        strategies: a distribution over its choices, [m_s], for each side.
        side: number of the side.
    """
    remaining_payoffs = np.moveaxis(payoffs, side, 0)
    for other_side in reversed([s for s in range(len(strategies)) if s != side]):
        remaining_payoffs = remaining_payoffs @ strategies[other_side]
    return remaining_payoffs


def largest_size(arrays: Sequence[FloatArray]) -> float:
    """Return the largest absolute value in some arrays, at least the smallest normal number."""
    return max(np.finfo(np.float64).tiny, *(float(np.abs(array).max()) for array in arrays))


def in_range(payoffs: Sequence[FloatArray]) -> tuple[tuple[FloatArray, ...], FloatArray, float]:
    """Return payoffs shifted and scaled into [-1, 1]; preferences between choices do not change.

    Args:
        payoffs: an array of finite numbers for each side.

    Returns:
        Scaled payoffs, the number subtracted from each side's payoffs, and the common divisor,
        which is half of the largest range. If all payoffs of each side are equal, the scaled
        payoffs and the divisor are 0.
    """
    extremes = np.array([(float(table.min()), float(table.max())) for table in payoffs])
    middles: FloatArray = extremes.sum(axis=1) / 2
    half_range = float(np.diff(extremes, axis=1).max()) / 2
    if half_range == 0.0:
        return tuple(np.zeros_like(table) for table in payoffs), middles, 0.0
    shifted_payoffs = (table - middle for table, middle in zip(payoffs, middles, strict=True))
    return tuple(table / half_range for table in shifted_payoffs), middles, half_range


def softmax(values: FloatArray) -> FloatArray:
    """Return weights in proportion to exp(values), [m]."""
    exponentials = np.exp(values - values.max())
    weights: FloatArray = exponentials / exponentials.sum()
    return weights


def shares_above_zero(values: FloatArray) -> FloatArray:
    """Return weights in proportion to max(value, 0), [m]: regret matching; uniform if all are 0."""
    parts = np.maximum(values, 0.0)
    total = parts.sum()
    weights: FloatArray = parts / total if total > 0 else np.full(len(parts), 1.0 / len(parts))
    return weights


def project_onto_simplex(weights: FloatArray, minimum: float = 0.0) -> FloatArray:
    """Return the nearest distribution with all probabilities of at least ``minimum``, [m].

    Equation:
        max(w_i - t, minimum), with the t that makes the sum 1

    Args:
        weights: any numbers, [m].
        minimum: the smallest probability, at most 1 / m.
    """
    size, total = len(weights), float(weights.sum())
    if abs(total - 1.0) < 1e-12 and float(weights.min()) >= minimum:
        return weights / total  # the sum differs from 1 only by rounding
    sorted_excess = np.sort(weights)[::-1] - minimum
    counts = np.arange(1, size + 1)
    shifts = (np.cumsum(sorted_excess) - (1.0 - size * minimum)) / counts
    last_above = int(np.flatnonzero(sorted_excess >= shifts)[-1])
    distribution: FloatArray = np.maximum(weights - shifts[last_above], minimum)
    return distribution


def stationary(log_rates: FloatArray) -> FloatArray:
    """Return the share of time that a chain spends in each state, [n].

    Args:
        log_rates: logarithm of the rate from each state to every other, [n, n]; -inf for rate 0.
            The diagonal is ignored. Every state can be reached from every other.
    """
    rates, num_states = log_rates.copy(), len(log_rates)
    np.fill_diagonal(rates, -np.inf)
    for last_state in range(num_states - 1, 0, -1):
        rates[:last_state, last_state] -= np.logaddexp.reduce(rates[last_state, :last_state])
        rates_through = rates[:last_state, last_state, None] + rates[None, last_state, :last_state]
        rates[:last_state, :last_state] = np.logaddexp(
            rates[:last_state, :last_state], rates_through
        )
    log_shares = np.zeros(num_states)
    for state in range(1, num_states):
        log_shares[state] = np.logaddexp.reduce(log_shares[:state] + rates[:state, state])
    return softmax(log_shares)


MAX_PLAYERS = 8


def shapley_values(worth: FloatArray) -> FloatArray:
    """Return each player's mean contribution over all orders in which players could join, [n].

    Equation:
        phi_i = sum over S without i of |S|! (n - |S| - 1)! / n! * (v(S with i) - v(S))

    Args:
        worth: v of every coalition, [2^n], 2^n <= 256; coalition S has the index sum of 2^i over
            its members.
    """
    num_coalitions = len(worth)
    num_players = num_coalitions.bit_length() - 1
    assert num_coalitions == 1 << num_players and num_players <= MAX_PLAYERS, (
        f"{num_coalitions} coalitions are not the coalitions of at most {MAX_PLAYERS} players"
    )
    values: FloatArray = _weights(num_players) @ worth
    return values


@cache
def _weights(num_players: int) -> FloatArray:
    """Return the matrix [n, 2^n] that turns worths into Shapley values."""
    weights = np.zeros((num_players, 1 << num_players))
    for coalition in range(1 << num_players):
        size = coalition.bit_count()
        for player in range(num_players):
            if coalition >> player & 1:
                weights[player, coalition] = (
                    factorial(size - 1) * factorial(num_players - size) / factorial(num_players)
                )
            else:
                weights[player, coalition] = (
                    -factorial(size) * factorial(num_players - size - 1) / factorial(num_players)
                )
    weights.setflags(write=False)
    return weights
