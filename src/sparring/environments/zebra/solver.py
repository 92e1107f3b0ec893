"""Solver: zebra, by its only solution, which a solver finds from the clues alone."""

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

ORACLE = "constraint"  # that asks this solver

KEPT_SOLUTIONS = 100_000  # puzzles whose solutions are remembered

Solver = Literal["backtracking", "z3"]


def zebra(
    state: SearchablePlay,
    *,
    right: Literal["solution", "forced"] = "solution",
    lost: Literal["abstain", "solution"] = "abstain",
    solver: Solver = "backtracking",
) -> Judgement | None:
    """Whether each value of a logic-grid puzzle keeps it solvable.

    The only solution, which a solver finds from the clues alone, tells.

    What: a right value is worth what the game pays if all later ones are right too. A wrong one is
    worth what the game can still pay after it.
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
            changes), where there are any.
        lost: what is said of a board with a wrong value, where only a solved puzzle pays. "abstain"
            (default): nothing. "solution": moves are judged by the puzzle's solution all the same,
            1 and 0 with ``bound`` 1, because all these moves pay 0.
        solver: "backtracking" (default): exact, with unit propagation. "z3": the reference. It
            gives the same verdicts, is much slower, and needs pip install 'sparring[oracles]'.
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


@lru_cache(maxsize=KEPT_SOLUTIONS)
def solution(
    houses: int, attributes: int, clues: tuple[Clue, ...], solver: Solver = "backtracking"
) -> Board:
    """Return the only solution of a puzzle.

    Raises:
        OracleError: it has none, or several.
    """
    every = (
        by_z3(houses, attributes, clues, 2)
        if solver == "z3"
        else solutions(houses, attributes, clues)
    )
    if len(every) != 1:
        what = "several solutions" if every else "no solution"
        raise OracleError(
            f"Oracle 'constraint': the puzzle {clues_text(houses, clues)!r} has {what}; judge "
            "puzzles whose clues leave exactly one."
        )
    return every[0]


def by_z3(houses: int, attributes: int, clues: Sequence[Clue], limit: int) -> list[Board]:
    """Return at most ``limit`` solutions of a puzzle by Z3, an integer per item: its house."""
    z3, found = load_z3(), list[Board]()
    at = [z3.Int(f"item{number}") for number in range(houses * attributes)]
    solver = z3.Solver()
    solver.add([z3.And(house >= 0, house < houses) for house in at])
    solver.add([z3.Distinct(at[first : first + houses]) for first in range(0, len(at), houses)])
    solver.add(
        [
            _formula(z3, kind, at[one], two if kind in ("is", "not") else at[two])
            for kind, one, two in clues
        ]
    )
    while len(found) < limit and solver.check() == z3.sat:
        model = solver.model()
        homes = [model.eval(house, model_completion=True).as_long() for house in at]
        cells = [0] * len(at)
        for item, house in enumerate(homes):
            cells[house * attributes + item // houses] = item % houses + 1
        found.append(tuple(cells))
        solver.add(z3.Or([house != home for house, home in zip(at, homes, strict=True)]))
    return found


def _formula(z3: Any, kind: str, one: Any, two: Any) -> Any:
    if kind in ("is", "with"):
        return one == two
    if kind in ("not", "without"):
        return one != two
    if kind == "next":
        return z3.Or(one - two == 1, two - one == 1)
    return two - one == 1 if kind == "left" else one < two
