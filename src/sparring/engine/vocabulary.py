"""The words that the tiny model knows: of a run's environments and of its context strategy."""

from __future__ import annotations

from collections.abc import Sequence

from sparring.config import RunConfig
from sparring.environments.catalogue import configured_game
from sparring.environments.openspiel.base import Game
from sparring.environments.own import words_of


def vocabulary(config: RunConfig, games: Sequence[Game] | None = None) -> set[str]:
    """Return every word that is told or replied in brief style.

    Args:
        config: of the run.
        games: its environments, where they are made already.
    """
    if games is None:
        games = [configured_game(section) for section in config.environments]
    asked: tuple[str, ...] = getattr(config.context.bind("context").plugin.module, "WORDS", ())
    return {word for game in games for word in words_of(game)} | set(asked)
