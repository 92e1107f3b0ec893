"""Entries of plug-ins that are classes, and checks of numbers, roles and words in options."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Collection, Sequence
from functools import wraps
from typing import Any, TypeVar

from sparring.core.errors import ConfigError, UnknownNameError, quoted

E = TypeVar("E")


def entry_of(environment: type[E], options: type[Any] | None = None) -> Callable[..., E]:
    """Return the entry of a plug-in that makes an environment from its keyword-only options.

    Args:
        environment: the class; its first argument is ``options`` where there are such.
        options: a dataclass whose fields are options too, before the others.
    """
    fields = dict(inspect.signature(options).parameters) if options else {}
    arguments = inspect.signature(environment).parameters.values()
    parameters = [
        *fields.values(),
        *(parameter for parameter in arguments if parameter.kind is parameter.KEYWORD_ONLY),
    ]

    @wraps(environment, updated=())
    def entry(**values: Any) -> E:
        first = {name: values.pop(name) for name in fields if name in values}
        return environment(*([options(**first)] if options else []), **values)

    entry.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    hints = typing.get_type_hints(environment.__init__, include_extras=True)
    of_fields = typing.get_type_hints(options, include_extras=True) if options else {}
    entry.__annotations__ = {**hints, **of_fields}
    return entry


def check_range(where: str, value: float, low: float, high: float = float("inf")) -> None:
    """Refuse a number outside [low, high].

    Raises:
        ConfigError: ``value`` is out of range; ``where`` names the plug-in and the option, e.g.
            "liars_dice: dice".
    """
    if not low <= value <= high:
        upper = "" if high == float("inf") else f" and at most {high:g}"
        raise ConfigError(
            f"{where}={value:g} must be at least {low:g}{upper}; "
            f"write {where.split(': ')[-1]}={low:g}."
        )


def seats_of(
    environment: str, option: str, names: Sequence[str], roles: Sequence[str], of: str = ""
) -> tuple[int, ...]:
    """Return the seats of the roles that an option names.

    Args:
        environment: whose option it is, for errors.
        option: its name, for errors.
        names: of roles.
        roles: that there are, by seat.
        of: the environment whose roles they are, for errors; "": the same one.

    Raises:
        ConfigError: a role is named twice.
        UnknownNameError: there is no role of a name.
    """
    for name in names:
        if name not in roles:
            raise UnknownNameError(f"role of {of or environment}", name, roles)
    if len(set(names)) != len(names):
        raise ConfigError(
            f"environments {environment!r}: {option}={quoted(names)} names a role twice."
        )
    return tuple(map(list(roles).index, names))


def unknown_words(action: str, words: Collection[str]) -> list[str]:
    """Return the words of an action that an environment's words are not; an action may be several.

    Args:
        action: as somebody has named it.
        words: of the environment.
    """
    if action in words:
        return []
    return [word for word in action.split() or [action] if word not in words]
