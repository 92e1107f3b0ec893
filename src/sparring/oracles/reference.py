"""References: a solution of a game from its start.

It is there where the game's solver offers one: the module ``solver`` of the game's folder has,
beside the solver, a function ``reference(state)``. It returns the actions of one
solution from the start of the play that the state is of, whatever was played since, or None where
it cannot tell.
"""

from __future__ import annotations

from sparring.environments.openspiel.base import Game, State
from sparring.oracles.solvers import solver_of

OFFER = "reference"


def has_reference(game: Game) -> bool:
    """Return whether solutions of a game are known."""
    solver = solver_of(game)
    return solver is not None and hasattr(solver.module, OFFER)


def reference_of(state: State) -> tuple[str, ...] | None:
    """Return the actions that solve a game from its start, of a game that has a reference.

    None where its solver cannot tell.
    """
    solver = solver_of(state.game)
    found: tuple[str, ...] | None = None if solver is None else getattr(solver.module, OFFER)(state)
    return found
