"""The public functions of ``import sparring``: they train, load, play and measure.

A module of this package is imported when one of its names is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparring.api.figures import evaluate
    from sparring.api.plays import make_environment, play_episodes
    from sparring.api.runs import Run, load_run, train
    from sparring.api.turns import advantages, loss, turn_table

__all__ = [
    "Run",
    "advantages",
    "evaluate",
    "load_run",
    "loss",
    "make_environment",
    "play_episodes",
    "train",
    "turn_table",
]
MODULES = {
    "figures": ("evaluate",),
    "plays": ("make_environment", "play_episodes"),
    "runs": ("Run", "load_run", "train"),
    "turns": ("advantages", "loss", "turn_table"),
}


def __getattr__(name: str) -> Any:
    """Return a public name from its module."""
    for module, names in MODULES.items():
        if name in names:
            return getattr(import_module(f"sparring.api.{module}"), name)
    raise AttributeError(
        f"module 'sparring.api' has no attribute {name!r}; its names are {', '.join(__all__)}"
    )
