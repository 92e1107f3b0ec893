"""Solvers of games: in a game's folder, the module ``solver`` has a function with the game's name.

The module's ORACLE names the oracle that calls the solver: ``posterior`` for games with hidden
information, ``constraint`` for puzzles, ``planning`` for environments that are not OpenSpiel games.
The module may define further functions for oracles and rewards:

    key(state, prior=...)    see ``posterior``
    reference(state)         actions of one solution from the initial state of the state's episode,
                             or None if the solver has none
    tiers(state)             with TIERS, the reward of each tier; see ``graded``
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from sparring.config.plugins import registry
from sparring.config.plugins.registry import Plugin, load_part, names_with_line_in_part
from sparring.environments.base import Environment, Searchable, SearchablePlay, is_searchable
from sparring.methods.oracles.base import CachedOracle

PART = "solver"
REFERENCE = "reference"
Prior = Literal["uniform", "bank"]


def games_of_oracle(oracle: str) -> tuple[str, ...]:
    """Return the sorted names of the built-in games whose solver belongs to this oracle."""
    return names_with_line_in_part("environments", PART, f'ORACLE = "{oracle}"')


def solver_of(game: Environment, oracle: str = "") -> Plugin | None:
    """Return the solver of a game or None; look it up by the game's name, then by its rules.

    Args:
        game: the game.
        oracle: name of the oracle to which the solver must belong; "": any.

    Raises:
        ConfigError: a solver from another package cannot be imported.
    """
    made_by = str((game.made_by or {}).get("name", ""))
    for name in dict.fromkeys((made_by, game.rules_name if is_searchable(game) else game.name)):
        solver = (
            load_part("environments", name, PART)
            if registry.is_known("environments", name)
            else None
        )
        if solver is not None and oracle in ("", getattr(solver.module, "ORACLE", "")):
            return solver
    return None


class KeyedOracle(CachedOracle):
    """Base class of oracles that take the cache key of a state from the game's solver, if possible.

    Args:
        name: name of the oracle.
        prior: prior over the hidden state, passed to the solver's ``key``.
    """

    def __init__(self, name: str = "", prior: Prior = "uniform") -> None:
        super().__init__(name)
        self.prior: Prior = prior
        self._key: Callable[..., str] | None = None

    def prepare(self, game: Searchable) -> None:
        """Load the ``key`` of the game's solver."""
        solver = solver_of(game)
        self._key = None if solver is None else getattr(solver.module, "key", None)

    def key(self, state: SearchablePlay) -> str:
        """Return the cache key of a state, from the game's solver or else the information state."""
        return super().key(state) if self._key is None else self._key(state, prior=self.prior)


def has_reference(game: Environment) -> bool:
    """Return whether a game's solver gives reference solutions."""
    solver = solver_of(game)
    return solver is not None and hasattr(solver.module, REFERENCE)


def reference_of(state: SearchablePlay) -> tuple[str, ...] | None:
    """Return the actions that solve a game from its initial state, or None."""
    solver = solver_of(state.game)
    reference: tuple[str, ...] | None = (
        None if solver is None else getattr(solver.module, REFERENCE)(state)
    )
    return reference
