"""Solver of sudoku: judges digits by the only solution of the givens."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from sparring.core.errors import OracleError
from sparring.core.records import SolverResult
from sparring.environments.base import SearchablePlay
from sparring.environments.openspiel.fill_in import load_z3
from sparring.environments.sudoku import SudokuTable, board_text, word_of
from sparring.environments.sudoku.deduction import (
    Board,
    candidates,
    hidden_singles,
    layout_of,
    naked_singles,
    solutions,
)

ORACLE = "constraint"  # the oracle that calls this solver
# rewards of oracle ``graded`` for a right digit in a cell with one candidate ("forced"), in a cell
# with the fewest candidates or in another cell ("right"), and for a wrong digit
TIERS = {"forced": 2.0, "fewest": 1.0, "right": 0.5, "wrong": -1.0}

MAX_CACHED = 100_000  # largest number of puzzles with cached solutions

Solver = Literal["backtracking", "z3"]


def sudoku(
    state: SearchablePlay,
    *,
    right: Literal["solution", "forced"] = "solution",
    lost: Literal["abstain", "solution"] = "abstain",
    solver: Solver = "backtracking",
) -> SolverResult | None:
    """Whether each digit of sudoku keeps the board solvable, by the only solution of the givens.

    What: the value of a right digit is the return if all later digits are right too. The value of a
    wrong digit is the largest return still possible after it.
    When to use: through oracle ``constraint``, on game ``sudoku`` of any size. Oracle ``graded``
    puts digits into tiers: right in a cell with one candidate ("forced", 2), right in a cell with
    the fewest ("fewest", 1), right elsewhere ("right", 0.5), and "wrong" (-1).
    Mathematics: with one solution x* of the givens, the board with digit d in cell c has a solution
    if and only if all digits written so far and d are those of x*.
        value = 1 or 0 if only a solved puzzle pays
        value = the share of blanks that can still be right, otherwise
    Pitfalls: with "forced", ``best`` leaves out some moves of the largest value. After a wrong
    digit, deduction can yield digits outside the solution; these never count as forced.
    Reference: arXiv 2605.10325 (the digit of the unique solution is right); de Moura and Bjorner,
    "Z3", 2008.
    Verified by: tests/environments/sudoku/test_solver.py, tests/environments/sudoku/test_sudoku.py.

    Args:
        right: the digits that are best. "solution" (default): every digit of the solution.
            "forced": only digits that one step of deduction gives (the only possible digit of a
            cell, or the only possible cell of a digit), if any.
        lost: the judgement of a board with a wrong digit, if only a solved puzzle pays.
            "abstain" (default): no judgement. "solution": 1 for the solution's digits and 0 for
            others, with ``bound`` 1, because all these moves pay 0.
        solver: "backtracking" (default): exact, over bit masks. "z3": the reference, with the same
            judgements, a hundred times slower; needs pip install 'sparring[oracles]'.
    """
    table: SudokuTable = state.table
    board, size = solution(table.size, table.givens, solver), table.size
    singles = None
    if right == "forced":
        singles = {**hidden_singles(size, table.cells), **naked_singles(size, table.cells)}
    return table.judgement(board, singles, lost)


def tiers(state: SearchablePlay) -> list[str]:
    """Return the tier of each legal digit, by the number of candidates of its cell."""
    table: SudokuTable = state.table
    size, board = table.size, solution(table.size, table.givens)
    counts = [digits.bit_count() for digits in candidates(size, table.cells)]
    min_count = min(count for count, value in zip(counts, table.cells, strict=True) if not value)
    names = []
    for index in state.legal_indices():
        cell, digit = divmod(index, size)
        is_right, count = board[cell] == digit + 1, counts[cell]
        tier = "forced" if count == 1 else "fewest" if count == min_count else "right"
        names.append(tier if is_right else "wrong")
    return names


def reference(state: SearchablePlay) -> tuple[str, ...]:
    """Return the digits that solve the puzzle, in reading order."""
    table: SudokuTable = state.table
    board = solution(table.size, table.givens)
    return tuple(
        word_of(table.size, cell * table.size + board[cell] - 1)
        for cell, digit in enumerate(table.givens)
        if not digit
    )


@lru_cache(maxsize=MAX_CACHED)
def solution(size: int, givens: Board, solver: Solver = "backtracking") -> Board:
    """Return the only solution of a puzzle.

    Raises:
        OracleError: the puzzle has no solution or several solutions.
    """
    boards = _z3_solutions(size, givens, 2) if solver == "z3" else solutions(size, givens, 2)
    if len(boards) != 1:
        problem = "several solutions" if boards else "no solution"
        raise OracleError(
            f"Oracle 'constraint': the puzzle {board_text(size, givens)} has {problem}; judge "
            "puzzles with exactly one solution."
        )
    return boards[0]


def _z3_solutions(size: int, board: Sequence[int], limit: int) -> list[Board]:
    z3, boards = load_z3(), list[Board]()
    cells = [z3.Int(f"cell{number}") for number in range(size * size)]
    solver = z3.Solver()
    solver.add([z3.And(cell >= 1, cell <= size) for cell in cells])
    solver.add([z3.Distinct([cells[cell] for cell in unit]) for unit in layout_of(size).units])
    solver.add([cell == digit for cell, digit in zip(cells, board, strict=True) if digit])
    while len(boards) < limit and solver.check() == z3.sat:
        model = solver.model()
        boards.append(tuple(model[cell].as_long() for cell in cells))
        solver.add(z3.Or([cell != digit for cell, digit in zip(cells, boards[-1], strict=True)]))
    return boards
