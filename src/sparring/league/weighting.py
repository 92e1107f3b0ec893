"""Weights of opponents by how often they are beaten: prioritised fictitious self-play."""

from __future__ import annotations

from collections.abc import Sequence

AS_PUBLISHED = {  # name in AlphaStar's pseudo-code -> weighting and power of ``weight``
    "squared": ("hard", 2.0),
    "linear": ("hard", 1.0),
    "linear_capped": ("capped", 1.0),
    "variance": ("variance", 1.0),
}


def weight(rate: float, weighting: str, power: float) -> float:
    """Return f(p), the weight of an opponent against whom one has this rate p of wins.

        f(p) = (1 - p)^power     "hard"
        f(p) = min(1/2, 1 - p)   "capped"
        f(p) = p (1 - p)         "variance"

    Args:
        rate: of wins against the opponent, in [0, 1].
        weighting: "hard", "capped" or "variance".
        power: the exponent of "hard", at least 0.
    """
    if weighting == "variance":
        return rate * (1 - rate)
    return min(0.5, 1 - rate) if weighting == "capped" else float((1 - rate) ** power)


def weights(rates: Sequence[float], weighting: str, power: float) -> list[float]:
    """Return f of some rates; where all are 0, the same weight for each.

    Args:
        rates: of wins against each opponent.
        weighting: as in ``weight``.
        power: as in ``weight``.
    """
    found = [weight(rate, weighting, power) for rate in rates]
    return found if sum(found) > 0 else [1.0] * len(found)
