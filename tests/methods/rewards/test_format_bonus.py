from sparring.config.plugins import registry
from sparring.methods.rewards.format_bonus import format_bonus

TURNS = [(0, "ok", 2, 0.0), (1, "illegal", 2, 0.0), (0, "unparsable", 2, 0.0), (1, "ok", 2, 0.0)]


def test_legal_replies_are_paid_and_others_charged(make_episode):
    assert format_bonus(make_episode(TURNS)) == (0.05, 0.0, 0.0, 0.05)
    assert format_bonus(make_episode(TURNS), bonus=0.0, penalty=0.25) == (0.0, -0.25, -0.25, 0.0)


def test_the_released_mars_pays_and_never_charges(make_episode):
    bound = registry.bind("rewards", "format_bonus", {}, preset="mars_released")
    assert bound(make_episode(TURNS)) == (0.05, 0.0, 0.0, 0.05)
    assert bound.options == {"bonus": 0.05, "penalty": 0.0}
