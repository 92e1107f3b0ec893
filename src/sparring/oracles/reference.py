"""References: a solution of a game from its start.

It is there where the game's file in the slot of puzzles offers one.

Such a file has, beside its plug-in, a function ``reference(state)``. It returns the actions of one
solution from the start of the play that the state is of, whatever was played since, or None where
it cannot tell.
"""

from __future__ import annotations

from sparring import registry
from sparring.games.base import Game, State

SLOT, OFFER = "oracles.puzzles", "reference"


def has_reference(game: Game) -> bool:
    """Return whether solutions of a game are known."""
    return game.spiel.get_type().short_name in registry.offering(SLOT, OFFER)


def reference_of(state: State) -> tuple[str, ...] | None:
    """Return the actions that solve a game from its start, of a game that has a reference.

    None where its file cannot tell.
    """
    module = registry.load(SLOT, state.game.spiel.get_type().short_name).module
    found: tuple[str, ...] | None = getattr(module, OFFER)(state)
    return found
