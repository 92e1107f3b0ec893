import numpy as np

from sparring.config.plugins.registry import bind
from sparring.league.meta_solvers.base import of_matrix
from tests.league.meta_solvers.meta_games import THREE_SIDES

SOLVE = bind("league.meta_solvers", "last")


def test_the_newest_member_has_all_weight():
    assert [side.tolist() for side in SOLVE(of_matrix(np.zeros((2, 3)))).sides] == [[0, 1], [0, 0, 1]]
    assert [side.tolist() for side in SOLVE(THREE_SIDES).sides] == [[0, 1], [0, 0, 1], [0, 1]]
