"""The exact payoffs of members against each other; each is computed once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic

import numpy as np

from sparring.core.records import FloatArray
from sparring.league.meta_game import MetaGame
from studies.self_play.worlds import P, World


class PayoffTable(Generic[P]):
    """A table that grows with its populations.

    Attributes:
        cells: number of computed cells.

    Args:
        world: the game.
        shared: whether two sides share one population; then only half of the cells are computed.
    """

    def __init__(self, world: World[P], shared: bool) -> None:
        self._world, self._shared, self.cells = world, shared, 0
        self._payoffs: FloatArray = np.zeros((world.sides, *[0] * world.sides))
        self._wins: FloatArray = np.zeros([0] * world.sides)

    def game(self, members: Sequence[Sequence[P]], *, moved: int | None = None) -> MetaGame:
        """Return the meta-game of these members; the members of the previous call come first.

        Args:
            members: members of each side.
            moved: index of the first member that changed since the previous call; None: no member
                changed.
        """
        keep = tuple(slice(0, moved) for _ in members)
        self._payoffs, self._wins = self._payoffs[(slice(None), *keep)], self._wins[keep]
        old, new = self._wins.shape, tuple(map(len, members))
        room = [(0, n - o) for o, n in zip(old, new, strict=True)]
        self._payoffs = np.pad(self._payoffs, [(0, 0), *room])
        self._wins = np.pad(self._wins, room)
        for cell in np.ndindex(*new):
            if any(n >= o for n, o in zip(cell, old, strict=True)):
                self._fill(
                    cell, [side_members[n] for side_members, n in zip(members, cell, strict=True)]
                )
        wins = self._wins if len(new) == 2 else None
        return MetaGame(payoffs=tuple(self._payoffs), symmetric=self._shared, win_rates=wins)

    def _fill(self, cell: tuple[int, ...], profile: Sequence[P]) -> None:
        """Compute a cell; for a shared population also its mirror image."""
        if self._shared and cell[0] > cell[1]:
            return
        self.cells += 1
        if self._shared and cell[0] == cell[1]:
            payoffs, wins = np.zeros(2), np.full(2, 0.5)
        else:
            payoffs, wins = self._world.payoffs(profile), self._world.wins(profile)
        self._wins[cell] = wins[0]
        if self._shared:
            self._wins[cell[::-1]] = wins[1]
        for side, table in enumerate(self._payoffs):
            table[cell] = payoffs[side]
            if self._shared:
                table[cell[::-1]] = payoffs[1 - side]
