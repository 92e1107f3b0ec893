"""Options of plug-ins: keyword-only parameters, checked by their annotations."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import pydantic

from sparring.errors import ConfigError, quoted
from sparring.schedule import Schedule

Model = type[pydantic.BaseModel]
# what is made once for a function: its annotations, and by the options that are scheduled its model
_HINTS: WeakKeyDictionary[Callable[..., Any], dict[str, Any]] = WeakKeyDictionary()
_MODELS: WeakKeyDictionary[Callable[..., Any], dict[frozenset[str], Model]] = WeakKeyDictionary()


def hints_of(
    function: Callable[..., Any], parameters: Mapping[str, inspect.Parameter], where: str
) -> dict[str, Any]:
    """Return the annotations of a plug-in's function.

    Args:
        function: of the plug-in.
        parameters: its options.
        where: the plug-in in words, for errors.

    Raises:
        ConfigError: they cannot be read, or an option has none.
    """
    if function in _HINTS:
        return _HINTS[function]
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception as error:  # an annotation is any expression
        raise ConfigError(
            f"{where}: the annotations of its function cannot be "
            f"read: {type(error).__name__}: {error}."
        ) from error
    for key in parameters:
        if key not in hints:
            raise ConfigError(
                f"{where}: its option {key!r} has no annotation; write {key}: float = 1.0, say."
            )
    _HINTS[function] = hints
    return hints


def is_float(hint: Any) -> bool:
    """Return whether an annotation is float, with or without limits.

    Such a float may also be None.
    """
    if typing.get_origin(hint) is typing.Annotated:
        return is_float(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return all(part is type(None) or is_float(part) for part in typing.get_args(hint))
    return hint is float


def check_limits(schedule: Schedule, hint: Any, where: str) -> None:
    """Raise ConfigError if a value of a schedule is outside the option's limits.

    Between its ends a ramp is monotone.
    """
    adapter = pydantic.TypeAdapter(hint, config=pydantic.ConfigDict(allow_inf_nan=False))
    for value in schedule.values:
        try:
            adapter.validate_python(value)
        except pydantic.ValidationError as error:
            raise ConfigError(
                f"{where}: {error.errors()[0]['msg']}, got {quoted(value)} in its schedule."
            ) from None


def checked(
    function: Callable[..., Any],
    parameters: Mapping[str, inspect.Parameter],
    plain: Mapping[str, Any],
    scheduled: Iterable[str],
    where: str,
) -> dict[str, Any]:
    """Return options with defaults filled in and types checked by pydantic.

    Scheduled ones are left out.
    """
    made, left_out = _MODELS.setdefault(function, {}), frozenset(scheduled)
    if left_out not in made:
        made[left_out] = _model(parameters, hints_of(function, parameters, where), left_out)
    try:
        return dict(made[left_out](**plain))
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise ConfigError(
            f"{where}, option {key!r}: {first['msg']}, got {quoted(first.get('input'))}."
        ) from None


def _model(
    parameters: Mapping[str, inspect.Parameter], hints: Mapping[str, Any], left_out: frozenset[str]
) -> Model:
    """Return the model of options."""
    fields: dict[str, Any] = {}
    for key, parameter in parameters.items():
        if key not in left_out:
            default = ... if parameter.default is inspect.Parameter.empty else parameter.default
            fields[key] = (hints[key], default)
    config = pydantic.ConfigDict(extra="forbid", arbitrary_types_allowed=True, allow_inf_nan=False)
    return pydantic.create_model("Options", __config__=config, **fields)
