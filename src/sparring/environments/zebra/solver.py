"""Solver of zebra: judges values by the only solution of the clues."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

from sparring.core.errors import OracleError
from sparring.core.records import SolverResult
from sparring.environments.base import SearchablePlay
from sparring.environments.openspiel.fill_in import load_z3
from sparring.environments.zebra import ZebraTable
from sparring.environments.zebra.deduction import Board, Clue, deduce_board, solutions
from sparring.environments.zebra.puzzles import clues_text, word_of

ORACLE = "constraint"  # the oracle that calls this solver

MAX_CACHED = 100_000  # largest number of puzzles with cached solutions

Solver = Literal["backtracking", "z3"]


def zebra(
    state: SearchablePlay,
    *,
    right: Literal["solution", "forced"] = "solution",
    lost: Literal["abstain", "solution"] = "abstain",
    solver: Solver = "backtracking",
) -> SolverResult | None:
    """Whether each value of a logic-grid puzzle keeps the puzzle solvable, by the only solution.

    What: the value of a right move is the return if all later moves are right too. The value of a
    wrong move is the largest return still possible after it.
    When to use: through oracle ``constraint``, on game ``zebra`` of any size.
    Mathematics: with one solution x* of the clues, the board with value v in cell c has a solution
    if and only if all values written so far and v are those of x*.
        value = 1 or 0 if only a solved puzzle pays
        value = the share of cells that can still be right, otherwise
    Pitfalls: with "forced", ``best`` leaves out some moves of the largest value. In puzzles of
    level "deduced" all right moves are forced, so both settings agree. After a wrong value, unit
    propagation finds a contradiction or values of no solution; these never count as forced.
    Reference: arXiv 2502.01100 (ZebraLogic); Bacchus, "GAC via unit propagation", 2007; de Moura
    and Bjorner, "Z3", 2008.
    Verified by: tests/environments/zebra/test_solver.py, tests/environments/zebra/test_zebra.py,
    tests/environments/zebra/test_deduction.py.

    Args:
        right: the values that are best. "solution" (default): every value of the solution.
            "forced": only the values that unit propagation derives from the clues and the board, if
            any (arc consistency on each clue, an item's only house, and a house's only item of an
            attribute, repeated until nothing changes).
        lost: the judgement of a board with a wrong value, if only a solved puzzle pays. "abstain"
            (default): no judgement. "solution": 1 for the solution's values and 0 for others, with
            ``bound`` 1, because all these moves pay 0.
        solver: "backtracking" (default): exact, with unit propagation. "z3": the reference, with
            the same judgements, much slower; needs pip install 'sparring[oracles]'.
    """
    table: ZebraTable = state.table
    board = solution(table.houses, table.attributes, table.clues, solver)
    forced_values = None
    if right == "forced":
        cells = deduce_board(table.houses, table.attributes, table.clues, table.cells)
        forced_values = dict(enumerate(cells or ()))
    return table.judgement(board, forced_values, lost)


def reference(state: SearchablePlay) -> tuple[str, ...]:
    """Return the values that solve the puzzle, house by house."""
    table: ZebraTable = state.table
    board = solution(table.houses, table.attributes, table.clues)
    return tuple(
        word_of(table.houses, table.attributes, cell * table.houses + value - 1)
        for cell, value in enumerate(board)
    )


@lru_cache(maxsize=MAX_CACHED)
def solution(
    houses: int, attributes: int, clues: tuple[Clue, ...], solver: Solver = "backtracking"
) -> Board:
    """Return the only solution of a puzzle.

    Raises:
        OracleError: the puzzle has no solution or several solutions.
    """
    boards = (
        z3_solutions(houses, attributes, clues, 2)
        if solver == "z3"
        else solutions(houses, attributes, clues)
    )
    if len(boards) != 1:
        problem = "several solutions" if boards else "no solution"
        raise OracleError(
            f"Oracle 'constraint': the puzzle {clues_text(houses, clues)!r} has {problem}; judge "
            "puzzles whose clues have exactly one solution."
        )
    return boards[0]


def z3_solutions(houses: int, attributes: int, clues: Sequence[Clue], limit: int) -> list[Board]:
    """Return at most ``limit`` solutions of a puzzle by Z3, with one house variable per item."""
    z3, boards = load_z3(), list[Board]()
    variables = [z3.Int(f"item{number}") for number in range(houses * attributes)]
    solver = z3.Solver()
    solver.add([z3.And(house >= 0, house < houses) for house in variables])
    for first in range(0, len(variables), houses):
        solver.add(z3.Distinct(variables[first : first + houses]))
    for kind, a, b in clues:
        second = b if kind in ("is", "not") else variables[b]
        solver.add(_formula(z3, kind, variables[a], second))
    while len(boards) < limit and solver.check() == z3.sat:
        model = solver.model()
        values = [model.eval(house, model_completion=True).as_long() for house in variables]
        cells = [0] * len(variables)
        for item, house in enumerate(values):
            cells[house * attributes + item // houses] = item % houses + 1
        boards.append(tuple(cells))
        differences = [house != value for house, value in zip(variables, values, strict=True)]
        solver.add(z3.Or(differences))
    return boards


def _formula(z3: Any, kind: str, a: Any, b: Any) -> Any:
    if kind in ("is", "with"):
        return a == b
    if kind in ("not", "without"):
        return a != b
    if kind == "next":
        return z3.Or(a - b == 1, b - a == 1)
    return b - a == 1 if kind == "left" else a < b
