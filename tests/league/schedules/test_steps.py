import pytest

from sparring.league.schedules.steps import steps
from sparring.testing import schedule_request


@pytest.mark.parametrize(("age", "every", "is_due"), [(1, 1, True), (9, 10, False), (10, 10, True), (11, 10, True)])
def test_a_snapshot_is_due_once_its_age_reaches_the_interval(age, every, is_due):
    assert steps(schedule_request(age, every)) is is_due
