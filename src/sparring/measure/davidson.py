"""Ratings from wins, draws and losses.

The Bradley-Terry model with Davidson's ties, fitted to all games at once.

With strengths s_i and draw propensity d, a pair's outcomes have weights

    i wins: exp(s_i / 2 - s_j / 2)    draw: exp(d)    j wins: exp(s_j / 2 - s_i / 2)

which is P(i wins) = p_i / (p_i + p_j + nu sqrt(p_i p_j)) with p = exp(s), nu = exp(d) (Davidson,
1970, JASA 65:317). The log-likelihood is concave; a Gaussian prior on s keeps the fit finite when a
player never loses. Unlike online ratings the fit does not depend on the order of the games.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparring.errors import ConfigError
from sparring.types import FloatArray, IntArray

ELO = 400.0 / np.log(10.0)
"""Elo points per unit of s: 400 points are 10 to 1 odds."""
_MAX_STEPS, _PRECISION = 200, 1e-6  # in natural-log units: 0.0002 Elo


@dataclass(frozen=True, kw_only=True, slots=True)
class DavidsonFit:
    """The posterior of the strengths: its mode and its Gaussian approximation; P players.

    Strengths are in natural-log units and have mean 0.
    """

    strengths: FloatArray  # [P]
    # [P, P] of the strengths around their mean: inverse curvature at the mode (Laplace)
    covariance: FloatArray
    draw: float  # d; negative where little is drawn


def fit_davidson(
    wins: FloatArray | IntArray, draws: FloatArray | IntArray, *, prior_sd: float = 3.0
) -> DavidsonFit:
    """Return the most probable strengths given the counts.

    Args:
        wins: [P, P] games that the row won against the column; the diagonal is not read.
        draws: [P, P] symmetric, drawn games of the pair.
        prior_sd: standard deviation of the prior on strengths and draw propensity, in natural-log
            units (3.0 is 521 Elo).

    Raises:
        ConfigError: shapes differ or are not square, a count is negative, or draws are not
            symmetric.
    """
    wins, draws = np.array(wins, dtype=np.float64), np.array(draws, dtype=np.float64)
    _check(wins, draws)
    num_players = len(wins)
    first, second = np.triu_indices(num_players, 1)
    # [pairs, 3]
    counts = np.stack([wins[first, second], draws[first, second], wins[second, first]], axis=1)
    # d log-weight / d parameter; the last parameter is d
    features = np.zeros((len(first), 3, num_players + 1))
    pairs = np.arange(len(first))
    features[pairs, 0, first] = features[pairs, 2, second] = 0.5
    features[pairs, 0, second] = features[pairs, 2, first] = -0.5
    features[:, 1, -1] = 1.0
    parameters, information = _newton(counts, features, prior_sd)
    centre = np.eye(num_players) - 1.0 / num_players
    return DavidsonFit(
        strengths=centre @ parameters[:-1],
        covariance=centre @ np.linalg.inv(information)[:-1, :-1] @ centre,
        draw=float(parameters[-1]),
    )


def _newton(
    counts: FloatArray, features: FloatArray, prior_sd: float
) -> tuple[FloatArray, FloatArray]:
    """Return the maximiser of log-likelihood minus |x|^2 / (2 sd^2) and the curvature there.

    Newton's steps from 0, where all outcomes are equally likely and the curvature is greatest, do
    not overshoot.
    """
    x = np.zeros(features.shape[-1])
    for _ in range(_MAX_STEPS):
        gradient, information = _derivatives(x, counts, features, prior_sd)
        step = np.linalg.solve(information, gradient)
        x = x + step
        if np.abs(step).max() <= _PRECISION:
            return x, _derivatives(x, counts, features, prior_sd)[1]
    raise AssertionError(
        f"Newton's method did not converge in {_MAX_STEPS} steps on counts {counts.tolist()}."
    )


def _derivatives(
    x: FloatArray, counts: FloatArray, features: FloatArray, prior_sd: float
) -> tuple[FloatArray, FloatArray]:
    """Return the gradient of the log-posterior, [K], and the negative of its Hessian, [K, K]."""
    probabilities = _probabilities(features @ x)
    games = counts.sum(axis=1, keepdims=True)
    gradient = np.einsum("po,pok->k", counts - games * probabilities, features) - x / prior_sd**2
    expected = np.einsum("po,pok->pk", probabilities, features)
    second_moment = np.einsum("po,pok,pol->kl", games * probabilities, features, features)
    return gradient, second_moment - np.einsum("pk,pl->kl", games * expected, expected) + np.eye(
        len(x)
    ) / prior_sd**2


def _probabilities(log_weights: FloatArray) -> FloatArray:
    """Return the softmax over the three outcomes of each pair, [pairs, 3]."""
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    probabilities: FloatArray = weights / weights.sum(axis=1, keepdims=True)
    return probabilities


def _check(wins: FloatArray, draws: FloatArray) -> None:
    """Raise ConfigError unless the counts are two square, equal, non-negative tables.

    Draws must be symmetric as well.
    """
    if (
        wins.ndim != 2
        or wins.shape[0] != wins.shape[1]
        or wins.shape != draws.shape
        or len(wins) < 2
    ):
        raise ConfigError(
            "Ratings need wins and draws of one shape [players, players], players >= 2; "
            f"got {wins.shape} and {draws.shape}."
        )
    if (wins < 0).any() or (draws < 0).any() or not np.array_equal(draws, draws.T):
        raise ConfigError(
            "Ratings need counts that are at least 0, and draws that are symmetric: draws[i, j] "
            "== draws[j, i]."
        )
