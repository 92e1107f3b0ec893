"""The simulated run on workers in virtual time: values by hand and invariants, for both orders."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.docs.loading import load

model = load("benchmarks", "scale_model")
Setting, lognormal_units, simulate = model.Setting, model.lognormal_units, model.simulate
simulate_fresh, thousand_workers = model.simulate_fresh, model.thousand_workers


def setting(**changes):
    return Setting(
        **{
            "workers": 1,
            "lag": 0,
            "steps": 20,
            "units": 4,
            "unit": lambda unit: 1.0,
            "learner": 2.0,
            "message": 0.0,
            "pull": 0.0,
            **changes,
        }
    )


def test_with_lag_0_a_step_takes_playing_plus_learning():
    outcome = simulate(setting())
    assert outcome.seconds == pytest.approx(20 * (4 + 2))
    assert (outcome.step_seconds, outcome.busy, outcome.learner_busy) == (
        pytest.approx(6.0),
        pytest.approx(4 / 6),
        pytest.approx(2 / 6),
    )
    assert simulate(setting(pull=0.5)).step_seconds == pytest.approx(6.5), "new weights cost each worker once a step"


@pytest.mark.parametrize(
    ("workers", "learner", "seconds", "limit"),
    [(1, 2.0, 4.0, "players"), (4, 2.0, 2.0, "learner"), (2, 2.0, 2.0, "players")],
)
def test_with_a_lag_the_slower_of_both_sets_the_pace(workers, learner, seconds, limit):
    outcome = simulate(setting(workers=workers, learner=learner, lag=1, steps=60))
    assert outcome.step_seconds == pytest.approx(seconds, rel=0.05)
    assert outcome.limit == limit


def test_0_9_ms_per_message_limit_many_workers():
    """1,000 units a step on 500 workers, 0.9 ms each for the training process: 0.9 seconds a step, though play takes 0.02."""
    outcome = simulate(
        setting(workers=500, units=1000, lag=2, steps=8, message=0.0009, unit=lambda unit: 0.01, learner=0.05)
    )
    assert outcome.step_seconds == pytest.approx(0.9, rel=0.02)
    assert outcome.limit == "messages" and outcome.messages_busy == pytest.approx(1.0, abs=0.02)


def test_one_death_of_a_worker_by_hand():
    """One death in a hand-made hour: the current unit is lost; the worker restarts and plays it again for the same time."""
    without_deaths = simulate(setting(unit=lambda unit: 100.0, steps=10))
    outcome = simulate(setting(unit=lambda unit: 100.0, steps=10, deaths=1.0, seed=1, restart=12.0))
    assert without_deaths.seconds == pytest.approx(10 * 402) and without_deaths.lost == 0 and without_deaths.resent == 0
    played_again = outcome.lost / (1 - outcome.lost) * 4000  # lost seconds of play
    restarts = outcome.seconds - without_deaths.seconds - played_again
    assert outcome.resent > 0 and restarts >= 12.0
    assert restarts % 12.5 == pytest.approx(0.0, abs=0.01) or restarts % 12.5 == pytest.approx(12.5, abs=0.01)


def test_waiting_messages_are_counted_when_they_are_handled():
    """Steps opened together begin with a backlog, which counts in the time when it is handled."""
    outcome = simulate(setting(workers=5, units=5, message=0.1, unit=lambda unit: 0.5, learner=0.5, lag=2, steps=6))
    assert outcome.messages_busy == pytest.approx(0.1 * 5 / outcome.step_seconds, rel=0.1)
    assert outcome.messages_busy <= 1.0


def test_seeds_determine_the_result():
    outcomes = [
        simulate(setting(workers=4, units=16, unit=lognormal_units(seed, 1.0, 1.0), deaths=20.0, lag=1))
        for seed in (3, 3, 4)
    ]
    assert outcomes[0] == outcomes[1] != outcomes[2]


@given(
    workers=st.integers(1, 8),
    units=st.integers(1, 12),
    learner=st.floats(0.0, 5.0),
    message=st.floats(0.0, 0.2),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_a_lag_never_slows_a_run_and_shares_are_between_0_and_1(workers, units, learner, message, seed):
    unit = lognormal_units(seed, 1.0, 0.8)
    outcomes = [
        simulate(setting(workers=workers, units=units, unit=unit, learner=learner, message=message, lag=lag, steps=12))
        for lag in (0, 1, 3)
    ]
    for outcome, next_outcome in pairwise(outcomes):
        assert next_outcome.seconds <= outcome.seconds * 1.01
    for outcome in outcomes:
        assert all(
            0 <= share <= 1 + 1e-9
            for share in (outcome.busy, outcome.learner_busy, outcome.messages_busy, outcome.lost)
        )
        assert outcome.limit in ("players", "learner", "messages", "tail")


def test_rows_of_many_workers_have_their_values_by_seed():
    rows = thousand_workers(workers=20, lags=(0, 2), seeds=2)
    assert [row["lag"] for row in rows] == ["0", "2"]
    assert all(set(row["values"]["share in play"]) == {"0", "1"} for row in rows)
    assert rows[1]["values"]["share in play"]["0"] > rows[0]["values"]["share in play"]["0"]


def with_tails(**changes):
    return Setting(
        **{
            "workers": 8,
            "lag": 2,
            "steps": 12,
            "units": 16,
            "unit": lognormal_units(0, 2.0, 1.2),
            "learner": 0.5,
            "pull": 0.0,
            "timeout": 1e5,
            **changes,
        }
    )


def test_with_equal_units_fresh_and_pinned_order_are_equally_fast():
    equal_units = with_tails(unit=lambda unit: 1.0)
    fresh_result = simulate_fresh(equal_units)
    assert fresh_result.outcome.seconds == pytest.approx(simulate(equal_units).seconds, rel=0.1)
    assert fresh_result.account.issued == fresh_result.account.learned == 12 * 16


def test_heavy_tails_delay_pinned_order_more():
    assert simulate_fresh(with_tails()).outcome.seconds < 0.9 * simulate(with_tails()).seconds


@pytest.mark.parametrize("lag", [1, 3])
def test_every_unit_is_accounted_for_under_deaths(lag):
    fresh_result = simulate_fresh(with_tails(lag=lag, deaths=60.0))
    account = fresh_result.account
    assert account.is_balanced and account.learned == 12 * 16 and account.open == 0
    assert account.lost == fresh_result.outcome.resent > 0
    assert 0 < fresh_result.lag <= fresh_result.lag_max <= lag
