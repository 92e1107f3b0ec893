"""A meta-game, and a strategy for it.

A meta-game has a population of members for each side (a role or a team), and each member is one
choice of its side. Its payoffs are what the members earn against each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparring.core.errors import GameError
from sparring.core.records import FloatArray
from sparring.ops.normal_form import largest_size

EXACT = 1e-9  # how far sums may be off that are to be equal, relative to the largest payoff


@dataclass(frozen=True, kw_only=True, slots=True)
class MetaGame:
    """The payoffs of a population's members against each other.

    Args:
        payoffs: for each side what its members earn, [m_0, ..., m_{n-1}], in the environment's
            units; one axis per side, members oldest first. At least two sides.
        symmetric: two sides are drawn from one population. Then payoffs[1] is payoffs[0].T, and
            solvers give both sides the same distribution.
        counts: plays behind each cell, of the same shape, infinite where a payoff is exact; None:
            all payoffs are exact.
        wins: rate of wins of the first side's member, [m_0, m_1], a draw being half a win; None:
            derived from payoffs where these are in [-1, 1].

    Raises:
        GameError: payoffs that are missing, not finite, or of shapes that do not fit.
    """

    payoffs: tuple[FloatArray, ...]
    symmetric: bool = False
    counts: FloatArray | None = None
    wins: FloatArray | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "payoffs", _tables(self.payoffs))
        for name in ("counts", "wins"):
            table = getattr(self, name)
            if table is not None:
                object.__setattr__(self, name, np.asarray(table, dtype=np.float64))
                if getattr(self, name).shape != self.shape:
                    raise GameError(
                        f"meta-game: {name} have the shape {np.shape(table)}, and payoffs "
                        f"{self.shape}; give a value per cell of the payoffs."
                    )
        if self.counts is not None and not (self.counts >= 0).all():
            raise GameError("meta-game: counts must be at least 0; write 0 where nobody played.")
        if self.wins is not None and not ((self.wins >= 0) & (self.wins <= 1)).all():
            raise GameError("meta-game: wins must be in [0, 1], the share of plays that are won.")
        if self.symmetric:
            _check_symmetric(self.payoffs)

    @property
    def num_sides(self) -> int:
        """How many sides there are."""
        return len(self.payoffs)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many members each side has, (m_0, ..., m_{n-1})."""
        return self.payoffs[0].shape


@dataclass(frozen=True, kw_only=True, slots=True)
class MetaStrategy:
    """Which members are answered, and how often.

    Args:
        sides: of each side a distribution over its members, [m_s].
        joint: of solvers that correlate the sides a distribution over the cells,
            [m_0, ..., m_{n-1}]; ``sides`` are its marginals.
        rows: of solvers that answer member by member a distribution over the other side's members
            for each member, [m_s, m_other]; a row of zeros belongs to a member that is not trained.
    """

    sides: tuple[FloatArray, ...]
    joint: FloatArray | None = None
    rows: tuple[FloatArray, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "sides", _floats(self.sides))
        if self.joint is not None:
            object.__setattr__(self, "joint", np.asarray(self.joint, dtype=np.float64))
        if self.rows is not None:
            object.__setattr__(self, "rows", _floats(self.rows))


def of_matrix(matrix: Any) -> MetaGame:
    """Return the meta-game of two sides in which the second one pays what the first one earns.

    It is symmetric where the matrix is antisymmetric.

    Args:
        matrix: what the first side's members earn, [m_0, m_1].
    """
    table = np.asarray(matrix, dtype=np.float64)
    paid = table.ndim == 2 and table.shape[0] == table.shape[1] and bool((table == -table.T).all())
    return MetaGame(payoffs=(table, -table), symmetric=paid)


def _tables(payoffs: Sequence[Any]) -> tuple[FloatArray, ...]:
    """Return payoffs as arrays.

    Raises:
        GameError: their shapes do not fit, or one is not finite.
    """
    tables = _floats(payoffs)
    if len(tables) < 2 or any(table.shape != tables[0].shape for table in tables):
        raise GameError(
            f"meta-game: payoffs have the shapes {[table.shape for table in tables]}; give at "
            "least two sides, each a payoff for every cell."
        )
    if tables[0].ndim != len(tables) or 0 in tables[0].shape:
        raise GameError(
            f"meta-game: payoffs of {len(tables)} sides have the shape {tables[0].shape}; give one "
            "axis per side, each of at least one member."
        )
    for number, table in enumerate(tables):
        bad = np.argwhere(~np.isfinite(table))
        if len(bad):
            cell = tuple(bad[0].tolist())
            raise GameError(
                f"meta-game: the payoff of side {number} in cell {cell} is {table[cell]}; play "
                "these members against each other first."
            )
    return tables


def _check_symmetric(payoffs: Sequence[FloatArray]) -> None:
    """Check that the payoffs of a second side are those of the first one, seen from there.

    Raises:
        GameError: they are not.
    """
    first, *others = payoffs
    fits = len(others) == 1 and first.shape[0] == first.shape[1]
    if not fits or float(np.abs(others[0] - first.T).max()) > EXACT * largest_size(payoffs):
        raise GameError(
            "meta-game: symmetric is true, and payoffs[1] is not payoffs[0].T; give both sides the "
            "same members, or symmetric=False."
        )


def _floats(arrays: Sequence[Any]) -> tuple[FloatArray, ...]:
    """Return arrays of numbers."""
    return tuple(np.asarray(array, dtype=np.float64) for array in arrays)
