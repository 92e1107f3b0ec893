"""Counting the ways in which ships can lie on a grid.

Exact, by products of matrices that say which placements go together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import factorial, prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Masks = npt.NDArray[np.uint64]  # sets of cells as bits, in reading order
Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

# most ships: time grows by the factor of a ship's placements (up to 112) with each ship from the
# fourth on
SHIPS = 4
CELLS = 64


def placements(rows: int, columns: int, length: int) -> tuple[int, ...]:
    """Return all places of a straight ship as bits of cells, ascending; one cell lies one way."""
    across = [
        sum(1 << r * columns + c + k for k in range(length))
        for r in range(rows)
        for c in range(columns - length + 1)
    ]
    down = [
        sum(1 << (r + k) * columns + c for k in range(length))
        for r in range(rows - length + 1)
        for c in range(columns)
    ]
    return tuple(sorted({*across, *down}))


def halo(rows: int, columns: int, mask: int) -> int:
    """Return the cells of a set and the up to 8 cells around each."""
    out = 0
    for cell in (cell for cell in range(rows * columns) if mask >> cell & 1):
        row, column = divmod(cell, columns)
        for r, c in product(
            range(max(row - 1, 0), min(row + 2, rows)),
            range(max(column - 1, 0), min(column + 2, columns)),
        ):
            out |= 1 << r * columns + c
    return out


class Tally(NamedTuple):
    """How many fleets there are, and with how many of them each placement of each ship goes."""

    fleets: int
    # per ship [placements]; ships of one length are told apart here, so divide by ``ordered``
    of: tuple[Floats, ...]
    ordered: int  # the same as ``fleets``, with ships of one length told apart

    def chances(self, waters: Waters) -> Floats:
        """Return the probability of a ship in each cell, [cells], of fleets all equally likely."""
        found = sum(
            (count @ cover for count, cover in zip(self.of, waters.covers, strict=True)),
            np.zeros(waters.cells),
        )
        return np.asarray(found / self.ordered, dtype=np.float64)


class Waters:
    """The placements of the ships of a fleet on a grid, and which of them go together.

    Args:
        rows, columns: size of the grid, at most 64 cells.
        lengths: length of each ship, descending, 1 to 4 ships.
        touch: whether ships may lie side by side or corner to corner; they never overlap.

    Raises:
        ValueError: too many cells or ships, or lengths out of order.
    """

    def __init__(self, rows: int, columns: int, lengths: tuple[int, ...], touch: bool) -> None:
        if (
            rows * columns > CELLS
            or not 1 <= len(lengths) <= SHIPS
            or list(lengths) != sorted(lengths, reverse=True)
        ):
            raise ValueError(
                f"Waters: {rows} rows, {columns} columns, lengths {lengths}; at most {CELLS} "
                f"cells, 1 to {SHIPS} descending."
            )
        self.cells, self.lengths = rows * columns, lengths
        places = [placements(rows, columns, length) for length in lengths]
        self.masks: list[Masks] = [np.array(some, dtype=np.uint64) for some in places]
        around = self.masks
        if not touch:
            halos = ([halo(rows, columns, one) for one in some] for some in places)
            around = [np.array(some, dtype=np.uint64) for some in halos]
        self.apart: list[list[Floats]] = [
            [((near[:, None] & other[None, :]) == 0).astype(np.float64) for other in self.masks]
            for near in around
        ]
        self.covers: list[Floats] = [
            (
                some[:, None] >> np.arange(self.cells, dtype=np.uint64)[None, :] & np.uint64(1)
            ).astype(np.float64)
            for some in self.masks
        ]
        self.alike = prod(factorial(many) for many in Counter(lengths).values())

    def tally(self, usable: Sequence[Flags] | None = None, hits: int = 0) -> Tally:
        """Return the number of fleets of usable placements that together cover all of ``hits``.

        With None all placements are usable.

        Ships do not overlap, so a fleet covers all hits if its ships cover as many cells of them as
        there are. Placements are parted by how many they cover, and numbers that add up are
        counted: the number of ways to choose placements i, j, k that go together is the sum of A[i,
        j] B[i, k] C[j, k]. All numbers are integers below 2^53, so exact.
        """
        kept = (
            [np.arange(len(some)) for some in self.masks]
            if usable is None
            else [np.flatnonzero(flags) for flags in usable]
        )
        covered = [
            np.bitwise_count(some[index] & np.uint64(hits))
            for some, index in zip(self.masks, kept, strict=True)
        ]
        of = tuple(np.zeros(len(some)) for some in self.masks)
        for numbers in product(*(np.unique(some).tolist() for some in covered)):
            if sum(numbers) != hits.bit_count():
                continue
            parts = [
                index[some == number]
                for index, some, number in zip(kept, covered, numbers, strict=True)
            ]
            for total, index, count in zip(of, parts, self._together(parts, 0), strict=True):
                total[index] += count
        ordered = round(of[0].sum())
        return Tally(ordered // self.alike, of, ordered)

    def _together(self, parts: list[npt.NDArray[np.int64]], first: int) -> list[Floats]:
        """Return with how many choices of the ships from ``first`` on each placement goes."""
        if len(parts) == 1:
            return [np.ones(len(parts[0]))]
        pair = [
            [self.apart[first + i][first + j][np.ix_(one, other)] for j, other in enumerate(parts)]
            for i, one in enumerate(parts)
        ]
        if len(parts) == 2:
            return [pair[0][1].sum(1), pair[0][1].sum(0)]
        if len(parts) == 3:
            a, b, c = pair[0][1], pair[0][2], pair[1][2]
            return [((a @ c) * b).sum(1), ((a.T @ b) * c).sum(1), ((b.T @ a) * c.T).sum(1)]
        out = [np.zeros(len(some)) for some in parts]
        for number in range(len(parts[0])):
            free = [np.flatnonzero(row[number]) for row in pair[0][1:]]
            found = self._together(
                [some[index] for some, index in zip(parts[1:], free, strict=True)], first + 1
            )
            out[0][number] = found[0].sum()
            for total, index, count in zip(out[1:], free, found, strict=True):
                total[index] += count
        return out

    def fleets(self, tally: Tally, hits: int = 0) -> Iterator[tuple[int, ...]]:
        """Yield the few fleets that were counted, ships of one length in ascending order."""
        places = [np.flatnonzero(count).tolist() for count in tally.of]
        masks = [some.tolist() for some in self.masks]
        yield from self._fleets(places, masks, hits, ())

    def _fleets(
        self,
        places: list[list[int]],
        masks: list[list[int]],
        uncovered: int,
        chosen: tuple[int, ...],
    ) -> Iterator[tuple[int, ...]]:
        """Yield the fleets that begin with the placements chosen, given by number."""
        ship = len(chosen)
        if ship == len(places):
            if not uncovered:
                yield tuple(masks[other][place] for other, place in enumerate(chosen))
            return
        if uncovered.bit_count() > sum(self.lengths[ship:]):
            return
        after = chosen[-1] if ship and self.lengths[ship] == self.lengths[ship - 1] else -1
        rows = [self.apart[other][ship][place] for other, place in enumerate(chosen)]
        for place in places[ship]:
            if place > after and all(row[place] for row in rows):
                yield from self._fleets(
                    places, masks, uncovered & ~masks[ship][place], (*chosen, place)
                )


@lru_cache(maxsize=64)
def waters(rows: int, columns: int, lengths: tuple[int, ...], touch: bool) -> Waters:
    """Return the placements of a fleet, worked out once."""
    return Waters(rows, columns, lengths, touch)
