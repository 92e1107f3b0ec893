import numpy as np
from hypothesis import given, settings

from sparring.config.plugins.registry import bind
from sparring.league.meta_solvers.base import of_matrix
from tests.league.meta_solvers.meta_games import THREE_SIDES, games

SOLVE = bind("league.meta_solvers", "uniform")


def test_all_members_have_equal_weights():
    sides = SOLVE(of_matrix(np.zeros((2, 4)))).sides
    assert [side.tolist() for side in sides] == [[0.5] * 2, [0.25] * 4]
    assert [side.tolist() for side in SOLVE(THREE_SIDES).sides] == [[0.5] * 2, [1 / 3] * 3, [0.5] * 2]


@settings(deadline=None, max_examples=30)
@given(games())
def test_payoffs_do_not_matter(game):
    assert [side.tolist() for side in SOLVE(game).sides] == [[1 / size] * size for size in game.shape]
