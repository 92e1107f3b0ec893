"""Sudoku of any size: solutions by backtracking over bit masks, and deduction.

A board is a tuple of size * size digits in reading order, 0 for an empty cell. A set of digits is
an int: bit d - 1 stands for d.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

BOXES = {4: (2, 2), 6: (2, 3), 9: (3, 3)}  # rows and columns of a box, by size

Board = tuple[int, ...]
Order = Callable[[int], Sequence[int]]  # set of digits -> their bits in the order of the search


class SudokuLayout(NamedTuple):
    """The units and digits of all boards of a size; a unit is a row, a column or a box."""

    size: int
    all_digits: int  # the set of all digits
    units: tuple[tuple[int, ...], ...]  # the cells of each row, column and box
    units_of: tuple[tuple[int, int, int], ...]  # the indices of each cell's row, column and box
    bits: tuple[int, ...]  # the bit of each digit, ascending


@cache
def layout_of(size: int) -> SudokuLayout:
    """Return the units and digits of boards of a size: 4, 6 or 9."""
    height, width = BOXES[size]
    span, boxes_per_row = range(size), size // width
    units_of = tuple(
        (row, size + column, 2 * size + row // height * boxes_per_row + column // width)
        for row in span
        for column in span
    )
    units = tuple(
        tuple(cell for cell, cell_units in enumerate(units_of) if unit in cell_units)
        for unit in range(3 * size)
    )
    return SudokuLayout(size, (1 << size) - 1, units, units_of, tuple(1 << digit for digit in span))


def missing_digits(size: int, board: Sequence[int]) -> list[int] | None:
    """Return the digits that each unit lacks, as sets [3 * size]; None if a digit repeats."""
    layout = layout_of(size)
    missing = [layout.all_digits] * (3 * size)
    for cell, digit in enumerate(board):
        if digit:
            bit = 1 << digit - 1
            for unit in layout.units_of[cell]:
                if not missing[unit] & bit:
                    return None
                missing[unit] ^= bit
    return missing


def solutions(
    size: int, board: Sequence[int], limit: int = 2, order: Order | None = None
) -> list[Board]:
    """Return the solutions of a board, at most ``limit``.

    Args:
        size: 4, 6 or 9.
        board: digits, 0 for an empty cell, [size * size].
        limit: number of solutions at which the search stops.
        order: order in which the search tries the digits of a set; None for ascending.
    """
    missing = missing_digits(size, board)
    if missing is None:
        return []
    boards: list[Board] = []
    _search(
        layout_of(size),
        list(board),
        missing,
        [cell for cell, digit in enumerate(board) if not digit],
        limit,
        order,
        boards,
    )
    return boards


def _search(
    layout: SudokuLayout,
    cells: list[int],
    missing: list[int],
    empty_cells: list[int],
    limit: int,
    order: Order | None,
    boards: list[Board],
) -> None:
    """Try each candidate of the empty cell with the fewest candidates, and recurse."""
    if not empty_cells:
        boards.append(tuple(cells))
        return
    digits, min_count, best_index = 0, layout.size + 1, 0
    for index, cell in enumerate(empty_cells):
        row, column, box = layout.units_of[cell]
        candidate_set = missing[row] & missing[column] & missing[box]
        count = candidate_set.bit_count()
        if count < min_count:
            digits, min_count, best_index = candidate_set, count, index
            if count <= 1:
                break
    if not digits:
        return
    cell = empty_cells[best_index]
    other_cells = empty_cells[:best_index] + empty_cells[best_index + 1 :]
    row, column, box = layout.units_of[cell]
    for bit in layout.bits if order is None else order(digits):
        if digits & bit:
            cells[cell] = bit.bit_length()
            missing[row], missing[column], missing[box] = (
                missing[row] ^ bit,
                missing[column] ^ bit,
                missing[box] ^ bit,
            )
            _search(layout, cells, missing, other_cells, limit, order, boards)
            missing[row], missing[column], missing[box] = (
                missing[row] ^ bit,
                missing[column] ^ bit,
                missing[box] ^ bit,
            )
            if len(boards) >= limit:
                break
    cells[cell] = 0


def candidates(size: int, board: Sequence[int]) -> list[int]:
    """Return the possible digits of each cell, as sets [size * size]; 0 if the cell is filled."""
    missing = missing_digits(size, board)
    if missing is None:
        return [0] * len(board)
    units_of = layout_of(size).units_of
    return [
        0 if digit else missing[row] & missing[column] & missing[box]
        for digit, (row, column, box) in zip(board, units_of, strict=True)
    ]


def naked_singles(size: int, board: Sequence[int]) -> dict[int, int]:
    """Return cell -> digit where the cell has only one candidate."""
    return {
        cell: candidate_set.bit_length()
        for cell, candidate_set in enumerate(candidates(size, board))
        if candidate_set.bit_count() == 1
    }


def hidden_singles(size: int, board: Sequence[int]) -> dict[int, int]:
    """Return cell -> digit where the digit fits into no other cell of a unit."""
    sets, digits = candidates(size, board), {}
    for unit in layout_of(size).units:
        fits_once = fits_twice = 0
        for cell in unit:
            fits_twice |= fits_once & sets[cell]
            fits_once |= sets[cell]
        fits_once &= ~fits_twice
        if fits_once:
            digits.update(
                {
                    cell: (sets[cell] & fits_once).bit_length()
                    for cell in unit
                    if sets[cell] & fits_once
                }
            )
    return digits


def fill_singles(size: int, board: Sequence[int], hidden: bool = True) -> Board:
    """Return the board filled by naked singles and, with ``hidden``, hidden singles."""
    cells = list(board)
    while True:
        singles = naked_singles(size, cells) or (hidden_singles(size, cells) if hidden else {})
        if not singles:
            return tuple(cells)
        # one at a time, because two singles can contradict each other if there is no solution
        cell, digit = singles.popitem()
        cells[cell] = digit
