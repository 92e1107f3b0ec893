"""Oracle: a move is right if the puzzle keeps a solution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from sparring.core.records import Judgement, Verdict
from sparring.environments.base import Searchable, SearchablePlay
from sparring.environments.openspiel.fill_in import load_z3
from sparring.methods.oracles.base import CachedOracle, verdict_of
from sparring.methods.oracles.solvers import solved_by, solver_of


@dataclass(kw_only=True, eq=False)
class ConstraintOracle(CachedOracle):
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
    Verified by: tests/methods/oracles/test_puzzles.py, tests/environments/sudoku/test_solver.py.

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

    right: Literal["solution", "forced"] = "solution"
    lost: Literal["abstain", "solution"] = "abstain"
    solver: Literal["backtracking", "z3"] = "backtracking"

    name = "constraint"

    def __post_init__(self) -> None:
        super().__init__()
        self._solve: Callable[..., Judgement | None] | None = None
        if self.solver == "z3":
            load_z3()  # a missing package is told now

    def covers(self, game: Searchable) -> str:
        """Return why this game cannot be judged, or ""."""
        if solver_of(game, self.name) is not None:
            return ""
        return (
            f"it is no puzzle whose constraints are known here; play "
            f"{', '.join(solved_by(self.name))}, or use oracle minimax, mcts or cfr."
        )

    def entered(self, game: Searchable) -> None:
        """Take the game's solver."""
        solver = solver_of(game, self.name)
        self._solve = None if solver is None else solver.function

    def opinions(self, states: Sequence[SearchablePlay]) -> list[Verdict | None]:
        """Return a verdict per state; None where the game's solver abstains."""
        assert self._solve is not None, "covered before"
        options = {"right": self.right, "lost": self.lost, "solver": self.solver}
        judgements = [self._solve(state, **options) for state in states]
        return [
            None if judgement is None else verdict_of(state.legal_actions(), judgement)
            for state, judgement in zip(states, judgements, strict=True)
        ]


constraint = ConstraintOracle
