"""The contract of league schedules, and the answers of one that a run refuses."""

import inspect

import pytest

from sparring.config.plugins import registry
from sparring.config.plugins.registry import Plugin, with_options
from sparring.core.errors import PluginError
from sparring.testing import check_schedule, schedule_request

NAMES = registry.names("league.schedules")


@pytest.mark.parametrize("name", NAMES)
def test_the_public_check_passes(name):
    check_schedule(registry.bind("league.schedules", name))


def test_a_schedule_that_never_takes_a_snapshot_fails_the_check():
    with pytest.raises(AssertionError, match="takes no snapshot in 200 requests"):
        check_schedule(lambda request: False)


@pytest.mark.parametrize("answer", [None, 1, "yes"])
def test_an_answer_that_cannot_be_used_is_refused(answer):
    schedule = with_options(
        Plugin(
            slot="league.schedules",
            name="mine",
            function=lambda request: answer,
            module=inspect.getmodule(check_schedule),
        )
    )
    with pytest.raises(PluginError, match="must return True, for a snapshot now, or False") as error:
        schedule(schedule_request(1))
    assert "schedule 'mine' (league.schedule)" in str(error.value)
