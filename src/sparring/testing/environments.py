"""Checks the contract of environments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparring.config.plugins.guard import with_watch
from sparring.config.plugins.registry import BoundPlugin
from sparring.core.rng import Stream
from sparring.environments.base import teams_of
from sparring.environments.foreign import complete_environment
from sparring.environments.random_episode import CheckedEnvironmentCall, play_randomly
from sparring.testing.bound_plugin import bind_plugin, require_equal


@with_watch
def check_environment(
    environment: Callable[..., Any] | BoundPlugin,
    /,
    *,
    plays: int = 30,
    seed: int = 0,
    **options: Any,
) -> None:
    """Check an environment by random episodes.

    Every episode must end within ``max_turns`` replies. Until then, at least one seat must be due;
    all due seats reply at the same time. A due seat must get an observation, which stays equal
    until the seat replies. Legal actions must be unique. Reading the text of a legal action must
    return this action, and reading a reply without an action must return None. Returns must be one
    finite number per seat, within ``min_utility`` and ``max_utility``; those of a zero-sum
    environment must sum to 0. Where any text is legal, odd texts such as an empty one must be read
    and played without an error. Each of the ``figures`` must be one finite number per seat, or nan.
    Equal streams must give equal episodes, and a copy of a running episode must continue equally.
    Every episode and every copy is closed once.

    Args:
        environment: the function that makes the environment, or the bound plug-in.
        plays: number of episodes.
        seed: seed of the episodes.
        options: options of the function.

    Raises:
        AssertionError: the environment breaks one of these rules.
        GameError: a required attribute is missing, teams and seats differ in number, or any text
            is legal but the environment cannot draw a random one.
        PluginError: the environment's own code raised, or did not return.
    """
    bound_environment = bind_plugin("environments", environment, options)
    rules = complete_environment(bound_environment.plugin.name, bound_environment())
    with CheckedEnvironmentCall(rules):
        _check(rules, bound_environment.plugin.name, plays, seed)


def _check(rules: Any, name: str, plays: int, seed: int) -> None:
    assert rules.num_seats == len(rules.roles) == len(set(rules.roles)), (
        f"{name}: {rules.num_seats} seats have the roles {rules.roles}."
    )
    teams_of(rules)
    root = Stream.from_seed(seed)
    for number in range(plays):
        history = [*play_randomly(rules, name, root.child(number), copies=False)]
        for copies, reason in ((False, "the same stream"), (True, "a copy of a play")):
            repetition = [*play_randomly(rules, name, root.child(number), copies=copies)]
            require_equal(history, repetition, f"{name}: {reason} must give the same play")
