"""Liar's dice: words of bids, and the winner of a doubted bid."""

import pytest

from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from tests.environments.worlds import apply_actions


def test_words_match_openspiel():
    game = make_game("liars_dice", options={"dice": 2, "sides": 4})
    state = game.reset(Stream.from_seed(0))
    for index, word in enumerate(game.words[:-1]):
        assert state.spiel.action_to_string(0, index) == word
    assert game.words[-1] == "liar" and "liar" not in state.legal_actions()


def test_dice_are_sorted():
    game = make_game("liars_dice", options={"dice": 3, "sides": 6})
    for seed in range(20):
        dice = game.reset(Stream.from_seed(seed)).observe(1).text.split()[2:]
        assert dice == sorted(dice)


@pytest.mark.parametrize("dice", [1, 2])
def test_a_doubted_bid_counts_the_highest_face_as_wild(dice):
    game, root = make_game("liars_dice", options={"dice": dice, "sides": 4}), Stream.from_seed(2)
    for number in range(200):
        state = game.reset(root.child(number))
        all_dice = [int(die) for seat in (0, 1) for die in state.observe(seat).text.split()[2:]]
        assert len(all_dice) == 2 * dice
        legal = state.legal_actions()
        bid = legal[root.child("bid").integer(number, len(legal))]
        count, face = map(int, bid.split("-"))
        apply_actions(state, bid, "liar")
        bid_holds = sum(die in (face, 4) for die in all_dice) >= count
        assert list(state.returns) == ([1.0, -1.0] if bid_holds else [-1.0, 1.0])
