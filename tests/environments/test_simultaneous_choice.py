"""Simultaneous choices of words that beat each other; of five each beats two, and three or four are worth 1/3."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from sparring.core.rng import Stream
from sparring.environments.rock_paper_scissors import rock_paper_scissors
from sparring.environments.rps_spock_lizard import MOVES, rps_spock_lizard
from sparring.ops.matrix_games import maximin
from sparring.testing import check_environment
from tests.cases import every_case

SENTENCES = (
    "rock scissors",
    "rock lizard",
    "paper rock",
    "paper spock",
    "scissors paper",
    "scissors lizard",
    "spock rock",
    "spock scissors",
    "lizard paper",
    "lizard spock",
)


BEATS = {"rock_paper_scissors": ("rock scissors", "scissors paper", "paper rock"), "rps_spock_lizard": SENTENCES}


@pytest.mark.parametrize("style", ["brief", "full"])
@pytest.mark.parametrize("environment", [rock_paper_scissors, rps_spock_lizard])
def test_it_keeps_the_contract(environment, style):
    check_environment(environment, style=style, plays=10)


@every_case(
    ("environment", "left", "right"),
    [
        (rules, *pair)
        for rules in (rock_paper_scissors, rps_spock_lizard)
        for pair in itertools.product(rules.moves, repeat=2)
    ],
)
def test_who_beats_whom(environment, left, right):
    play = environment().reset(Stream.from_seed(0))
    assert play.due() == (0, 1) and play.returns == (0.0, 0.0)
    play.step({0: left, 1: right})
    won = (f"{left} {right}" in BEATS[environment.name]) - (f"{right} {left}" in BEATS[environment.name])
    assert play.done and play.due() == () and play.returns == (won, -won)


@pytest.mark.parametrize("environment", [rock_paper_scissors, rps_spock_lizard])
def test_what_is_told(environment):
    move = environment.moves[-1]
    play = environment(style="full").reset(Stream.from_seed(0))
    before = [play.observe(seat).text for seat in (0, 1)]
    assert before[0] == before[1]
    play.step({0: move, 1: "paper"})
    assert play.ending(0) == f"You chose {move}, the other player chose paper."
    assert play.ending(1) == f"You chose paper, the other player chose {move}."


@pytest.mark.parametrize(
    ("words", "mixture", "exploited"),
    [
        ((), (0.2, 0.2, 0.2, 0.2, 0.2), 0.0),
        (("spock", "lizard"), (1 / 3, 1 / 3, 1 / 3, 0, 0), 1 / 3),
        (("lizard",), (0, 1 / 3, 1 / 3, 1 / 3, 0), 1 / 3),  # rock is dominated by Spock
        (("spock",), (1 / 3, 1 / 3, 1 / 3, 0, 0), 1 / 3),  # lizard is dominated by scissors
    ],
)
def test_the_equilibrium_of_fewer_words_is_exploited_by_a_third(words, mixture, exploited):
    payoffs = np.array([[rps_spock_lizard.payoff(move, other) for other in MOVES] for move in MOVES])
    places = [place for place, move in enumerate(MOVES) if move not in words]
    solution = np.zeros(len(MOVES))
    solution[places] = maximin(payoffs[np.ix_(places, places)])[0]
    assert solution == pytest.approx(np.array(mixture), abs=1e-9)
    assert max(payoffs @ solution) == pytest.approx(exploited, abs=1e-9)


@pytest.mark.parametrize(("words", "expected", "least"), [(3, (1 / 3, 4 / 9, 2 / 9), 1 / 9), (4, None, 1 / 15)])
def test_the_least_that_a_mixture_of_fewer_words_loses_is_what_the_pages_say(words, expected, least):
    """Both figures follow from the payoffs: all five replies are open to the best response, and the first words alone to the mixture."""
    payoffs = np.array([[rps_spock_lizard.payoff(move, other) for other in MOVES] for move in MOVES])
    mixture, value = maximin(payoffs[:words])
    assert value == pytest.approx(-least) and max(-(mixture @ payoffs[:words])) == pytest.approx(least)
    assert expected is None or mixture == pytest.approx(np.array(expected))
    page = (Path(__file__).parents[2] / "docs" / "sla.md").read_text(encoding="utf-8")
    assert "less than 1/9 (rock 1/3, paper 4/9, scissors 2/9)" in page
    assert "1/9 for the three and 1/15 with Spock" in rps_spock_lizard.__doc__
