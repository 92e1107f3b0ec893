"""The errors that users see.

SparringError
├── ConfigError            a recipe, an override or an option is wrong
│   ├── MissingError       a method lacks something that it requires (REQUIRES)
│   └── UnknownNameError   an unknown name of a plug-in, game, recipe or option
├── GameError              a game cannot do what was requested
│   └── TooLargeError      exact evaluation of a game with too many states
├── ModelError             a model folder, tokenizer or template cannot be used
│   └── ContextError       a context strategy cannot work in an environment
├── RunError               a run folder is missing, of another run, locked or damaged
│   ├── LockedError        another process uses the run folder
│   └── CheckpointError    no checkpoint of the run folder can be read
├── OracleError            an oracle cannot judge a state
├── RewardError            a reward plug-in returned no usable numbers
├── CreditError            an estimator cannot work on a turn table
├── DivergedError          a number in training is not finite; the last checkpoint is good
├── PluginError            a plug-in raised, or returned an unusable value
│   └── HungError          a plug-in did not return within call_seconds
└── RolloutError           episodes failed beyond the retry budget
"""

from __future__ import annotations

import difflib
import re
import reprlib
from collections.abc import Iterable
from typing import Any

DEBUG = "SPARRING_DEBUG"  # the environment variable that shows tracebacks
_MAX_VALUE = 120  # largest number of characters of a value in a message
_MAX_WORD, _MAX_MESSAGE = 400, 2500  # largest numbers of characters of a word and a message


class _ShortRepr(reprlib.Repr):
    """Formats values for messages, shortened to a few entries per level."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxdict, self.maxlist, self.maxtuple = 4, 6, 8, 8
        self.maxstring = self.maxother = _MAX_VALUE

    def repr_int(self, x: int, level: int) -> str:
        """Return a whole number, or its size in bits if it is very long."""
        return repr(x) if x.bit_length() < 200 else f"<a whole number of {x.bit_length()} bits>"


_SHORT_REPR = _ShortRepr()


def quoted(value: Any, limit: int = _MAX_VALUE) -> str:
    """Return a value for a message: like ``repr``, on one line, shortened if it is long."""
    text = _SHORT_REPR.repr(value)
    half = limit // 2 - 2
    return text if len(text) <= limit else f"{text[:half]} ... {text[-half:]}"


def _shorten_message(message: str) -> str:
    text = re.sub(
        rf"\S{{{_MAX_WORD + 1},}}",
        lambda match: f"{match[0][:_MAX_VALUE]} ... {match[0][-_MAX_VALUE:]}",
        message,
    )
    half = _MAX_MESSAGE // 2 - 3
    return text if len(text) <= _MAX_MESSAGE else f"{text[:half]} ... {text[-half:]}"


class SparringError(ValueError):
    """Base of all errors that a user can cause and fix.

    Args:
        message: the problem, the value, its place, and what to write instead; shortened to 2,500
            characters.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(_shorten_message(str(message)))


class ConfigError(SparringError):
    """A recipe, an override or an option is wrong."""


class MissingError(ConfigError):
    """A configuration lacks something that a method requires (REQUIRES)."""


_MAX_LISTED = 60  # largest number of names in a message


class UnknownNameError(ConfigError):
    """An unknown name; the message lists the nearest names and all known names.

    Args:
        kind: kind of the name, such as "metric".
        name: the unknown name.
        known: all known names.
        hint: where to find more, as a sentence.
        list_all: whether to list all known names, if they are not too many.
    """

    def __init__(
        self, kind: str, name: str, known: Iterable[str], hint: str = "", *, list_all: bool = True
    ) -> None:
        known = sorted(known)
        nearest_names = nearest(name, known)
        advice = f" Did you mean {' or '.join(map(repr, nearest_names))}?" if nearest_names else ""
        if not known:
            advice = " There are none."
        elif list_all and len(known) > len(nearest_names) and len(known) <= _MAX_LISTED:
            advice += f" Known: {', '.join(known)}."
        super().__init__(f"Unknown {kind} {quoted(name)}.{advice}{' ' + hint if hint else ''}")
        self.name, self.suggestions = name, nearest_names


class GameError(SparringError):
    """A game cannot do what was requested."""


class TooLargeError(GameError):
    """Exact evaluation was requested for a game with too many states."""


class ModelError(SparringError):
    """A model folder, tokenizer or chat template cannot be used."""


class ContextError(ModelError):
    """A context strategy cannot work in this environment."""


class RunError(SparringError):
    """A run folder is missing, belongs to another run, is locked or is damaged."""


class LockedError(RunError):
    """Another process uses the run folder."""


class CheckpointError(RunError):
    """No checkpoint of the run folder can be read."""


class OracleError(SparringError):
    """An oracle cannot judge a state, or its budget is not a number."""


class RewardError(SparringError):
    """A reward plug-in did not return one number of reasonable size per turn."""


class CreditError(SparringError):
    """An estimator cannot work on this turn table."""


class DivergedError(SparringError):
    """A loss, gradient, weight or probability is not finite; the step was not saved."""


class PluginError(SparringError):
    """A plug-in raised an exception, or returned an unusable value."""


class HungError(PluginError):
    """A plug-in did not return within the limit of one call."""


class RolloutError(SparringError):
    """Episodes failed beyond the retry budget."""


def nearest(name: str, names: Iterable[str]) -> list[str]:
    """Return up to three similar names; names that begin with ``name`` come first."""
    names_by_lower = {item.lower(): item for item in names}
    if not 0 < len(name) <= _MAX_VALUE:
        return []
    matches = sorted((item for item in names_by_lower if item.startswith(name.lower())), key=len)
    similar = difflib.get_close_matches(name.lower(), names_by_lower, n=3, cutoff=0.5)
    return [names_by_lower[item] for item in dict.fromkeys([*matches[:2], *similar])][:3]
