"""Exact counts of the ways to place ships on a grid, by products of compatibility matrices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import factorial, prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Masks = npt.NDArray[np.uint64]  # sets of cells as bit masks, in reading order
Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

# most ships: from the fourth on, each ship multiplies the time by its placements (up to 112)
SHIPS = 4
CELLS = 64


def placements(rows: int, columns: int, length: int) -> tuple[int, ...]:
    """Return all placements of a straight ship as bit masks, ascending and without repeats."""
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
    """Return the cells of a set and all cells around them."""
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
    """The number of fleets, and for each ship the number of fleets with each placement."""

    fleets: int
    # for each ship, [placements]; ships of equal length are distinct, so divide by ``ordered``
    counts: tuple[Floats, ...]
    ordered: int  # ``fleets`` where ships of equal length are distinct

    def chances(self, waters: Waters) -> Floats:
        """Return the probability of a ship in each cell, [cells], for equally likely fleets."""
        expected = sum(
            (count @ cover for count, cover in zip(self.counts, waters.covers, strict=True)),
            np.zeros(waters.cells),
        )
        return np.asarray(expected / self.ordered, dtype=np.float64)


class Waters:
    """The placements of the ships of a fleet on a grid, and which of them are compatible.

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
                f"Waters: {rows} rows, {columns} columns, lengths {lengths}; write at most {CELLS} "
                f"cells and 1 to {SHIPS} lengths, descending."
            )
        self.cells, self.lengths = rows * columns, lengths
        places = [placements(rows, columns, length) for length in lengths]
        self.masks: list[Masks] = [np.array(masks, dtype=np.uint64) for masks in places]
        blocked = self.masks
        if not touch:
            halos = ([halo(rows, columns, mask) for mask in masks] for masks in places)
            blocked = [np.array(masks, dtype=np.uint64) for masks in halos]
        self.compatible: list[list[Floats]] = [
            [((mask[:, None] & other[None, :]) == 0).astype(np.float64) for other in self.masks]
            for mask in blocked
        ]
        self.covers: list[Floats] = [
            (
                masks[:, None] >> np.arange(self.cells, dtype=np.uint64)[None, :] & np.uint64(1)
            ).astype(np.float64)
            for masks in self.masks
        ]
        # orders of ships of equal length, which ``Tally.ordered`` counts separately
        self.num_orders = prod(factorial(number) for number in Counter(lengths).values())

    def tally(self, usable: Sequence[Flags] | None = None, hits: int = 0) -> Tally:
        """Return the number of fleets of usable placements that together cover all of ``hits``.

        Ships do not overlap, so a fleet covers all hits if the hits that its ships cover sum to
        their number. Placements are grouped by the number of hits that they cover. The number of
        compatible placements i, j, k is the sum of A[i, j] B[i, k] C[j, k]. All are integers below
        2^53, so exact.

        Args:
            usable: the placements of each ship that may be used; None: all.
            hits: cells as a bit mask.
        """
        indices = (
            [np.arange(len(masks)) for masks in self.masks]
            if usable is None
            else [np.flatnonzero(flags) for flags in usable]
        )
        hits_covered = [
            np.bitwise_count(masks[index] & np.uint64(hits))
            for masks, index in zip(self.masks, indices, strict=True)
        ]
        totals = tuple(np.zeros(len(masks)) for masks in self.masks)
        for hits_per_ship in product(*(np.unique(counts).tolist() for counts in hits_covered)):
            if sum(hits_per_ship) != hits.bit_count():
                continue
            groups = [
                index[counts == number]
                for index, counts, number in zip(indices, hits_covered, hits_per_ship, strict=True)
            ]
            counts = self._count_compatible(groups, 0)
            for total, index, count in zip(totals, groups, counts, strict=True):
                total[index] += count
        ordered = round(totals[0].sum())
        return Tally(ordered // self.num_orders, totals, ordered)

    def _count_compatible(self, parts: list[npt.NDArray[np.int64]], first: int) -> list[Floats]:
        """Return, for each placement of each ship from ``first`` on, the compatible fleets."""
        if len(parts) == 1:
            return [np.ones(len(parts[0]))]
        matrices = [
            [
                self.compatible[first + i][first + j][np.ix_(rows, columns)]
                for j, columns in enumerate(parts)
            ]
            for i, rows in enumerate(parts)
        ]
        if len(parts) == 2:
            return [matrices[0][1].sum(1), matrices[0][1].sum(0)]
        if len(parts) == 3:
            a, b, c = matrices[0][1], matrices[0][2], matrices[1][2]
            return [((a @ c) * b).sum(1), ((a.T @ b) * c).sum(1), ((b.T @ a) * c.T).sum(1)]
        totals = [np.zeros(len(part)) for part in parts]
        for number in range(len(parts[0])):
            compatible = [np.flatnonzero(row[number]) for row in matrices[0][1:]]
            counts = self._count_compatible(
                [part[index] for part, index in zip(parts[1:], compatible, strict=True)], first + 1
            )
            totals[0][number] = counts[0].sum()
            for total, index, count in zip(totals[1:], compatible, counts, strict=True):
                total[index] += count
        return totals

    def fleets(self, tally: Tally, hits: int = 0) -> Iterator[tuple[int, ...]]:
        """Yield the fleets that were counted, ships of equal length in ascending order."""
        places = [np.flatnonzero(count).tolist() for count in tally.counts]
        masks = [row.tolist() for row in self.masks]
        yield from self._fleets(places, masks, hits, ())

    def _fleets(
        self,
        places: list[list[int]],
        masks: list[list[int]],
        uncovered: int,
        chosen: tuple[int, ...],
    ) -> Iterator[tuple[int, ...]]:
        ship = len(chosen)
        if ship == len(places):
            if not uncovered:
                yield tuple(masks[other][placement] for other, placement in enumerate(chosen))
            return
        if uncovered.bit_count() > sum(self.lengths[ship:]):
            return
        previous = chosen[-1] if ship and self.lengths[ship] == self.lengths[ship - 1] else -1
        rows = [self.compatible[other][ship][placement] for other, placement in enumerate(chosen)]
        for placement in places[ship]:
            if placement > previous and all(row[placement] for row in rows):
                yield from self._fleets(
                    places, masks, uncovered & ~masks[ship][placement], (*chosen, placement)
                )


@lru_cache(maxsize=64)
def waters(rows: int, columns: int, lengths: tuple[int, ...], touch: bool) -> Waters:
    """Return the placements of a fleet, from a cache."""
    return Waters(rows, columns, lengths, touch)
