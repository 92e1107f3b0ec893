"""The errors a user can meet. Each message says what, the value, where, and what to write instead.

SparringError
├── ConfigError            a recipe, an override or an option is wrong
│   └── UnknownNameError   a name that no plug-in, game, recipe or option has (carries the nearest right one)
├── GameError              a game cannot do what was asked of it
│   └── TooLargeError      exact evaluation of a game with too many states
├── ModelError             a model folder, tokenizer or template cannot be used
├── RunError               a run folder is missing, foreign, locked or damaged
│   ├── LockedError        another process works on the run folder
│   └── CheckpointError    no checkpoint of the run folder can be read
├── OracleError            an oracle was asked what it cannot judge
├── RewardError            a reward plug-in gave no usable numbers
├── CreditError            a turn table an estimator cannot work on
└── RolloutError           episodes failed beyond the retry budget
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SparringError(ValueError):
    """Base of every error that a user can cause and mend."""


class ConfigError(SparringError):
    """A recipe, an override or an option is wrong."""


class UnknownNameError(ConfigError):
    """A name that nothing has; the message lists the nearest right names."""

    def __init__(self, what: str, name: str, known: Iterable[str], hint: str = "") -> None:
        known = sorted(known)
        near = nearest(name, known)
        advice = f" Did you mean {near[0]!r}?" if near else f" Known: {', '.join(known[:20])}." if known else " There are none."
        super().__init__(f"Unknown {what} {name!r}.{advice}{' ' + hint if hint else ''}")
        self.name, self.suggestions = name, near


class GameError(SparringError):
    """A game cannot do what was asked of it."""


class TooLargeError(GameError):
    """Exact evaluation was asked of a game with too many states."""


class ModelError(SparringError):
    """A model folder, tokenizer or chat template cannot be used."""


class RunError(SparringError):
    """A run folder is missing, foreign, locked or damaged."""


class LockedError(RunError):
    """Another process works on the run folder."""


class CheckpointError(RunError):
    """No checkpoint of the run folder can be read."""


class OracleError(SparringError):
    """An oracle was asked about a finished or foreign state, or its budget is no number."""


class RewardError(SparringError):
    """A reward plug-in did not give one number of reasonable size per turn."""


class CreditError(SparringError):
    """A turn table that an estimator cannot work on."""


class RolloutError(SparringError):
    """Episodes failed beyond the retry budget."""


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Return up to three of ``known`` that look most like ``name``, best first."""
    by_lower = {item.lower(): item for item in known}
    return [by_lower[match] for match in difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.5)]
