"""The stationary distribution of a Markov chain, also where its rates differ by any factor.

States are taken out one by one (Grassmann, Taksar and Heyman, 1985). Nothing is subtracted, so that
it can be done on the logarithms of the rates: rates too small for a number of their own still say
which of several closed sets of states has how much of the mass.
"""

from __future__ import annotations

import numpy as np

from sparring.ops.simplex import softmax
from sparring.types import FloatArray


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
