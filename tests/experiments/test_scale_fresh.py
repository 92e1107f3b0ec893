"""The model of a run in fresh order: quicker than pinned order where tails are heavy, and every unit is accounted for."""

import pytest

from sparring.experiments.scale_cases import lognormal_units
from sparring.experiments.scale_fresh import simulate_fresh
from sparring.experiments.scale_model import Setting, simulate


def setting(**changes):
    return Setting(**{"workers": 8, "lag": 2, "steps": 12, "units": 16, "unit": lognormal_units(0, 2.0, 1.2), "learner": 0.5, "pull": 0.0, "timeout": 1e5, **changes})


def test_with_equal_units_it_is_as_quick_as_pinned_order():
    even = setting(unit=lambda unit: 1.0)
    found = simulate_fresh(even)
    assert found.outcome.seconds == pytest.approx(simulate(even).seconds, rel=0.1)
    assert found.account.issued == found.account.learned == 12 * 16


def test_heavy_tails_hold_up_pinned_order_more():
    assert simulate_fresh(setting()).outcome.seconds < 0.9 * simulate(setting()).seconds


@pytest.mark.parametrize("lag", [1, 3])
def test_every_unit_is_accounted_for_under_deaths(lag):
    found = simulate_fresh(setting(lag=lag, deaths=60.0))
    account = found.account
    assert account.balances and account.learned == 12 * 16 and account.open == 0
    assert account.lost == found.outcome.resent > 0
    assert 0 < found.lag <= found.lag_max <= lag
