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

# a fourth ship makes ``tally`` slower by a factor of its number of placements, up to 112
MAX_SHIPS = 4
MAX_CELLS = 64


def placements(rows: int, columns: int, length: int) -> tuple[int, ...]:
    """Return all placements of a straight ship as bit masks, ascending and without repeats."""
    masks_across = [
        sum(1 << r * columns + c + k for k in range(length))
        for r in range(rows)
        for c in range(columns - length + 1)
    ]
    masks_down = [
        sum(1 << (r + k) * columns + c for k in range(length))
        for r in range(rows - length + 1)
        for c in range(columns)
    ]
    return tuple(sorted({*masks_across, *masks_down}))


def halo(rows: int, columns: int, mask: int) -> int:
    """Return the cells of a bit mask and all their neighbours, diagonal ones too."""
    cells = 0
    for cell in (cell for cell in range(rows * columns) if mask >> cell & 1):
        row, column = divmod(cell, columns)
        for r, c in product(
            range(max(row - 1, 0), min(row + 2, rows)),
            range(max(column - 1, 0), min(column + 2, columns)),
        ):
            cells |= 1 << r * columns + c
    return cells


class Tally(NamedTuple):
    """The number of fleets, and for each ship the number of fleets with each placement."""

    num_fleets: int
    # for each ship, [placements]: number of fleets with this placement, counted as ``num_ordered``
    counts: tuple[Floats, ...]
    num_ordered: int  # number of fleets if ships of equal length are distinct

    def chances(self, placements: FleetPlacements) -> Floats:
        """Return the probability of a ship in each cell, [cells], for equally likely fleets."""
        expected_ships = sum(
            (count @ cover for count, cover in zip(self.counts, placements.covers, strict=True)),
            np.zeros(placements.cells),
        )
        return np.asarray(expected_ships / self.num_ordered, dtype=np.float64)


class FleetPlacements:
    """The placements of each ship of a fleet on a grid, and the compatible pairs of placements.

    Args:
        rows, columns: size of the grid, at most 64 cells.
        lengths: length of each ship, descending, 1 to 4 ships.
        touch: whether ships may lie side by side or corner to corner; they never overlap.

    Raises:
        ValueError: too many cells or ships, or lengths out of order.
    """

    def __init__(self, rows: int, columns: int, lengths: tuple[int, ...], touch: bool) -> None:
        if (
            rows * columns > MAX_CELLS
            or not 1 <= len(lengths) <= MAX_SHIPS
            or list(lengths) != sorted(lengths, reverse=True)
        ):
            raise ValueError(
                f"FleetPlacements: {rows} rows, {columns} columns, lengths {lengths}; write at "
                f"most {MAX_CELLS} cells and 1 to {MAX_SHIPS} lengths, descending."
            )
        self.cells, self.lengths = rows * columns, lengths
        masks_of_ships = [placements(rows, columns, length) for length in lengths]
        self.masks: list[Masks] = [np.array(masks, dtype=np.uint64) for masks in masks_of_ships]
        blocked_cells = self.masks
        if not touch:
            halos = ([halo(rows, columns, mask) for mask in masks] for masks in masks_of_ships)
            blocked_cells = [np.array(masks, dtype=np.uint64) for masks in halos]
        self.compatible: list[list[Floats]] = [
            [((blocked[:, None] & masks[None, :]) == 0).astype(np.float64) for masks in self.masks]
            for blocked in blocked_cells
        ]
        self.covers: list[Floats] = [
            (
                masks[:, None] >> np.arange(self.cells, dtype=np.uint64)[None, :] & np.uint64(1)
            ).astype(np.float64)
            for masks in self.masks
        ]
        # number of orders of the ships of equal length; ``Tally.num_ordered`` counts each order
        self.num_orders = prod(factorial(number) for number in Counter(lengths).values())

    def tally(self, usable: Sequence[Flags] | None = None, hits: int = 0) -> Tally:
        """Return the number of fleets of usable placements that together cover all of ``hits``.

        Ships do not overlap, so a fleet covers all hits if the numbers of hits that its ships cover
        sum to the number of all hits. Placements are grouped by the number of hits that they cover.
        The number of compatible placements i, j, k is the sum of A[i, j] B[i, k] C[j, k]. All
        numbers are integers below 2^53, so floats hold them exactly.

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
        for hits_per_ship in product(*(np.unique(numbers).tolist() for numbers in hits_covered)):
            if sum(hits_per_ship) != hits.bit_count():
                continue
            groups = [
                index[numbers == number]
                for index, numbers, number in zip(indices, hits_covered, hits_per_ship, strict=True)
            ]
            counts = self._count_compatible(groups, 0)
            for total, index, count in zip(totals, groups, counts, strict=True):
                total[index] += count
        num_ordered = round(totals[0].sum())
        return Tally(num_ordered // self.num_orders, totals, num_ordered)

    def _count_compatible(self, groups: list[npt.NDArray[np.int64]], first: int) -> list[Floats]:
        """Return the number of fleets with each placement of each ship from ``first`` on."""
        if len(groups) == 1:
            return [np.ones(len(groups[0]))]
        matrices = [
            [
                self.compatible[first + i][first + j][np.ix_(rows, columns)]
                for j, columns in enumerate(groups)
            ]
            for i, rows in enumerate(groups)
        ]
        if len(groups) == 2:
            return [matrices[0][1].sum(1), matrices[0][1].sum(0)]
        if len(groups) == 3:
            a, b, c = matrices[0][1], matrices[0][2], matrices[1][2]
            return [((a @ c) * b).sum(1), ((a.T @ b) * c).sum(1), ((b.T @ a) * c.T).sum(1)]
        totals = [np.zeros(len(group)) for group in groups]
        for number in range(len(groups[0])):
            index_lists = [np.flatnonzero(row[number]) for row in matrices[0][1:]]
            counts = self._count_compatible(
                [group[index] for group, index in zip(groups[1:], index_lists, strict=True)],
                first + 1,
            )
            totals[0][number] = counts[0].sum()
            for total, index, count in zip(totals[1:], index_lists, counts, strict=True):
                total[index] += count
        return totals

    def fleets(self, tally: Tally, hits: int = 0) -> Iterator[tuple[int, ...]]:
        """Yield the fleets of a tally, each with ships of equal length in ascending order."""
        indices = [np.flatnonzero(count).tolist() for count in tally.counts]
        masks = [row.tolist() for row in self.masks]
        yield from self._fleets(indices, masks, hits, ())

    def _fleets(
        self,
        indices: list[list[int]],
        masks: list[list[int]],
        hits_left: int,
        fleet: tuple[int, ...],
    ) -> Iterator[tuple[int, ...]]:
        ship = len(fleet)
        if ship == len(indices):
            if not hits_left:
                yield tuple(masks[other][placement] for other, placement in enumerate(fleet))
            return
        if hits_left.bit_count() > sum(self.lengths[ship:]):
            return
        last_index = fleet[-1] if ship and self.lengths[ship] == self.lengths[ship - 1] else -1
        compatible_rows = [
            self.compatible[other][ship][placement] for other, placement in enumerate(fleet)
        ]
        for placement in indices[ship]:
            if placement > last_index and all(row[placement] for row in compatible_rows):
                yield from self._fleets(
                    indices, masks, hits_left & ~masks[ship][placement], (*fleet, placement)
                )


@lru_cache(maxsize=64)
def fleet_placements(
    rows: int, columns: int, lengths: tuple[int, ...], touch: bool
) -> FleetPlacements:
    """Return the placements of a fleet, from a cache."""
    return FleetPlacements(rows, columns, lengths, touch)
