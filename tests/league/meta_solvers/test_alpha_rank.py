import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings

from sparring.config.plugins.registry import bind
from sparring.core.errors import GameError
from sparring.league.meta_solvers.base import MetaGame, of_matrix
from tests.cases import every_case
from tests.league.meta_solvers.meta_games import CYCLE, HARD, THREE_SIDES, games, squares


def solved(game, **options):
    return bind("league.meta_solvers", "alpha_rank", options)(game)


def rho(gain, alpha, population):
    """Return the chance that a mutant takes over, as the paper writes it."""
    return 1 / population if gain == 0 else (1 - np.exp(-alpha * gain)) / (1 - np.exp(-population * alpha * gain))


def plainly(game, alpha, population):
    states = list(itertools.product(*map(range, game.shape)))
    chain = np.zeros((len(states), len(states)))
    rate = 1 / max(1, sum(size - 1 for size in game.shape))
    for (a, old), (b, new) in itertools.permutations(enumerate(states), 2):
        changed = [side for side in range(game.num_sides) if old[side] != new[side]]
        if len(changed) == 1:
            payoffs = game.payoffs[changed[0]]
            chain[a, b] = rate * rho(payoffs[new] - payoffs[old], alpha, population)
    chain += np.diag(1 - chain.sum(axis=1))
    values, vectors = np.linalg.eig(chain.T)
    stationary = np.real(vectors[:, np.argmin(np.abs(values - 1))])
    return (stationary / stationary.sum()).reshape(game.shape)


def test_two_members_by_hand():
    # the second earns 1 more: rates 0 -> 1 of rho(2), 1 -> 0 of rho(-2), for d = U[1, 0] - U[0, 1] = 2
    (weights, _) = solved(of_matrix([[0, -1], [1, 0]]), alpha=0.5, population=3).sides
    up, down = rho(2, 0.5, 3), rho(-2, 0.5, 3)
    np.testing.assert_allclose(weights, [down / (up + down), up / (up + down)])
    assert up / down == pytest.approx(np.exp(0.5 * 2 * 2))  # exp(alpha d (population - 1))


def test_cycles_are_even():
    np.testing.assert_allclose(solved(of_matrix(CYCLE)).sides[0], [1 / 3] * 3)
    # who pays how much does not matter in the limit
    uneven = of_matrix([[0, -1, 9], [1, 0, -2], [-9, 2, 0]])
    np.testing.assert_allclose(solved(uneven, alpha=None).sides[0], [1 / 3] * 3)
    assert bind("league.meta_solvers", "alpha_rank", preset="limit").options["alpha"] is None


def test_what_nothing_better_leads_out_of_has_all_of_the_mass():
    assert solved(HARD["dominated"], alpha=None).sides[0] == pytest.approx([1, 0, 0], abs=1e-10)
    assert solved(HARD["dominated"]).sides[0] == pytest.approx([1, 0, 0], abs=1e-10)
    # the prisoners' dilemma: both defect
    prisoners = MetaGame(payoffs=([[3, 0], [5, 1]], [[3, 5], [0, 1]]))
    assert solved(prisoners).joint == pytest.approx(np.array([[0, 0], [0, 1]]), abs=1e-10)
    # battle of the sexes: both equilibria alike, by symmetry
    sexes = MetaGame(payoffs=([[3, 0], [0, 2]], [[2, 0], [0, 3]]))
    assert solved(sexes).joint == pytest.approx(np.array([[0.5, 0], [0, 0.5]]), abs=1e-10)


def test_sets_that_are_left_at_rates_too_small_for_numbers():
    # of two equilibria the one that is worth twice as much is left at exp(-49 * 100 * 2), not exp(-49 * 100)
    common = MetaGame(payoffs=([[2.0, 0.0], [0.0, 1.0]],) * 2)
    assert solved(common).joint == pytest.approx(np.array([[1, 0], [0, 0]]), abs=1e-10)


@settings(deadline=None, max_examples=30)
@given(games())
@example(THREE_SIDES)
def test_it_is_the_chain_written_down_plainly(game):
    strategy = solved(game, alpha=0.4, population=3)
    np.testing.assert_allclose(strategy.joint, plainly(game, 0.4, 3), atol=1e-9)


@settings(deadline=None, max_examples=30)
@given(squares())
def test_a_large_alpha_comes_near_the_limit(matrix):
    beaten = np.triu(np.where(matrix > 0, 1.0, -1.0), 1)  # no ties, and all losses alike
    game = of_matrix(beaten - beaten.T)
    np.testing.assert_allclose(solved(game, alpha=1000.0).sides[0], solved(game, alpha=None).sides[0], atol=1e-6)


@every_case("name", HARD)
@every_case("alpha", [100.0, 1e6, 1e-6, None])
def test_hard_inputs(name, alpha):
    strategy = solved(HARD[name], alpha=alpha)
    assert all(np.isfinite(side).all() and side.sum() == pytest.approx(1) for side in strategy.sides)


def test_equal_payoffs_and_copies_are_alike():
    for alpha in (100.0, None):
        assert solved(HARD["equal payoffs"], alpha=alpha).sides[0] == pytest.approx([1 / 3] * 3)
        assert solved(HARD["copies"], alpha=alpha).sides[0] == pytest.approx([1 / 6] * 6)


def test_too_many_combinations_are_refused():
    with pytest.raises(GameError, match=r"625 combinations of members are more than 600; keep fewer members"):
        solved(of_matrix(np.ones((25, 25))))
