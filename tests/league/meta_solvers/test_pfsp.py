import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.core.errors import GameError
from sparring.league.meta_solvers.base import MetaGame, of_matrix
from sparring.league.payoffs import opponent_weight
from tests.league.meta_solvers.meta_games import CYCLE, HARD_GAMES, THREE_SIDES

# the weighting and power of the matchmaker pfsp that each weighting stands for
WEIGHTINGS = {
    "squared": ("hard", 2),
    "linear": ("hard", 1),
    "linear_capped": ("capped", 9),
    "variance": ("variance", 9),
}


def solve(game, weighting="squared"):
    return bind("league.meta_solvers", "pfsp", {"weighting": weighting})(game).sides


def of_wins(wins, **options):
    zeros = np.zeros(np.shape(wins))
    return MetaGame(payoffs=(zeros, zeros.T if options else zeros), win_rates=wins, **options)


def test_rates_follow_from_payoffs_of_wins_and_losses():
    first_side, second_side = solve(of_matrix(CYCLE))  # against the newest member the first wins and the second loses
    np.testing.assert_allclose(first_side, [0.8, 0, 0.2])
    assert first_side.tolist() == second_side.tolist()


def test_given_win_rates_are_used_instead_of_payoffs():
    assert solve(MetaGame(payoffs=([[1.0, -1.0]], [[-1.0, 1.0]]), win_rates=[[0.0, 1.0]]))[1].tolist() == [1, 0]


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_a_member_that_beats_all_has_uniform_weights(weighting):
    assert solve(of_wins([[1.0, 1.0, 1.0]]), weighting)[1].tolist() == [1 / 3] * 3


@pytest.mark.parametrize("name", [name for name, game in HARD_GAMES.items() if np.abs(game.payoffs[0]).max() <= 1])
def test_weights_of_hard_games_sum_to_1(name):
    assert all(side.sum() == pytest.approx(1) for side in solve(HARD_GAMES[name]))


@settings(deadline=None, max_examples=30)
@given(rates=st.lists(st.floats(0, 1), min_size=1, max_size=6), weighting=st.sampled_from(sorted(WEIGHTINGS)))
def test_weights_equal_those_of_the_matchmaker_pfsp(rates, weighting):
    shares, weights = (
        solve(of_wins([rates]), weighting)[1],
        np.array([opponent_weight(rate, *WEIGHTINGS[weighting]) for rate in rates]),
    )
    assert weights.sum() == 0 or np.allclose(shares * weights.sum(), weights)


def test_a_game_without_win_rates_is_refused():
    with pytest.raises(
        GameError, match=r"'pfsp' needs win rates, and payoffs of up to 2 .* Give MetaGame\(win_rates=\.\.\.\)"
    ):
        solve(of_matrix([[2.0]]))
    with pytest.raises(GameError, match="do not sum to 0"):
        solve(MetaGame(payoffs=([[0.5]], [[0.5]])))
    with pytest.raises(GameError, match="'pfsp' is for two sides, and this meta-game has 3"):
        solve(THREE_SIDES)
