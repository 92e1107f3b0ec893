"""Rock, paper, scissors, Spock, lizard: each beats two, and three or four words are worth 1/3."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from sparring.core.rng import Stream
from sparring.environments.catalogue import from_spec, make_game
from sparring.environments.rps_spock_lizard import MOVES, rps_spock_lizard, won_by
from sparring.environments.spec import spec_of
from sparring.ops.matrix_games import maximin
from sparring.testing import check_environment
from tests.cases import every_case

# as the rules say it in words
SENTENCES = ("rock scissors", "rock lizard", "paper rock", "paper spock", "scissors paper", "scissors lizard", "spock rock", "spock scissors", "lizard paper", "lizard spock")


@pytest.mark.parametrize("style", ["brief", "full"])
def test_it_keeps_the_contract(style):
    check_environment(rps_spock_lizard, style=style, plays=10)


@every_case(("left", "right"), list(itertools.product(MOVES, MOVES)))
def test_who_beats_whom(left, right):
    play = rps_spock_lizard().reset(Stream.from_seed(0))
    assert play.due() == (0, 1) and play.returns == (0.0, 0.0)
    play.step({0: left, 1: right})
    won = (f"{left} {right}" in SENTENCES) - (f"{right} {left}" in SENTENCES)
    assert play.done and play.due() == () and play.returns == (won, -won)


def test_what_is_told_words_and_the_spec():
    play = rps_spock_lizard(style="full").reset(Stream.from_seed(0))
    before = [play.observe(seat).text for seat in (0, 1)]
    assert before[0] == before[1]
    play.step({0: "spock", 1: "paper"})
    assert [play.ending(seat) for seat in (0, 1)] == [
        "You chose spock, the other player chose paper.",
        "You chose paper, the other player chose spock.",
    ]
    game = rps_spock_lizard()
    play = game.reset(Stream.from_seed(0))
    said = {word for seat in (0, 1) for word in play.observe(seat).text.split()}
    play.step({0: "rock", 1: "lizard"})
    assert {*said, *play.ending(0).split(), *MOVES} <= set(game.vocabulary())
    made = make_game("rps_spock_lizard", options={"style": "full"})
    assert from_spec(spec_of(made)).style == "full" and spec_of(from_spec(spec_of(made))) == spec_of(made)


@pytest.mark.parametrize(("words", "left", "exploited"), [
    ((), (0.2, 0.2, 0.2, 0.2, 0.2), 0.0),
    (("spock", "lizard"), (1 / 3, 1 / 3, 1 / 3, 0, 0), 1 / 3),
    (("lizard",), (0, 1 / 3, 1 / 3, 1 / 3, 0), 1 / 3),  # rock is dominated by Spock
    (("spock",), (1 / 3, 1 / 3, 1 / 3, 0, 0), 1 / 3),  # lizard is dominated by scissors
])
def test_the_equilibrium_of_fewer_words_is_exploited_by_a_third(words, left, exploited):
    payoffs = np.array([[won_by(one, other) for other in MOVES] for one in MOVES])
    kept = [place for place, move in enumerate(MOVES) if move not in words]
    found = np.zeros(len(MOVES))
    found[kept] = maximin(payoffs[np.ix_(kept, kept)])[0]
    assert found == pytest.approx(np.array(left), abs=1e-9)
    assert max(payoffs @ found) == pytest.approx(exploited, abs=1e-9)


@pytest.mark.parametrize(("words", "left", "least"), [(3, (1 / 3, 4 / 9, 2 / 9), 1 / 9), (4, None, 1 / 15)])
def test_the_least_that_a_mixture_of_fewer_words_loses_is_what_the_pages_say(words, left, least):
    """Both figures follow from the payoffs: all five replies are open to the best response, and the first words alone to the mixture."""
    payoffs = np.array([[won_by(one, other) for other in MOVES] for one in MOVES])
    mixture, value = maximin(payoffs[:words])
    assert value == pytest.approx(-least) and max(-(mixture @ payoffs[:words])) == pytest.approx(least)
    assert left is None or mixture == pytest.approx(np.array(left))
    page = (Path(__file__).parents[2] / "docs" / "sla.md").read_text(encoding="utf-8")
    assert "less than 1/9 (rock 1/3, paper 4/9, scissors 2/9)" in page
    assert "1/9 for the three and 1/15 with Spock" in rps_spock_lizard.__doc__
