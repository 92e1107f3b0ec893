"""Rock, paper, scissors: both choose at once."""

import itertools

import pytest

from sparring.core.rng import Stream
from sparring.environments.catalogue import from_spec, make_game
from sparring.environments.rock_paper_scissors import MOVES, rock_paper_scissors
from sparring.environments.spec import spec_of
from sparring.testing import check_environment

BEATS = {"rock": "scissors", "scissors": "paper", "paper": "rock"}


@pytest.mark.parametrize("style", ["brief", "full"])
def test_it_keeps_the_contract(style):
    check_environment(rock_paper_scissors, style=style, plays=10)


@pytest.mark.parametrize(("left", "right"), itertools.product(MOVES, MOVES))
def test_who_beats_whom(left, right):
    play = rock_paper_scissors().reset(Stream.from_seed(0))
    assert play.due() == (0, 1) and play.returns == (0.0, 0.0)
    play.step({0: left, 1: right})
    won = (BEATS[left] == right) - (BEATS[right] == left)
    assert play.done and play.due() == () and play.returns == (won, -won)


def test_what_is_told_words_and_the_spec():
    play = rock_paper_scissors(style="full").reset(Stream.from_seed(0))
    before = [play.observe(seat).text for seat in (0, 1)]
    assert before[0] == before[1]
    play.step({0: "rock", 1: "paper"})
    assert [play.ending(seat) for seat in (0, 1)] == [
        "You chose rock, the other player chose paper.",
        "You chose paper, the other player chose rock.",
    ]
    game = rock_paper_scissors()
    play = game.reset(Stream.from_seed(0))
    said = {word for seat in (0, 1) for word in play.observe(seat).text.split()}
    play.step({0: "rock", 1: "paper"})
    assert {*said, *play.ending(0).split(), *MOVES} <= set(game.vocabulary())
    made = make_game("rock_paper_scissors", options={"style": "full"})
    assert from_spec(spec_of(made)).style == "full" and spec_of(from_spec(spec_of(made))) == spec_of(made)
