import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings

from sparring.config.plugins.registry import bind
from sparring.core.errors import GameError
from sparring.league.meta_solvers.base import MetaGame, of_matrix
from tests.cases import every_case
from tests.league.meta_solvers.meta_games import CYCLE, HARD_GAMES, THREE_SIDES, antisymmetric_matrices, games


def solve(game, **options):
    return bind("league.meta_solvers", "alpha_rank", options)(game)


def fixation_probability(gain, alpha, population):
    """Return the probability that a mutant takes over the population, as in the paper."""
    return 1 / population if gain == 0 else (1 - np.exp(-alpha * gain)) / (1 - np.exp(-population * alpha * gain))


def stationary_distribution(game, alpha, population):
    states = list(itertools.product(*map(range, game.shape)))
    chain = np.zeros((len(states), len(states)))
    rate = 1 / max(1, sum(size - 1 for size in game.shape))
    for (old_index, old_state), (new_index, new_state) in itertools.permutations(enumerate(states), 2):
        changed_sides = [side for side in range(game.num_sides) if old_state[side] != new_state[side]]
        if len(changed_sides) == 1:
            payoffs = game.payoffs[changed_sides[0]]
            chain[old_index, new_index] = rate * fixation_probability(
                payoffs[new_state] - payoffs[old_state], alpha, population
            )
    chain += np.diag(1 - chain.sum(axis=1))
    values, vectors = np.linalg.eig(chain.T)
    stationary = np.real(vectors[:, np.argmin(np.abs(values - 1))])
    return (stationary / stationary.sum()).reshape(game.shape)


def test_two_members_by_hand():
    # d = U[1, 0] - U[0, 1] = 2, so the rate 0 -> 1 is rho(2) and the rate 1 -> 0 is rho(-2)
    (weights, _) = solve(of_matrix([[0, -1], [1, 0]]), alpha=0.5, population=3).sides
    rate_up, rate_down = fixation_probability(2, 0.5, 3), fixation_probability(-2, 0.5, 3)
    np.testing.assert_allclose(weights, [rate_down / (rate_up + rate_down), rate_up / (rate_up + rate_down)])
    assert rate_up / rate_down == pytest.approx(np.exp(0.5 * 2 * 2))  # exp(alpha d (population - 1))


def test_members_of_a_cycle_have_equal_mass():
    np.testing.assert_allclose(solve(of_matrix(CYCLE)).sides[0], [1 / 3] * 3)
    # the limit does not depend on the scale of the payoffs
    uneven = of_matrix([[0, -1, 9], [1, 0, -2], [-9, 2, 0]])
    np.testing.assert_allclose(solve(uneven, alpha=None).sides[0], [1 / 3] * 3)
    assert bind("league.meta_solvers", "alpha_rank", preset="limit").options["alpha"] is None


def test_sinks_of_the_better_reply_graph_have_all_mass():
    assert solve(HARD_GAMES["dominated"], alpha=None).sides[0] == pytest.approx([1, 0, 0], abs=1e-10)
    assert solve(HARD_GAMES["dominated"]).sides[0] == pytest.approx([1, 0, 0], abs=1e-10)
    # the prisoners' dilemma: both defect
    prisoners_dilemma = MetaGame(payoffs=([[3, 0], [5, 1]], [[3, 5], [0, 1]]))
    assert solve(prisoners_dilemma).joint == pytest.approx(np.array([[0, 0], [0, 1]]), abs=1e-10)
    # battle of the sexes: both equilibria are equally likely, by symmetry
    battle_of_sexes = MetaGame(payoffs=([[3, 0], [0, 2]], [[2, 0], [0, 3]]))
    assert solve(battle_of_sexes).joint == pytest.approx(np.array([[0.5, 0], [0, 0.5]]), abs=1e-10)


def test_leaving_rates_below_the_smallest_float_are_compared():
    # both equilibria are left at tiny rates: exp(-49 * 100 * 2) if worth 2, exp(-49 * 100) if worth 1
    common_interest = MetaGame(payoffs=([[2.0, 0.0], [0.0, 1.0]],) * 2)
    assert solve(common_interest).joint == pytest.approx(np.array([[1, 0], [0, 0]]), abs=1e-10)


@settings(deadline=None, max_examples=30)
@given(games())
@example(THREE_SIDES)
def test_alpha_rank_equals_an_eigenvector_of_the_chain(game):
    strategy = solve(game, alpha=0.4, population=3)
    np.testing.assert_allclose(strategy.joint, stationary_distribution(game, 0.4, 3), atol=1e-9)


@settings(deadline=None, max_examples=30)
@given(antisymmetric_matrices())
def test_a_large_alpha_approaches_the_limit(matrix):
    signs = np.triu(np.where(matrix > 0, 1.0, -1.0), 1)  # without ties, and all losses equal
    game = of_matrix(signs - signs.T)
    np.testing.assert_allclose(solve(game, alpha=1000.0).sides[0], solve(game, alpha=None).sides[0], atol=1e-6)


@every_case("name", HARD_GAMES)
@every_case("alpha", [100.0, 1e6, 1e-6, None])
def test_the_distribution_of_hard_games_is_valid(name, alpha):
    strategy = solve(HARD_GAMES[name], alpha=alpha)
    assert all(np.isfinite(side).all() and side.sum() == pytest.approx(1) for side in strategy.sides)


def test_equal_members_and_copies_have_equal_mass():
    for alpha in (100.0, None):
        assert solve(HARD_GAMES["equal payoffs"], alpha=alpha).sides[0] == pytest.approx([1 / 3] * 3)
        assert solve(HARD_GAMES["copies"], alpha=alpha).sides[0] == pytest.approx([1 / 6] * 6)


def test_too_many_combinations_are_refused():
    with pytest.raises(GameError, match=r"625 combinations of members are more than 600; keep fewer members"):
        solve(of_matrix(np.ones((25, 25))))
