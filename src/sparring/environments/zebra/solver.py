"""Solver of zebra: judges values by the only solution of the clues."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

from sparring.core.errors import OracleError
from sparring.core.records import Judgement
from sparring.environments.base import SearchablePlay
from sparring.environments.openspiel.fill_in import load_z3
from sparring.environments.zebra import ZebraTable
from sparring.environments.zebra.deduction import Board, Clue, deduced, solutions
from sparring.environments.zebra.puzzles import clues_text, word_of

ORACLE = "constraint"  # the oracle that calls this solver

CACHED_SOLUTIONS = 100_000  # puzzles with cached solutions

Solver = Literal["backtracking", "z3"]


def zebra(
    state: SearchablePlay,
    *,
    right: Literal["solution", "forced"] = "solution",
    lost: Literal["abstain", "solution"] = "abstain",
    solver: Solver = "backtracking",
) -> Judgement | None:
    """Whether each value of a logic-grid puzzle keeps it solvable, by the clues' only solution.

    What: the value of a right move is the return if all later moves are right too. The value of a
    wrong move is the largest return still possible after it.
    When to use: through oracle ``constraint``, on game ``zebra`` of any size.
    Mathematics: with one solution x* of the clues, the board with value v in cell c has a solution
    if and only if all values written so far and v are those of x*.
        value = 1 or 0 where a solved puzzle pays
        value = the share of cells that can still be right, else
    Pitfalls: with "forced", ``best`` are not all the moves of the largest value, and nothing
    changes for puzzles of level "deduced", whose right moves are all forced. After a wrong value
    propagation finds a contradiction, or values that are not the solution's; these never count as
    forced.
    Reference: arXiv 2502.01100 (ZebraLogic); Bacchus, "GAC via unit propagation", 2007; de Moura
    and Bjorner, "Z3", 2008.
    Verified by: tests/environments/zebra/test_solver.py, tests/environments/zebra/test_zebra.py,
    tests/environments/zebra/test_deduction.py.

    Args:
        right: which values are best. "solution" (default): every value of the solution. "forced":
            only those that unit propagation from the clues and the board gives (arc consistency on
            each clue, an item's only house, a house's only item of an attribute, until nothing
            changes), if any.
        lost: the judgement of a board with a wrong value, where only a solved puzzle pays.
            "abstain" (default): none. "solution": by the puzzle's solution, 1 and 0 with ``bound``
            1, because all these moves pay 0.
        solver: "backtracking" (default): exact, with unit propagation. "z3": the reference, with
            the same judgements, much slower; needs pip install 'sparring[oracles]'.
    """
    table: ZebraTable = state.table
    truth = solution(table.houses, table.attributes, table.clues, solver)
    known = None
    if right == "forced":
        cells = deduced(table.houses, table.attributes, table.clues, table.cells)
        known = dict(enumerate(cells or ()))
    return table.judgement(truth, known, lost)


def reference(state: SearchablePlay) -> tuple[str, ...]:
    """Return the values that solve the puzzle, house by house."""
    table: ZebraTable = state.table
    truth = solution(table.houses, table.attributes, table.clues)
    return tuple(
        word_of(table.houses, table.attributes, cell * table.houses + value - 1)
        for cell, value in enumerate(truth)
    )


@lru_cache(maxsize=CACHED_SOLUTIONS)
def solution(
    houses: int, attributes: int, clues: tuple[Clue, ...], solver: Solver = "backtracking"
) -> Board:
    """Return the only solution of a puzzle.

    Raises:
        OracleError: the puzzle has no solution, or several.
    """
    boards = (
        by_z3(houses, attributes, clues, 2)
        if solver == "z3"
        else solutions(houses, attributes, clues)
    )
    if len(boards) != 1:
        problem = "several solutions" if boards else "no solution"
        raise OracleError(
            f"Oracle 'constraint': the puzzle {clues_text(houses, clues)!r} has {problem}; judge "
            "puzzles whose clues leave exactly one."
        )
    return boards[0]


def by_z3(houses: int, attributes: int, clues: Sequence[Clue], limit: int) -> list[Board]:
    """Return at most ``limit`` solutions of a puzzle by Z3, with one house variable per item."""
    z3, boards = load_z3(), list[Board]()
    at = [z3.Int(f"item{number}") for number in range(houses * attributes)]
    solver = z3.Solver()
    solver.add([z3.And(house >= 0, house < houses) for house in at])
    solver.add([z3.Distinct(at[first : first + houses]) for first in range(0, len(at), houses)])
    solver.add(
        [_formula(z3, kind, at[a], b if kind in ("is", "not") else at[b]) for kind, a, b in clues]
    )
    while len(boards) < limit and solver.check() == z3.sat:
        model = solver.model()
        homes = [model.eval(house, model_completion=True).as_long() for house in at]
        cells = [0] * len(at)
        for item, house in enumerate(homes):
            cells[house * attributes + item // houses] = item % houses + 1
        boards.append(tuple(cells))
        solver.add(z3.Or([house != home for house, home in zip(at, homes, strict=True)]))
    return boards


def _formula(z3: Any, kind: str, a: Any, b: Any) -> Any:
    if kind in ("is", "with"):
        return a == b
    if kind in ("not", "without"):
        return a != b
    if kind == "next":
        return z3.Or(a - b == 1, b - a == 1)
    return b - a == 1 if kind == "left" else a < b
