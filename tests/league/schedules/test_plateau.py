from hypothesis import given
from hypothesis import strategies as st

from sparring.league.schedules.plateau import plateau
from sparring.league.schedules.steps import steps
from sparring.testing import schedule_request

RISING = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
FLAT = [0.0, 0.9, 0.5, 0.5, 0.4, 0.6]


def request(returns, age=10, every=10):
    return schedule_request(age, every, returns=returns)


def test_plateau_agrees_with_a_hand_calculation():
    # means of the last two pairs: RISING 0.25 and 0.45 (gain 0.2), FLAT 0.5 and 0.5 (gain 0)
    assert not plateau(request(RISING), window=2) and plateau(request(FLAT), window=2)
    assert plateau(request(RISING), window=2, gain=0.21) and not plateau(request(RISING), window=2, gain=0.19)


def test_snapshot_age_is_at_least_every_and_at_most_longest_times_every():
    assert not plateau(request(FLAT, age=9), window=2)
    assert not plateau(request(RISING, age=39), window=2) and plateau(request(RISING, age=40), window=2)


def test_too_few_returns_are_no_plateau():
    assert not plateau(request(FLAT[:3]), window=2) and not plateau(request([]))


@given(age=st.integers(1, 40), every=st.integers(1, 20))
def test_plateau_equals_the_schedule_steps_if_longest_is_1(age, every):
    assert plateau(request(RISING, age, every), longest=1.0) == steps(request(RISING, age, every))


@given(returns=st.lists(st.integers(-5, 5), min_size=4, max_size=12), shift=st.sampled_from([-8.0, 0.5, 2.0**20]))
def test_a_constant_added_to_all_returns_has_no_effect(returns, shift):
    shifted_returns = [value + shift for value in returns]
    assert plateau(request(returns), window=2) == plateau(request(shifted_returns), window=2)
