import pytest

from sparring.config.plugins import registry
from sparring.methods.rewards.draw_bonus import draw_bonus

TURNS = [(0, "ok", 2, 0.0), (1, "ok", 2, 0.0), (0, "ok", 2, 0.0)]


def test_each_seats_last_turn_is_paid(make_episode):
    assert draw_bonus(make_episode(TURNS)) == (0.0, 0.1, 0.1)
    assert draw_bonus(make_episode(TURNS), bonus=-0.2) == (0.0, -0.2, -0.2)


@pytest.mark.parametrize("changes", [{"returns": (1.0, -1.0)}, {"returns": (0.0, 0.5)}, {"forfeited_by": 0}])
def test_what_is_no_draw_is_not_paid(make_episode, changes):
    assert draw_bonus(make_episode(TURNS, **changes)) == (0.0, 0.0, 0.0)


def test_only_the_named_games_are_meant(make_episode):
    poker = make_episode(TURNS, game="leduc_poker")
    assert draw_bonus(poker) == (0.0, 0.1, 0.1)
    assert draw_bonus(poker, games=("leduc_poker",)) == (0.0, 0.1, 0.1)
    assert draw_bonus(poker, games=("hanabi", "kuhn_poker")) == (0.0, 0.0, 0.0)


def test_mars_pays_in_its_board_games_and_hanabi(make_episode):
    bound = registry.bind("rewards", "draw_bonus", preset="mars")
    for game in ("tic_tac_toe", "connect_four", "hanabi"):
        assert bound(make_episode(TURNS, game=game)) == (0.0, 0.1, 0.1)
    for game in ("kuhn_poker", "leduc_poker"):
        assert bound(make_episode(TURNS, game=game)) == (0.0, 0.0, 0.0)
