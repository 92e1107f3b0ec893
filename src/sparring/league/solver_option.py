"""A meta-solver as an option of another plug-in: a name, or a mapping with its options."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator

from sparring.config_parts import PluginConfig
from sparring.league.meta_game import MetaGame, MetaStrategy
from sparring.registry import Bound


def bound(solver: Any) -> Bound:
    """Return the meta-solver that a text or a mapping names.

    Raises:
        UnknownNameError, ConfigError: there is none of this name, or it has no such options.
    """
    return PluginConfig.model_validate(solver).bind("league.meta_solvers")


def _there(solver: Any) -> Any:
    """Return a meta-solver as it was written, if there is such a one."""
    bound(solver)
    return solver


SolverOption = Annotated[str | dict[str, Any], AfterValidator(_there)]


def solved(solver: Any, game: MetaGame) -> MetaStrategy:
    """Return what a meta-solver answers.

    Raises:
        GameError: it cannot solve this meta-game.
        PluginError: it raised, or gave no distributions.
    """
    found: MetaStrategy = bound(solver)(game)
    return found
