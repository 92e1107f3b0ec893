import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.core.errors import GameError
from sparring.league.meta_solvers.base import MetaGame, of_matrix
from sparring.league.payoffs import weight
from tests.league.meta_solvers.meta_games import CYCLE, HARD, THREE_SIDES

# the matchmaker's kinds of weights and their powers
WEIGHTINGS = {
    "squared": ("hard", 2),
    "linear": ("hard", 1),
    "linear_capped": ("capped", 9),
    "variance": ("variance", 9),
}


def solved(game, weighting="squared"):
    return bind("league.meta_solvers", "pfsp", {"weighting": weighting})(game).sides


def of_wins(wins, **more):
    zeros = np.zeros(np.shape(wins))
    return MetaGame(payoffs=(zeros, zeros.T if more else zeros), wins=wins, **more)


def test_rates_follow_from_payoffs_of_wins_and_losses():
    first, second = solved(of_matrix(CYCLE))  # the newest loses to the first, beats the second
    np.testing.assert_allclose(first, [0.8, 0, 0.2])
    assert first.tolist() == second.tolist()


def test_rates_that_are_given_win_over_payoffs():
    assert solved(MetaGame(payoffs=([[1.0, -1.0]], [[-1.0, 1.0]]), wins=[[0.0, 1.0]]))[1].tolist() == [1, 0]


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_who_beats_all_meets_all_alike(weighting):
    assert solved(of_wins([[1.0, 1.0, 1.0]]), weighting)[1].tolist() == [1 / 3] * 3


@pytest.mark.parametrize("name", [name for name, game in HARD.items() if np.abs(game.payoffs[0]).max() <= 1])
def test_hard_inputs(name):
    assert all(side.sum() == pytest.approx(1) for side in solved(HARD[name]))


@settings(deadline=None, max_examples=30)
@given(rates=st.lists(st.floats(0, 1), min_size=1, max_size=6), weighting=st.sampled_from(sorted(WEIGHTINGS)))
def test_they_are_the_weights_of_the_matchmaker(rates, weighting):
    shares, weights = (
        solved(of_wins([rates]), weighting)[1],
        np.array([weight(rate, *WEIGHTINGS[weighting]) for rate in rates]),
    )
    assert weights.sum() == 0 or np.allclose(shares * weights.sum(), weights)


def test_what_has_no_rates_of_wins_is_refused():
    with pytest.raises(
        GameError, match=r"'pfsp' needs win rates, and payoffs of up to 2 .* Give MetaGame\(wins=\.\.\.\)"
    ):
        solved(of_matrix([[2.0]]))
    with pytest.raises(GameError, match="do not sum to 0"):
        solved(MetaGame(payoffs=([[0.5]], [[0.5]])))
    with pytest.raises(GameError, match="'pfsp' is for two sides, and this meta-game has 3"):
        solved(THREE_SIDES)
