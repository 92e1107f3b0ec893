"""Entry functions of plug-in classes, and checks of numbers, roles and words in options."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Collection, Sequence
from functools import wraps
from typing import Any, TypeVar

from sparring.core.errors import ConfigError, UnknownNameError, quoted

E = TypeVar("E")


def entry_of(environment: type[E], options: type[Any] | None = None) -> Callable[..., E]:
    """Return the entry function that makes an environment from its keyword-only options.

    Args:
        environment: the class; its first argument is an instance of ``options``, if given.
        options: a dataclass with further options, which are listed first.
    """
    fields = dict(inspect.signature(options).parameters) if options else {}
    arguments = inspect.signature(environment).parameters.values()
    parameters = [
        *fields.values(),
        *(parameter for parameter in arguments if parameter.kind is parameter.KEYWORD_ONLY),
    ]

    @wraps(environment, updated=())
    def entry(**values: Any) -> E:
        option_values = {name: values.pop(name) for name in fields if name in values}
        return environment(*([options(**option_values)] if options else []), **values)

    entry.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    hints = typing.get_type_hints(environment.__init__, include_extras=True)
    option_hints = typing.get_type_hints(options, include_extras=True) if options else {}
    entry.__annotations__ = {**hints, **option_hints}
    return entry


def check_range(where: str, value: float, low: float, high: float = float("inf")) -> None:
    """Check that a number is in [low, high].

    Raises:
        ConfigError: ``value`` is out of range; ``where`` names the plug-in and the option, such as
            "liars_dice: dice".
    """
    if not low <= value <= high:
        upper = "" if high == float("inf") else f" and at most {high:g}"
        raise ConfigError(
            f"{where}={value:g} must be at least {low:g}{upper}; "
            f"write {where.split(': ')[-1]}={low:g}."
        )


def seats_of(
    environment: str, option: str, names: Sequence[str], roles: Sequence[str], owner: str = ""
) -> tuple[int, ...]:
    """Return the seats of the roles that an option names.

    Args:
        environment: name of the environment with the option, for errors.
        option: name of the option, for errors.
        names: the roles in the option.
        roles: all roles, by seat.
        owner: name of the environment that has the roles, for errors; "": ``environment``.

    Raises:
        ConfigError: a role is named twice.
        UnknownNameError: a name is not a role.
    """
    for name in names:
        if name not in roles:
            raise UnknownNameError(f"role of {owner or environment}", name, roles)
    if len(set(names)) != len(names):
        raise ConfigError(
            f"environments {environment!r}: {option}={quoted(names)} names a role twice."
        )
    return tuple(map(list(roles).index, names))


def unknown_words(action: str, words: Collection[str]) -> list[str]:
    """Return the words of an action that the environment does not have.

    Args:
        action: one or more words.
        words: the words of the environment.
    """
    if action in words:
        return []
    return [word for word in action.split() or [action] if word not in words]
