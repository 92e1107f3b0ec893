"""Checks of plug-ins' contracts, to call from the tests of your own package.

    from sparring.testing import check_reward
    from my_package.short_replies import short_replies

    def test_it_is_a_reward():
        check_reward(short_replies, most=3)

Each check calls the plug-in's function, with its options, on many random inputs from a fixed seed.
A failed check raises AssertionError; the message says what the plug-in returned and what is
required. Sparring's own plug-ins pass the same checks.
"""

from sparring.testing.context import check_context, context_seen
from sparring.testing.environments import check_environment
from sparring.testing.estimators import check_estimator, random_table
from sparring.testing.league_plugins import (
    check_keeping,
    check_matchmaker,
    check_meta_solver,
    check_schedule,
    keep_request,
    match_request,
    schedule_request,
)
from sparring.testing.pictures import check_picture, check_svg
from sparring.testing.rewards import check_reward, random_episode
from sparring.testing.samplers import check_backend, check_sampler

__all__ = [
    "check_backend",
    "check_context",
    "check_environment",
    "check_estimator",
    "check_keeping",
    "check_matchmaker",
    "check_meta_solver",
    "check_picture",
    "check_reward",
    "check_sampler",
    "check_schedule",
    "check_svg",
    "context_seen",
    "keep_request",
    "match_request",
    "random_episode",
    "random_table",
    "schedule_request",
]
