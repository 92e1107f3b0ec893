"""Solvers of games: the function of a game's name in the module ``solver`` of its folder.

ORACLE of that module says which oracle asks it: ``posterior`` where something is hidden,
``constraint`` of a puzzle, ``planning`` of an environment that is no game over OpenSpiel. The
module may have further functions that oracle or rewards ask for:
``key(state, prior=...)`` (see ``posterior``), ``reference(state)``, which returns the
actions of one solution from the start of the play that the state is of, whatever was played since,
or None where it cannot tell; and ``tiers(state)`` beside TIERS, what each tier pays (see
``graded``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from sparring.config.plugins import registry
from sparring.config.plugins.registry import Plugin, load_part, offering
from sparring.environments.base import Environment, Searchable, SearchablePlay, is_searchable
from sparring.methods.oracles.base import CachedOracle

PART = "solver"
REFERENCE = "reference"
Prior = Literal["uniform", "bank"]


def solved_by(oracle: str) -> tuple[str, ...]:
    """Return the names, sorted, of Sparring's own games whose solver is one of this oracle's."""
    return offering("environments", PART, f'ORACLE = "{oracle}"')


def solver_of(game: Environment, oracle: str = "") -> Plugin | None:
    """Return the solver of a game, or None.

    It is found by the name that made the game, or else by that of its rules.

    Args:
        game: the game.
        oracle: None is returned where it is not one of this oracle's; "": any.

    Raises:
        ConfigError: a solver from outside cannot be imported.
    """
    made_by = str((game.made_by or {}).get("name", ""))
    for name in dict.fromkeys((made_by, game.rules_name if is_searchable(game) else game.name)):
        found = (
            load_part("environments", name, PART) if registry.known("environments", name) else None
        )
        if found is not None and oracle in ("", getattr(found.module, "ORACLE", "")):
            return found
    return None


class KeyedOracle(CachedOracle):
    """Base of oracles whose verdict is decided by what the ``key`` of the game's solver says.

    Where a solver has none it is all that the seat knows.

    Args:
        name: of the oracle.
        prior: what is known beforehand, as the solver's ``key`` is told it.
    """

    def __init__(self, name: str = "", prior: Prior = "uniform") -> None:
        super().__init__(name)
        self.prior: Prior = prior
        self._key: Callable[..., str] | None = None

    def entered(self, game: Searchable) -> None:
        """Take the ``key`` of the game's solver."""
        solver = solver_of(game)
        self._key = None if solver is None else getattr(solver.module, "key", None)

    def key(self, state: SearchablePlay) -> str:
        """Return what decides the verdict; see the top of this class."""
        return super().key(state) if self._key is None else self._key(state, prior=self.prior)


def has_reference(game: Environment) -> bool:
    """Return whether solutions of a game are known."""
    solver = solver_of(game)
    return solver is not None and hasattr(solver.module, REFERENCE)


def reference_of(state: SearchablePlay) -> tuple[str, ...] | None:
    """Return the actions that solve a game from its start, of a game that has a reference.

    None where its solver cannot tell.
    """
    solver = solver_of(state.game)
    found: tuple[str, ...] | None = (
        None if solver is None else getattr(solver.module, REFERENCE)(state)
    )
    return found
