"""Meta-solvers: the check of their result, and functions that they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator

from sparring.config.parts import PluginConfig
from sparring.config.plugins.registry import BoundPlugin
from sparring.core.errors import GameError, PluginError
from sparring.core.records import FloatArray
from sparring.league.meta_game import TOLERANCE
from sparring.league.meta_game import MetaGame as MetaGame
from sparring.league.meta_game import MetaStrategy as MetaStrategy
from sparring.league.meta_game import of_matrix as of_matrix
from sparring.ops.normal_form import largest_size


def distribution(weights: FloatArray) -> FloatArray:
    """Return weights as a distribution: clipped at 0, and with sum 1.

    Args:
        weights: at least one of them above 0.
    """
    clipped_weights = np.maximum(weights, 0.0)
    normalised_weights: FloatArray = clipped_weights / clipped_weights.sum()
    return normalised_weights


def strategy_of(game: MetaGame, sides: Sequence[FloatArray]) -> MetaStrategy:
    """Return a strategy of independent sides; those of a symmetric game both have the first one."""
    distributions = tuple(map(distribution, sides))
    return MetaStrategy(
        sides=(distributions[0], distributions[0]) if game.symmetric else distributions
    )


def zero_sum_payoffs(game: MetaGame, solver: str) -> FloatArray:
    """Return the payoffs to side 0 of a zero-sum meta-game of two sides, [m_0, m_1].

    If the payoffs sum to another constant, half of it is subtracted from each side.

    Args:
        game: the meta-game.
        solver: name of the solver, for errors.

    Raises:
        GameError: there are more than two sides, or the sum is not constant.
    """
    check_two_sides(game, solver)
    first, second = game.payoffs
    size, sums = largest_size(game.payoffs), first + second
    low, high = float(sums.min()), float(sums.max())
    if high - low > TOLERANCE * size:
        raise GameError(
            f"meta-solver {solver!r} needs payoffs of two sides that sum to a constant; here the "
            f"sum goes from {low:g} to {high:g}. Take correlated, alpha_rank or regret_matching."
        )
    return first if low == high == 0.0 else (first - second) / 2


def check_two_sides(game: MetaGame, solver: str) -> None:
    """Check that a meta-game has two sides.

    Raises:
        GameError: it has another number of sides.
    """
    if game.num_sides != 2:
        raise GameError(
            f"meta-solver {solver!r} is for two sides, and this meta-game has {game.num_sides}. "
            "Take correlated, alpha_rank or projected_replicator."
        )


def check_output(solver: BoundPlugin, strategy: Any, game: MetaGame) -> None:
    """Check the result of a solver, after every call.

    Raises:
        PluginError: the result is not a MetaStrategy of distributions over the members.
    """
    if not isinstance(strategy, MetaStrategy):
        raise PluginError(
            f"The {solver} must return a MetaStrategy; it returned {type(strategy).__name__}."
        )
    if tuple(side.shape for side in strategy.sides) != tuple((size,) for size in game.shape):
        shapes = ", ".join(str(side.shape) for side in strategy.sides)
        raise PluginError(
            f"The {solver} must return a weight per member for each side, {game.shape} of them; it "
            f"returned shapes {shapes}."
        )
    for side, weights in enumerate(strategy.sides):
        _check_weights(solver, f"side {side}", weights)
    if game.symmetric and not np.array_equal(strategy.sides[0], strategy.sides[1]):
        first, second = (weights.tolist() for weights in strategy.sides)
        raise PluginError(
            f"The {solver} must return the same distribution for both sides of a symmetric "
            f"meta-game; it returned {first!r:.100} and {second!r:.100}."
        )
    _check_joint(solver, strategy, game)
    _check_rows(solver, strategy, game)


def _check_weights(solver: BoundPlugin, owner: str, weights: FloatArray) -> None:
    if not (
        np.isfinite(weights).all()
        and (weights >= 0).all()
        and abs(float(weights.sum()) - 1.0) <= TOLERANCE
    ):
        raise PluginError(
            f"The {solver} must return weights that are at least 0 and sum to 1; for {owner} it "
            f"returned {weights.tolist()!r:.200}."
        )


def _check_joint(solver: BoundPlugin, strategy: MetaStrategy, game: MetaGame) -> None:
    if strategy.joint is None:
        return
    if strategy.joint.shape != game.shape:
        raise PluginError(
            f"The {solver} must return a joint weight per cell, of shape {game.shape}; it returned "
            f"the shape {strategy.joint.shape}."
        )
    _check_weights(solver, "the joint distribution", strategy.joint)
    for side, weights in enumerate(strategy.sides):
        other_axes = tuple(axis for axis in range(game.num_sides) if axis != side)
        if not np.allclose(strategy.joint.sum(axis=other_axes), weights, rtol=0.0, atol=TOLERANCE):
            raise PluginError(
                f"The {solver} must return sides that are the marginals of its joint distribution; "
                f"side {side} is not."
            )


def _check_rows(solver: BoundPlugin, strategy: MetaStrategy, game: MetaGame) -> None:
    if strategy.rows is None:
        return
    shapes = (game.shape, game.shape[::-1])
    if game.num_sides != 2 or tuple(rows.shape for rows in strategy.rows) != shapes:
        raise PluginError(
            f"The {solver} must return rows of shapes {shapes}, a weight per member and opponent; "
            f"it returned {tuple(rows.shape for rows in strategy.rows)}."
        )
    for side, rows in enumerate(strategy.rows):
        for member, row in enumerate(rows):
            if row.any():
                _check_weights(solver, f"member {member} of side {side}", row)


def bind_solver(solver: Any) -> BoundPlugin:
    """Return the meta-solver that a text or a mapping names, as in a configuration.

    Raises:
        UnknownNameError, ConfigError: there is no such name or option.
    """
    return PluginConfig.model_validate(solver).bind("league.meta_solvers")


def _check_solver(solver: Any) -> Any:
    """Return a meta-solver's name and options unchanged, if they exist."""
    bind_solver(solver)
    return solver


SolverOption = Annotated[str | dict[str, Any], AfterValidator(_check_solver)]


def solve_meta_game(solver: Any, game: MetaGame) -> MetaStrategy:
    """Return the result of a meta-solver.

    Raises:
        GameError: the solver cannot solve this meta-game.
        PluginError: the solver raised, or did not return distributions.
    """
    strategy: MetaStrategy = bind_solver(solver)(game)
    return strategy
