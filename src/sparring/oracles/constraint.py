"""Oracle: a move is right if the puzzle keeps a solution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from sparring.environments.openspiel.base import Game, State
from sparring.environments.openspiel.fill_in import load_z3
from sparring.oracles.base import Oracle, verdict_of
from sparring.oracles.cached import CachedOracle
from sparring.oracles.solvers import solved_by, solver_of
from sparring.types import Judgement, Verdict


class ConstraintOracle(CachedOracle):
    """Judges by what the game's solver says."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__("constraint")
        self.options = options
        self._solve: Callable[..., Judgement | None] | None = None

    def covers(self, game: Game) -> str:
        """Return why this game cannot be judged, or ""."""
        if solver_of(game, self.name) is not None:
            return ""
        return (
            f"it is no puzzle whose constraints are known here; play "
            f"{', '.join(solved_by(self.name))}, or use oracle minimax, mcts or cfr."
        )

    def entered(self, game: Game) -> None:
        """Take the game's solver."""
        solver = solver_of(game, self.name)
        self._solve = None if solver is None else solver.function

    def opinions(self, states: Sequence[State]) -> list[Verdict | None]:
        """Return a verdict per state; None where the game's solver abstains."""
        solve = self._solve
        return (
            []
            if solve is None
            else [_verdict(state, solve(state, **self.options)) for state in states]
        )


def _verdict(state: State, found: Judgement | None) -> Verdict | None:
    """Return what the game's solver says of a state as a verdict."""
    return None if found is None else verdict_of(state.legal_actions(), found)


def constraint(
    *,
    right: Literal["solution", "forced"] = "solution",
    lost: Literal["abstain", "solution"] = "abstain",
    solver: Literal["backtracking", "z3"] = "backtracking",
) -> Oracle:
    """Whether each move keeps the puzzle solvable, found by a solver.

    What: a right move is worth what the game pays if all later ones are right too. A wrong one is
    worth what the game can still pay after it. What the moves and the solutions are depends on the
    game. It is written in the game's folder: its ``solver.py``, shown on the game's page.
    When to use: puzzles: one seat, nothing hidden, a solution to be found.
    Mathematics: a move is right if and only if the position after it has a solution.
    Pitfalls: with "forced", ``best`` are not all the moves of the largest value. What one step of
    deduction is depends on the game.
    Reference: arXiv 2605.10325 (a move that keeps the unique solution is right); de Moura and
    Bjorner, "Z3", 2008.
    Verified by: tests/oracles/test_constraint.py, tests/environments/sudoku/test_solver.py.

    Args:
        right: which moves are best. "solution" (default): every move that keeps a solution.
            "forced": only those that follow by deduction, where there are any.
        lost: what is said of a position without a solution, where only a solved puzzle pays.
            "abstain" (default): nothing. "solution": moves are judged by the puzzle's solution all
            the same.
        solver: "backtracking" (default): the game's own exact search. "z3": the reference, where
            the game has it. It gives the same verdicts, is much slower, and needs pip install
            'sparring[oracles]'.
    """
    if solver == "z3":
        load_z3()  # a missing package is told now
    return ConstraintOracle({"right": right, "lost": lost, "solver": solver})
