import pytest

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError
from sparring.methods.rewards.length import length


def episode_of(make_episode, *tokens):
    return make_episode([(number % 2, "ok", count, 0.0) for number, count in enumerate(tokens)])


def test_both_slopes_by_hand(make_episode):
    played = episode_of(make_episode, 10, 15, 20, 30, 40)
    assert length(played, shortest=10, longest=20, bonus=0.4, penalty=0.3) == pytest.approx((0.4, 0.2, 0.0, -0.3, -0.6))
    assert length(played, shortest=10, longest=20, bonus=0.0, penalty=0.3) == pytest.approx((0.0, 0.0, 0.0, -0.3, -0.6))
    assert length(played, shortest=10, longest=20, bonus=0.4, penalty=0.0) == pytest.approx((0.4, 0.2, 0.0, 0.0, 0.0))


def test_only_sampled_tokens_count_and_silent_turns_get_nothing(make_episode):
    """The prompt of three tokens before every reply does not count."""
    assert length(episode_of(make_episode, 0, 1), shortest=1, longest=3, bonus=1.0) == (0.0, 1.0)


def test_mars_as_released_charges_beyond_2048_tokens(make_episode):
    bound = registry.bind("rewards", "length", preset="mars_released")
    values = bound(episode_of(make_episode, 2, 11, 1000, 2048, 4096))
    assert values[:4] == (0.0, 0.0, 0.0, 0.0)
    assert values[4] == pytest.approx(0.5 * (1 - 4085 / 2037))
    assert length(episode_of(make_episode, 4096)) == values[4:]


def test_mars_as_published_pays_for_short_replies(make_episode):
    bound = registry.bind("rewards", "length", preset="mars_paper")
    values = bound(episode_of(make_episode, 11, 1029, 2048, 4096))
    assert values == pytest.approx((0.5, 0.5 * 1019 / 2037, 0.0, 0.0))


def test_the_line_needs_two_ends(make_episode):
    with pytest.raises(ConfigError, match="longest=5 must be above shortest=5; write longest: 6"):
        length(episode_of(make_episode, 1), shortest=5, longest=5)
