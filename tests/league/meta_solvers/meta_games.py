"""Meta-games for tests: fixed ones with known answers, and random ones by Hypothesis."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sparring.league.meta_solvers.base import MetaGame, of_matrix

CYCLE = [[0, -1, 1], [1, 0, -1], [-1, 1, 0]]  # rock, paper, scissors
FOUR_MEMBERS = [[0, -1, 1, 0.5], [1, 0, -1, -0.5], [-1, 1, 0, 0.2], [-0.5, 0.5, -0.2, 0]]
THREE_SIDES = MetaGame(payoffs=tuple(np.arange(12.0).reshape(2, 3, 2) * sign for sign in (1, -1, 0)))
HARD_GAMES = {
    "one member": of_matrix([[0.0]]),
    "equal payoffs": of_matrix(np.zeros((3, 3))),
    "equal payoffs that are not 0": of_matrix(np.full((2, 3), 0.1)),
    "copies": of_matrix(np.kron(CYCLE, np.ones((2, 2)))),
    "near 1e6": of_matrix(1e6 + np.array([[1.0, 0.0], [0.0, 1.0]])),
    "large": of_matrix(1e6 * np.array(FOUR_MEMBERS)),
    "small": of_matrix(1e-9 * np.array(FOUR_MEMBERS)),
    "one row": of_matrix([[3.0, -1.0, 2.0]]),
    "one column": of_matrix([[3.0], [-1.0], [2.0]]),
    "dominated": of_matrix([[0, 1, 2], [-1, 0, 1], [-2, -1, 0]]),
}
PAYOFF = st.integers(-20, 20).map(lambda tenths: tenths / 10)


@st.composite
def matrices(draw, max_size=5):
    shape = draw(st.tuples(st.integers(1, max_size), st.integers(1, max_size)))
    return draw(arrays.arrays(np.float64, shape, elements=PAYOFF))


@st.composite
def antisymmetric_matrices(draw, max_size=5):
    size = draw(st.integers(1, max_size))
    upper_triangle = np.triu(draw(arrays.arrays(np.float64, (size, size), elements=PAYOFF)), 1)
    return upper_triangle - upper_triangle.T


@st.composite
def games(draw, max_sides=3, max_size=3):
    shape = tuple(draw(st.integers(1, max_size)) for _ in range(draw(st.integers(2, max_sides))))
    return MetaGame(payoffs=tuple(draw(arrays.arrays(np.float64, shape, elements=PAYOFF)) for _ in shape))


def gains(game, strategy):
    differences = []
    for side, payoffs in enumerate(game.payoffs):
        values = np.moveaxis(payoffs, side, 0)
        for weights in reversed([other_weights for other, other_weights in enumerate(strategy.sides) if other != side]):
            values = values @ weights
        differences.append(values.max() - values @ strategy.sides[side])
    return np.array(differences)
