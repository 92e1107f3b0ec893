"""Oracle: a move is right if the puzzle keeps a solution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from sparring.errors import ConfigError, OracleError
from sparring.games.base import Game, State
from sparring.games.sudoku_table import SudokuTable, board_text
from sparring.ops.sudoku import Board, frame, hidden_singles, naked_singles, solutions
from sparring.oracles.base import Oracle, verdict
from sparring.oracles.cached import CachedOracle
from sparring.types import Verdict

KEPT_SOLUTIONS = 100_000  # puzzles whose solutions are remembered; then all are forgotten, which costs time and changes nothing


class ConstraintOracle(CachedOracle):
    """Judges by the puzzle's only solution, which a solver finds from the givens alone."""

    def __init__(self, right: str, lost: str, solver: str) -> None:
        super().__init__("constraint")
        self.right, self.lost = right, lost
        self._solve = _Z3() if solver == "z3" else solutions
        self._solutions: dict[tuple[int, Board], Board] = {}

    def covers(self, game: Game) -> str:
        """Return why this game cannot be judged, or ""."""
        if isinstance(getattr(game.spiel, "opening", None), SudokuTable):
            return ""
        return "it is no puzzle whose constraints are known here; play sudoku, or use oracle minimax, mcts or cfr."

    def opinions(self, states: Sequence[State]) -> list[Verdict | None]:
        """Return a verdict per state; None where the puzzle is lost and nothing that is paid is left."""
        return [self._opinion(state) for state in states]

    def solution(self, size: int, givens: Board) -> Board:
        """Return the only solution of a puzzle.

        Raises:
            OracleError: it has none, or several.
        """
        found = self._solutions.get((size, givens))
        if found is None:
            every = self._solve(size, givens, 2)
            if len(every) != 1:
                what = "several solutions" if every else "no solution"
                raise OracleError(f"Oracle 'constraint': the puzzle {board_text(size, givens)} has {what}; judge puzzles with exactly one.")
            self.counts["solved"] += 1
            if len(self._solutions) >= KEPT_SOLUTIONS:
                self._solutions.clear()
            found = self._solutions[size, givens] = every[0]
        return found

    def _opinion(self, state: State) -> Verdict | None:
        """Return the verdict on one board."""
        table, actions = state.spiel.table, state.legal_actions()
        truth, size = self.solution(table.size, table.givens), table.size
        legal = [divmod(index, size) for index in state.spiel.legal_actions()]
        right = [truth[cell] == digit + 1 for cell, digit in legal]
        wrong = sum(held != 0 and held != true for held, true in zip(table.cells, truth, strict=True))
        if wrong and not table.share:  # nothing that is done now changes what is paid
            return None if self.lost == "abstain" else verdict(actions, right, bound=1.0)
        found = verdict(actions, _values(table, right, wrong))
        if self.right == "forced":
            singles = {**hidden_singles(size, table.cells), **naked_singles(size, table.cells)}
            forced = [ok and singles.get(cell) == digit + 1 for ok, (cell, digit) in zip(right, legal, strict=True)]
            if any(forced):
                found = replace(found, best=frozenset(word for word, ok in zip(actions, forced, strict=True) if ok))
        return found


def _values(table: SudokuTable, right: list[bool], wrong: int) -> list[float]:
    """Return what each move pays if all later ones are right."""
    if not table.share:
        best, worst = 1.0, 0.0
    elif table.ends:
        best, worst = 1.0, len(table.moves) / table.blanks
    else:
        best, worst = (table.blanks - wrong) / table.blanks, (table.blanks - wrong - 1) / table.blanks
    return [best if ok else worst for ok in right]


class _Z3:
    """Finds solutions by Z3."""

    def __init__(self) -> None:
        try:
            import z3
        except ImportError:
            raise ConfigError(
                "Oracle 'constraint' with solver='z3' needs the package z3-solver, which is not installed; "
                "run pip install 'sparring[oracles]', or write solver='backtracking'."
            ) from None
        self._z3: Any = z3

    def __call__(self, size: int, board: Sequence[int], limit: int) -> list[Board]:
        """Return the solutions of a board, at most ``limit``."""
        z3, found = self._z3, list[Board]()
        cells = [z3.Int(f"cell{number}") for number in range(size * size)]
        solver = z3.Solver()
        solver.add([z3.And(cell >= 1, cell <= size) for cell in cells])
        solver.add([z3.Distinct([cells[cell] for cell in unit]) for unit in frame(size).units])
        solver.add([cell == digit for cell, digit in zip(cells, board, strict=True) if digit])
        while len(found) < limit and solver.check() == z3.sat:
            model = solver.model()
            found.append(tuple(model[cell].as_long() for cell in cells))
            solver.add(z3.Or([cell != digit for cell, digit in zip(cells, found[-1], strict=True)]))
        return found


def constraint(
    *,
    right: Literal["solution", "forced"] = "solution",
    lost: Literal["abstain", "solution"] = "abstain",
    solver: Literal["backtracking", "z3"] = "backtracking",
) -> Oracle:
    """Whether each move keeps the puzzle solvable, in sudoku, by the only solution that a solver finds from the givens.

    What: a right digit is worth what the game pays if all later ones are right too, a wrong one what is then still to be had.
    When to use: sudoku of any size.
    Mathematics: with one solution x* of the givens, the board with digit d in cell c has a solution if and only if all digits written so
    far and d are those of x*. value = 1 or 0 where a solved puzzle pays, else the share of blanks that can still be right.
    Options: ``right``: "solution": every digit of the solution is best; "forced": only those that one step of deduction gives (the only
    digit left for a cell, or the only cell left for a digit), where there are any. ``lost``: what is said of a board with a wrong
    digit where only a solved puzzle pays: "abstain", or judge by the puzzle's "solution" all the same, 1 and 0 with ``bound`` 1, for
    all these moves pay 0. ``solver``: exact "backtracking" over bit masks, or "z3", the reference: the same verdicts, a hundred times
    slower, from pip install 'sparring[oracles]'.
    Pitfalls: with "forced", ``best`` are not all the moves of the largest value. After a wrong digit deduction can point at
    digits that are not the solution's; these never count as forced.
    Reference: arXiv 2605.10325 (the digit of the unique solution is right); de Moura and Bjorner, "Z3", 2008.
    Verified by: tests/oracles/test_constraint.py, tests/games/test_sudoku.py.
    """
    return ConstraintOracle(right, lost, solver)
