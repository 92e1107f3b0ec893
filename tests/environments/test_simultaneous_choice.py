"""Rock paper scissors with three and five moves: who beats whom, prompts, and values of restricted mixtures."""

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

WINNERS_AND_LOSERS = (
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


WINNERS_AND_LOSERS_OF_GAMES = {
    "rock_paper_scissors": ("rock scissors", "scissors paper", "paper rock"),
    "rps_spock_lizard": WINNERS_AND_LOSERS,
}


@pytest.mark.parametrize("style", ["brief", "full"])
@pytest.mark.parametrize("environment", [rock_paper_scissors, rps_spock_lizard])
def test_environment_contract(environment, style):
    check_environment(environment, style=style, plays=10)


@every_case(
    ("environment", "left", "right"),
    [
        (rules, *pair)
        for rules in (rock_paper_scissors, rps_spock_lizard)
        for pair in itertools.product(rules.moves, repeat=2)
    ],
)
def test_payoffs_of_every_pair_of_moves(environment, left, right):
    episode = environment().reset(Stream.from_seed(0))
    assert episode.due() == (0, 1) and episode.returns == (0.0, 0.0)
    episode.step({0: left, 1: right})
    payoff = (f"{left} {right}" in WINNERS_AND_LOSERS_OF_GAMES[environment.name]) - (
        f"{right} {left}" in WINNERS_AND_LOSERS_OF_GAMES[environment.name]
    )
    assert episode.done and episode.due() == () and episode.returns == (payoff, -payoff)


@pytest.mark.parametrize("environment", [rock_paper_scissors, rps_spock_lizard])
def test_prompts_and_endings(environment):
    move = environment.moves[-1]
    episode = environment(style="full").reset(Stream.from_seed(0))
    prompts = [episode.observe(seat).text for seat in (0, 1)]
    assert prompts[0] == prompts[1]
    episode.step({0: move, 1: "paper"})
    assert episode.ending(0) == f"You chose {move}, the other player chose paper."
    assert episode.ending(1) == f"You chose paper, the other player chose {move}."


@pytest.mark.parametrize(
    ("left_out", "mixture", "exploitability"),
    [
        ((), (0.2, 0.2, 0.2, 0.2, 0.2), 0.0),
        (("spock", "lizard"), (1 / 3, 1 / 3, 1 / 3, 0, 0), 1 / 3),
        (("lizard",), (0, 1 / 3, 1 / 3, 1 / 3, 0), 1 / 3),  # rock is dominated by Spock
        (("spock",), (1 / 3, 1 / 3, 1 / 3, 0, 0), 1 / 3),  # lizard is dominated by scissors
    ],
)
def test_equilibria_without_some_moves_lose_a_third(left_out, mixture, exploitability):
    payoffs = np.array([[rps_spock_lizard.payoff(move, other) for other in MOVES] for move in MOVES])
    indices = [index for index, move in enumerate(MOVES) if move not in left_out]
    solution = np.zeros(len(MOVES))
    solution[indices] = maximin(payoffs[np.ix_(indices, indices)])[0]
    assert solution == pytest.approx(np.array(mixture), abs=1e-9)
    assert max(payoffs @ solution) == pytest.approx(exploitability, abs=1e-9)


@pytest.mark.parametrize(
    ("num_moves", "expected", "exploitability"), [(3, (1 / 3, 4 / 9, 2 / 9), 1 / 9), (4, None, 1 / 15)]
)
def test_minimax_mixtures_of_the_first_moves_match_the_docs(num_moves, expected, exploitability):
    """The mixture uses only the first moves, and the best response all five."""
    payoffs = np.array([[rps_spock_lizard.payoff(move, other) for other in MOVES] for move in MOVES])
    mixture, value = maximin(payoffs[:num_moves])
    assert value == pytest.approx(-exploitability) and max(-(mixture @ payoffs[:num_moves])) == pytest.approx(
        exploitability
    )
    assert expected is None or mixture == pytest.approx(np.array(expected))
    docs_page = (Path(__file__).parents[2] / "docs" / "sla.md").read_text(encoding="utf-8")
    assert "has 1/9 (rock 1/3, paper 4/9, scissors 2/9)" in docs_page
    assert "1/9 with the three words and 1/15 if Spock is added" in rps_spock_lizard.__doc__
