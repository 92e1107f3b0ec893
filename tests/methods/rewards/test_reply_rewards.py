import pytest

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError
from sparring.methods.rewards.draw_bonus import draw_bonus
from sparring.methods.rewards.format_bonus import format_bonus
from sparring.methods.rewards.length import length
from sparring.methods.rewards.overlong import overlong

TURNS_OF_DRAW_BONUS = [(0, "ok", 2, 0.0), (1, "ok", 2, 0.0), (0, "ok", 2, 0.0)]


def test_each_seats_last_turn_is_paid(make_episode):
    assert draw_bonus(make_episode(TURNS_OF_DRAW_BONUS)) == (0.0, 0.1, 0.1)
    assert draw_bonus(make_episode(TURNS_OF_DRAW_BONUS), bonus=-0.2) == (0.0, -0.2, -0.2)


@pytest.mark.parametrize("changes", [{"returns": (1.0, -1.0)}, {"returns": (0.0, 0.5)}, {"forfeited_by": 0}])
def test_episodes_that_are_no_draw_are_not_paid(make_episode, changes):
    assert draw_bonus(make_episode(TURNS_OF_DRAW_BONUS, **changes)) == (0.0, 0.0, 0.0)


def test_only_the_configured_games_are_paid(make_episode):
    poker = make_episode(TURNS_OF_DRAW_BONUS, game="leduc_poker")
    assert draw_bonus(poker) == (0.0, 0.1, 0.1)
    assert draw_bonus(poker, games=("leduc_poker",)) == (0.0, 0.1, 0.1)
    assert draw_bonus(poker, games=("hanabi", "kuhn_poker")) == (0.0, 0.0, 0.0)


def test_the_mars_preset_pays_in_its_board_games_and_hanabi(make_episode):
    reward = registry.bind("rewards", "draw_bonus", preset="mars")
    for game in ("tic_tac_toe", "connect_four", "hanabi"):
        assert reward(make_episode(TURNS_OF_DRAW_BONUS, game=game)) == (0.0, 0.1, 0.1)
    for game in ("kuhn_poker", "leduc_poker"):
        assert reward(make_episode(TURNS_OF_DRAW_BONUS, game=game)) == (0.0, 0.0, 0.0)


TURNS_OF_FORMAT_BONUS = [(0, "ok", 2, 0.0), (1, "illegal", 2, 0.0), (0, "unparsable", 2, 0.0), (1, "ok", 2, 0.0)]


def test_legal_replies_are_paid_and_other_replies_penalised(make_episode):
    assert format_bonus(make_episode(TURNS_OF_FORMAT_BONUS)) == (0.05, 0.0, 0.0, 0.05)
    assert format_bonus(make_episode(TURNS_OF_FORMAT_BONUS), bonus=0.0, penalty=0.25) == (0.0, -0.25, -0.25, 0.0)


def test_format_bonus_of_the_released_mars_has_no_penalty(make_episode):
    reward = registry.bind("rewards", "format_bonus", {}, preset="mars_released")
    assert reward(make_episode(TURNS_OF_FORMAT_BONUS)) == (0.05, 0.0, 0.0, 0.05)
    assert reward.options == {"bonus": 0.05, "penalty": 0.0}


def episode_of(make_episode, *tokens):
    return make_episode([(index % 2, "ok", count, 0.0) for index, count in enumerate(tokens)])


def test_length_rewards_with_both_slopes_by_hand(make_episode):
    episode = episode_of(make_episode, 10, 15, 20, 30, 40)
    assert length(episode, shortest=10, longest=20, bonus=0.4, penalty=0.3) == pytest.approx(
        (0.4, 0.2, 0.0, -0.3, -0.6)
    )
    assert length(episode, shortest=10, longest=20, bonus=0.0, penalty=0.3) == pytest.approx(
        (0.0, 0.0, 0.0, -0.3, -0.6)
    )
    assert length(episode, shortest=10, longest=20, bonus=0.4, penalty=0.0) == pytest.approx((0.4, 0.2, 0.0, 0.0, 0.0))


def test_length_counts_only_sampled_tokens_and_empty_replies_get_0(make_episode):
    """The length of a reply excludes the three tokens of its prompt."""
    assert length(episode_of(make_episode, 0, 1), shortest=1, longest=3, bonus=1.0) == (0.0, 1.0)


def test_length_of_the_released_mars_penalises_replies_of_over_2048_tokens(make_episode):
    reward = registry.bind("rewards", "length", preset="mars_released")
    values = reward(episode_of(make_episode, 2, 11, 1000, 2048, 4096))
    assert values[:4] == (0.0, 0.0, 0.0, 0.0)
    assert values[4] == pytest.approx(0.5 * (1 - 4085 / 2037))
    assert length(episode_of(make_episode, 4096)) == values[4:]


def test_length_of_the_published_mars_rewards_short_replies(make_episode):
    reward = registry.bind("rewards", "length", preset="mars_paper")
    values = reward(episode_of(make_episode, 11, 1029, 2048, 4096))
    assert values == pytest.approx((0.5, 0.5 * 1019 / 2037, 0.0, 0.0))


def test_the_length_reward_needs_two_different_ends(make_episode):
    with pytest.raises(ConfigError, match="longest=5 must be above shortest=5; write longest: 6"):
        length(episode_of(make_episode, 1), shortest=5, longest=5)


def test_overlong_is_zero_then_linear_then_minus_one(make_episode):
    episode = episode_of(make_episode, 0, 6, 7, 9, 10, 12)
    assert overlong(episode, max_tokens=10, cache=4) == (0.0, 0.0, -0.25, -0.75, -1.0, -1.0)
    assert overlong(episode, max_tokens=12, cache=12) == pytest.approx((0.0, -0.5, -7 / 12, -0.75, -10 / 12, -1.0))


def test_the_dapo_preset_of_overlong_by_hand(make_episode):
    episode = episode_of(make_episode, 16384, 18000, 20480)
    for values in (registry.bind("rewards", "overlong", preset="dapo")(episode), overlong(episode)):
        assert values == pytest.approx((0.0, -0.39453125, -1.0))


def test_the_cache_must_be_smaller_than_the_limit(make_episode):
    with pytest.raises(ConfigError, match="cache=5 must be at most max_tokens=4; write cache: 4"):
        overlong(episode_of(make_episode, 1), max_tokens=4, cache=5)
