"""State visitation by enumeration equals values by hand, all draws of K replies, and games with candidates."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.config.plugins import registry
from sparring.core.errors import GameError
from sparring.environments.catalogue import make_game
from sparring.measure.info_states import TabularScorer, enumerate_info_states
from studies.vpr_released.occupancy import Enumeration, committed


def oracle():
    return registry.bind("oracles", "graded")()


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), min_size=1, max_size=4), st.integers(1, 3))
def test_committed_probabilities_equal_those_over_all_draws(replies, count):
    weights = np.array([weight for weight, _ in replies], dtype=float)
    if not weights.sum():
        weights += 1.0
    chances, scores = weights / weights.sum(), np.array([float(score) for _, score in replies])
    expected = np.zeros(len(chances))
    for draw in itertools.product(range(len(chances)), repeat=count):
        best_score = max(scores[reply] for reply in draw)
        ties = [reply for reply in draw if scores[reply] == best_score]
        for reply in ties:
            expected[reply] += np.prod(chances[list(draw)]) / len(ties)
    assert committed(chances, scores, count) == pytest.approx(expected)


def test_one_reply_is_the_policy_and_many_are_the_oracle():
    chances, scores = np.array([0.2, 0.5, 0.3]), np.array([2.0, 0.0, -1.0])
    assert committed(chances, scores, 1) == pytest.approx(chances)
    assert committed(chances, scores, 200) == pytest.approx([1.0, 0.0, 0.0], abs=1e-9)


def enumeration(name="sudoku", **options):
    game = make_game(name, options=options or {"blanks": 2, "puzzles": 3})
    return Enumeration(game, enumerate_info_states(game), oracle())


def scorer(states, legal=0.75):
    table = {
        (query.seat, query.key): dict.fromkeys(query.legal_actions, legal / len(query.legal_actions))
        for query in states.info_states.queries
    }
    return TabularScorer(table)


def test_sudoku_by_hand():
    """Two blanks: 2 of 8 first digits and 1 of 4 second ones are right; a wrong digit ends the game; a quarter of the replies is illegal."""
    states = enumeration()
    single_reply = states.visited(scorer(states), 1)
    right_first, right_second = 0.75 * 2 / 8, 0.75 / 4
    assert single_reply.decisions == pytest.approx(1 + right_first)
    assert single_reply.success == pytest.approx(right_first * right_second)
    assert single_reply.illegal == pytest.approx(0.25 + right_first * 0.25)
    best_of_two = states.visited(scorer(states), 2)
    right_first_of_two = 1 - (1 - right_first) ** 2
    assert best_of_two.decisions == pytest.approx(1 + right_first_of_two)
    assert best_of_two.success == pytest.approx(right_first_of_two * (1 - (1 - right_second) ** 2))
    assert single_reply.distance(single_reply) == 0.0 and 0.0 < single_reply.distance(best_of_two) == pytest.approx(
        best_of_two.distance(single_reply)
    )
    # initial states among visits: 1 / (1 + right_first) against 1 / (1 + right_first_of_two)
    assert single_reply.distance(best_of_two) == pytest.approx(1 / (1 + right_first) - 1 / (1 + right_first_of_two))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("minesweeper", {"rows": 2, "columns": 2, "mines": 1, "layouts": 4}),
        ("sokoban", {"rooms": 2, "moves": 4, "longest": 4}),
    ],
)
def test_every_game_is_lost_or_won(name, options):
    states = enumeration(name, **options)
    for count in (1, 4):
        visits = states.visited(scorer(states), count)
        assert 0.0 < visits.success < 1.0 and visits.success + visits.illegal <= 1.0 + 1e-9
        assert visits.decisions >= 1.0


def test_games_of_several_seats_are_refused():
    game = make_game("kuhn_poker")
    with pytest.raises(GameError, match="one seat"):
        Enumeration(game, enumerate_info_states(game), oracle())
