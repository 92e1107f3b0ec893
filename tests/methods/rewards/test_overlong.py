import pytest

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError
from sparring.methods.rewards.overlong import overlong


def episode_of(make_episode, *tokens):
    return make_episode([(number % 2, "ok", count, 0.0) for number, count in enumerate(tokens)])


def test_nothing_then_a_line_then_minus_one(make_episode):
    played = episode_of(make_episode, 0, 6, 7, 9, 10, 12)
    assert overlong(played, max_tokens=10, cache=4) == (0.0, 0.0, -0.25, -0.75, -1.0, -1.0)
    assert overlong(played, max_tokens=12, cache=12) == pytest.approx((0.0, -0.5, -7 / 12, -0.75, -10 / 12, -1.0))


def test_dapo_by_hand(make_episode):
    played = episode_of(make_episode, 16384, 18000, 20480)
    for values in (registry.bind("rewards", "overlong", preset="dapo")(played), overlong(played)):
        assert values == pytest.approx((0.0, -0.39453125, -1.0))


def test_the_cache_lies_within_the_limit(make_episode):
    with pytest.raises(ConfigError, match="cache=5 must be at most max_tokens=4; write cache: 4"):
        overlong(episode_of(make_episode, 1), max_tokens=4, cache=5)
