"""Davidson's model: closed forms, invariants, coverage."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.core.errors import ConfigError
from sparring.measure.league_table import ELO, fit_davidson

FLAT = 1e4  # a prior so wide that it does not count


def tables(size):
    cells = st.lists(st.integers(0, 30), min_size=size * size, max_size=size * size).map(lambda c: np.array(c).reshape(size, size))
    return st.tuples(cells, cells.map(lambda d: d + d.T)).map(lambda t: tuple(x * (1 - np.eye(size, dtype=int)) for x in t))


def two(wins, draws, losses):
    return np.array([[0, wins], [losses, 0]]), np.array([[0, draws], [draws, 0]])


@pytest.mark.parametrize(("wins", "draws", "losses"), [(30, 10, 10), (5, 50, 5), (1, 1, 98)])
def test_two_players_have_a_closed_form(wins, draws, losses):
    """The model is saturated: s_1 - s_2 = ln(wins / losses), d = ln(draws / sqrt(wins losses)), variance 1/wins + 1/losses."""
    fit = fit_davidson(*two(wins, draws, losses), prior_sd=FLAT)
    assert fit.strengths[0] - fit.strengths[1] == pytest.approx(np.log(wins / losses), abs=1e-6)
    assert fit.draw == pytest.approx(np.log(draws / np.sqrt(wins * losses)), abs=1e-6)
    c = fit.covariance
    assert c[0, 0] + c[1, 1] - 2 * c[0, 1] == pytest.approx(1 / wins + 1 / losses, rel=1e-5)


def test_without_draws_it_is_bradley_terry():
    """Four hundred Elo points are ten to one, and a third player's strength follows from the pairs it met."""
    wins = np.array([[0, 1000, 0], [100, 0, 1000], [0, 100, 0]])
    elo = ELO * fit_davidson(wins, np.zeros((3, 3)), prior_sd=FLAT).strengths
    np.testing.assert_allclose(elo, [400.0, 0.0, -400.0], atol=0.05)


def test_a_player_that_never_loses_has_a_finite_rating_with_a_wide_interval():
    fit = fit_davidson(*two(100, 0, 0))
    close = fit_davidson(*two(60, 0, 40))
    assert np.isfinite(fit.strengths).all()
    assert fit.strengths[0] > 2.0
    assert fit.covariance[0, 0] > 10 * close.covariance[0, 0]


def test_without_games_the_prior_is_left():
    fit = fit_davidson(np.zeros((2, 2)), np.zeros((2, 2)), prior_sd=2.0)
    np.testing.assert_allclose(fit.strengths, 0.0, atol=1e-12)
    assert fit.covariance[0, 0] == pytest.approx(4.0 / 2)  # the centred half of two independent variances of 4


@settings(max_examples=50, deadline=None)
@given(tables(4), st.permutations(range(4)))
def test_invariants(counts, order):
    wins, draws = counts
    fit = fit_davidson(wins, draws)
    assert fit.strengths.sum() == pytest.approx(0.0, abs=1e-9)
    renamed = fit_davidson(wins[np.ix_(order, order)], draws[np.ix_(order, order)])
    np.testing.assert_allclose(renamed.strengths, fit.strengths[list(order)], atol=1e-6)
    turned = fit_davidson(wins.T, draws)
    np.testing.assert_allclose(turned.strengths, -fit.strengths, atol=1e-6)
    np.testing.assert_allclose(fit.covariance.sum(axis=1), 0.0, atol=1e-9)
    assert np.linalg.eigvalsh(fit.covariance).min() > -1e-9


def log_posterior(strengths, draw, wins, draws, prior_sd):
    """Return the log-posterior by the formula of the paper, pair by pair."""
    total = -(np.sum(strengths**2) + draw**2) / (2 * prior_sd**2)
    p, nu = np.exp(strengths), np.exp(draw)
    for i in range(len(p)):
        for j in range(i):
            mass = p[i] + p[j] + nu * np.sqrt(p[i] * p[j])
            total += wins[i, j] * np.log(p[i] / mass) + wins[j, i] * np.log(p[j] / mass)
            total += draws[i, j] * np.log(nu * np.sqrt(p[i] * p[j]) / mass)
    return total


@settings(max_examples=50, deadline=None)
@given(tables(3), st.sampled_from([1.0, 3.0, 10.0]))
def test_the_fit_is_the_top_of_the_posterior(counts, prior_sd):
    fit = fit_davidson(*counts, prior_sd=prior_sd)
    top = log_posterior(fit.strengths, fit.draw, *counts, prior_sd)
    for size in (1e-3, -1e-3, 0.3, -0.3):
        for i in range(3):
            assert log_posterior(fit.strengths + size * np.eye(3)[i], fit.draw, *counts, prior_sd) < top
        assert log_posterior(fit.strengths, fit.draw + size, *counts, prior_sd) < top


@settings(max_examples=50, deadline=None)
@given(tables(4), st.sampled_from([1, 10**3, 10**6]), st.sampled_from([0.1, 3.0, 30.0]))
def test_extreme_counts_converge(counts, scale, prior_sd):
    fit = fit_davidson(counts[0] * scale, counts[1] * scale, prior_sd=prior_sd)
    assert np.isfinite(fit.strengths).all()


@pytest.mark.parametrize("scale", [1, 10**6])
def test_huge_counts_converge(scale):
    wins, draws = two(900 * scale, 50 * scale, 50 * scale)
    fit = fit_davidson(wins, draws, prior_sd=FLAT)
    assert fit.strengths[0] - fit.strengths[1] == pytest.approx(np.log(18), abs=1e-5)


def test_intervals_cover_the_truth_as_often_as_they_say():
    generator = np.random.default_rng(0)
    truth = np.array([1.2, 0.3, -0.4, -1.1])
    covered = []
    for _ in range(400):
        wins, draws = np.zeros((4, 4)), np.zeros((4, 4))
        for i in range(4):
            for j in range(i):
                weights = np.exp([(truth[i] - truth[j]) / 2, -0.5, (truth[j] - truth[i]) / 2])
                wins[i, j], draws[i, j], wins[j, i] = generator.multinomial(60, weights / weights.sum())
                draws[j, i] = draws[i, j]
        fit = fit_davidson(wins, draws)
        covered.append(np.abs(fit.strengths - truth) < 1.96 * np.sqrt(np.diag(fit.covariance)))
    assert np.mean(covered) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize(
    ("wins", "draws"),
    [
        (np.zeros((2, 3)), np.zeros((2, 3))),
        (np.zeros((2, 2)), np.zeros((3, 3))),
        (np.zeros((1, 1)), np.zeros((1, 1))),
        (-np.ones((2, 2)), np.zeros((2, 2))),
        (np.zeros((2, 2)), np.array([[0, 1], [2, 0]])),
    ],
)
def test_bad_counts_are_refused(wins, draws):
    with pytest.raises(ConfigError, match="Ratings need"):
        fit_davidson(wins, draws)
