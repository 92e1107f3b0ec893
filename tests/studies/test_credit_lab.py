"""Figures in the findings of the credit lab, by hand."""

import pytest

from studies.credit_lab import tables


def row(estimator, variance, bias_low=0.0):
    return {"estimator": estimator, "variance_scaled": {"mean": variance}, "bias_scaled": {"low": bias_low}}


@pytest.fixture
def lab(monkeypatch):
    games = [
        {"rows": [row("rloo", 4.0), row("shapley", 9.0, 0.5), {"estimator": "oprl", "refused": "a reason"}]},
        {"rows": [row("rloo", 1.0, 0.005), row("shapley", None), row("oprl", 2.0)]},
    ]
    monkeypatch.setattr(tables, "comparison", lambda results: {"games": games})
    return tables.LabFigures(None)


def test_noise_is_the_geometric_mean_over_the_games_that_have_a_variance(lab):
    assert lab.noise("rloo") == pytest.approx(2.0)  # the square root of 4 * 1
    assert lab.noise("shapley") == pytest.approx(9.0)  # one game alone


def test_an_estimator_is_right_in_direction_if_no_game_shows_a_bias(lab):
    assert lab.names == ["rloo", "shapley"], "oprl was refused in one game"
    assert lab.right_in_direction() == ["rloo"]
