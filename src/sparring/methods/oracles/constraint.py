"""Oracle: whether a move keeps a puzzle solvable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from sparring.core.records import SolverResult, Verdict
from sparring.environments.base import Searchable, SearchablePlay
from sparring.environments.openspiel.fill_in import load_z3
from sparring.methods.oracles.base import CachedOracle, verdict_from_solver
from sparring.methods.oracles.solvers import games_of_oracle, solver_of


@dataclass(kw_only=True, eq=False)
class ConstraintOracle(CachedOracle):
    """Judge by a solver whether each move keeps the puzzle solvable.

    What: the value of a right move is the payoff when all later moves are right. The value of a
    wrong move is the best remaining payoff. The game's ``solver.py``, described on the game's page,
    defines moves and solutions.
    When to use: puzzles with one seat, no hidden information and a solution.
    Mathematics: a move is right if and only if the position after it has a solution.
    Pitfalls: with "forced", ``best`` does not contain all moves of the largest value. The game's
    solver defines what one step of deduction is.
    Reference: arXiv 2605.10325 (a move that keeps the unique solution is right); de Moura and
    Bjorner, "Z3", 2008.
    Verified by: tests/methods/oracles/test_puzzles.py, tests/environments/sudoku/test_solver.py.

    Args:
        right: the best moves. "solution" (default): every move that keeps a solution. "forced":
            only moves that follow by deduction, if there are any.
        lost: verdict on a position without a solution, if only a solved puzzle pays. "abstain"
            (default): no verdict. "solution": right moves still follow the puzzle's solution.
        solver: "backtracking" (default): the game's exact search. "z3": the reference solver of
            some games, with the same verdicts, much slower; needs pip install 'sparring[oracles]'.
    """

    right: Literal["solution", "forced"] = "solution"
    lost: Literal["abstain", "solution"] = "abstain"
    solver: Literal["backtracking", "z3"] = "backtracking"

    name = "constraint"

    def __post_init__(self) -> None:
        super().__init__()
        self._solve: Callable[..., SolverResult | None] | None = None
        if self.solver == "z3":
            load_z3()  # raises now if the package is missing

    def covers(self, game: Searchable) -> str:
        """Return why this game cannot be judged, or ""."""
        if solver_of(game, self.name) is not None:
            return ""
        return (
            "it is not a puzzle with a constraint solver; play "
            f"{', '.join(games_of_oracle(self.name))}, or use oracle minimax, mcts or cfr."
        )

    def prepare(self, game: Searchable) -> None:
        """Load the game's solver."""
        solver = solver_of(game, self.name)
        self._solve = None if solver is None else solver.function

    def compute_verdicts(self, states: Sequence[SearchablePlay]) -> list[Verdict | None]:
        """Return a verdict per state; None where the game's solver abstains."""
        assert self._solve is not None, "the oracle covers the game"
        options = {"right": self.right, "lost": self.lost, "solver": self.solver}
        results = [self._solve(state, **options) for state in states]
        return [
            None if result is None else verdict_from_solver(state.legal_actions(), result)
            for state, result in zip(states, results, strict=True)
        ]


constraint = ConstraintOracle
