"""The last member alone: by hand, and every kind of meta-game."""

import numpy as np
import pytest

from sparring.config.plugins.registry import bind
from sparring.league.meta_solvers.base import of_matrix
from tests.league.meta_solvers.meta_games import HARD, THREE_SIDES

SOLVE = bind("league.meta_solvers", "last")


def test_by_hand():
    assert [side.tolist() for side in SOLVE(of_matrix(np.zeros((2, 3)))).sides] == [[0, 1], [0, 0, 1]]
    assert [side.tolist() for side in SOLVE(THREE_SIDES).sides] == [[0, 1], [0, 0, 1], [0, 1]]


@pytest.mark.parametrize("name", HARD)
def test_hard_inputs(name):
    assert [side[-1] for side in SOLVE(HARD[name]).sides] == [1.0, 1.0]
