"""Tiny Hanabi: prompts and payoffs."""

from sparring.environments.catalogue import make_game
from tests.environments.worlds import state_after_ids


def test_prompts_and_payoffs():
    assert state_after_ids(make_game("tiny_hanabi"), 0, 1).observe(0).text == "tinyhanabi seat0 d0"
    assert state_after_ids(make_game("tiny_hanabi"), 0, 1, 2).observe(1).text == "tinyhanabi seat1 d1 a2"
    rules = make_game("tiny_hanabi", options={"style": "full"}).rules
    assert "d0, d0: a0, a0 = 10; a0, a1 = 0; a0, a2 = 0; a1, a0 = 4; a1, a1 = 8; a1, a2 = 4; a2, a0 = 10" in rules
    assert rules.count(" = ") == 1 + 36
    assert state_after_ids(make_game("tiny_hanabi"), 0, 0, 1, 1).returns == (8.0, 8.0)
