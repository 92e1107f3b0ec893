"""What a meta-solver must keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparring.config.plugins.registry import Bound
from sparring.core.errors import GameError
from sparring.core.records import FloatArray
from sparring.core.rng import Stream
from sparring.league.meta_game import MetaGame, of_matrix
from sparring.testing.given import bound

MOST = 5  # members of a side that are asked about


def check_meta_solver(
    solver: Callable[..., Any] | Bound, *, games: int = 40, seed: int = 0, **options: Any
) -> None:
    """Check a meta-solver on meta-games of one to five members a side.

    Of a symmetric one of payoffs in [-1, 1] that sum to 0 it gives distributions. Of others, of two
    sides or three, it does so too, or says by GameError what it is for. It answers the same when it
    is asked the same, and changes no payoffs.

    Args:
        solver: the function, or the plug-in bound.
        games: how many are tried.
        seed: of their payoffs.
        options: of the function.

    Raises:
        AssertionError: it changed payoffs, or answers otherwise when it is asked again.
        GameError: it refuses a symmetric meta-game of payoffs that sum to 0.
        PluginError: it raised something else, or gave no distributions.
    """
    made = bound("league.meta_solvers", solver, options)
    for number in range(games):
        stream = Stream.from_seed(seed).child("meta-games").child(number)
        game = (_symmetric, _opposed, _general)[number % 3](stream)
        before = [table.copy() for table in game.payoffs]
        try:
            first, second = made(game), made(game)
        except GameError:
            if game.symmetric:
                raise
            continue
        pairs = zip((*first.sides, first.joint), (*second.sides, second.joint), strict=True)
        assert all(np.array_equal(a, b) for a, b in pairs), (
            f"The {made} must answer the same when it is asked the same."
        )
        assert all(map(np.array_equal, before, game.payoffs)), (
            f"The {made} must not change the payoffs that it is given."
        )


def _symmetric(stream: Stream) -> MetaGame:
    """Return a meta-game of one population, payoffs in [-1, 1], some of them equal."""
    size = 1 + stream.integer(0, MOST)
    half = np.triu(_drawn(stream.child("payoffs"), (size, size)), 1)
    return of_matrix(half - half.T)


def _opposed(stream: Stream) -> MetaGame:
    """Return a meta-game of two populations, of which the second pays what the first earns."""
    shape = (1 + stream.integer(0, MOST), 1 + stream.integer(1, MOST))
    return of_matrix(1000 * _drawn(stream.child("payoffs"), shape))


def _general(stream: Stream) -> MetaGame:
    """Return a meta-game of two or three populations, of any payoffs."""
    shape = tuple(1 + stream.integer(side, 3) for side in range(2 + stream.integer(9, 2)))
    tables = (_drawn(stream.child("payoffs").child(side), shape) for side in range(len(shape)))
    return MetaGame(payoffs=tuple(tables))


def _drawn(stream: Stream, shape: tuple[int, ...]) -> FloatArray:
    """Return payoffs in [-1, 1], fifths, of which many are equal."""
    count = int(np.prod(shape))
    return np.array([stream.integer(cell, 11) / 5 - 1 for cell in range(count)]).reshape(shape)
