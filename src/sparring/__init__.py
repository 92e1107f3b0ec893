"""Sparring trains, measures and improves language-model agents by letting them play.

    import sparring

    run = sparring.train("kuhn-tiny", "steps=60")
    result = sparring.evaluate(run)

The module ``sparring.api`` holds the functions and is imported at their first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from sparring.api import (
        Run,
        advantages,
        evaluate,
        load_run,
        loss,
        make_environment,
        play_episodes,
        train,
        turn_table,
    )

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


def __getattr__(name: str) -> Any:
    """Return a name of the public API, or ``__version__``."""
    if name == "__version__":
        from sparring.core import version

        return version()
    if name not in __all__:
        raise AttributeError(
            f"module 'sparring' has no attribute {name!r}; its names are {', '.join(__all__)}"
        )
    from sparring import api

    return getattr(api, name)


def __dir__() -> list[str]:
    """Return the names of the package and of the public API."""
    return sorted({*globals(), *__all__})
