"""Types for the sections of a configuration: limited numbers, plug-ins with options, and errors.

The limits are far above real use; they find typing errors early.
"""

from __future__ import annotations

import copy
import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from sparring.config.plugins import registry
from sparring.core import schedule
from sparring.core.errors import ConfigError, MissingError, UnknownNameError, quoted

_NOT_ASCII = re.compile(r"[^ -~]")  # characters beyond printable ASCII

BUILT_IN_COMPONENTS = ("game", "illegal")  # reward components of every game
MAX_COUNT = 10**9


def _number_from(low: float = -schedule.LARGEST) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        try:
            lowest = min(schedule.parse(value).values)
        except ConfigError as error:
            raise ValueError(str(error).removeprefix("schedule: ")) from None
        if lowest < low:
            raise ValueError(f"{lowest:g} is too small; write {low:g} or more")
        return value

    return check


Number = Annotated[Any, AfterValidator(_number_from())]
NotNegative = Annotated[Any, AfterValidator(_number_from(0.0))]
AtLeastOne = Annotated[Any, AfterValidator(_number_from(1.0))]
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Positive = Annotated[int, Field(ge=1, le=MAX_COUNT)]
# counts of things in memory at once: games, tokens of a reply
CountTo1M = Annotated[int, Field(ge=1, le=10**6)]
CountTo1MOrZero = Annotated[int, Field(ge=0, le=10**6)]
# counts of repetitions, such as passes or retries
CountTo10K = Annotated[int, Field(ge=1, le=10**4)]
CountTo10KOrZero = Annotated[int, Field(ge=0, le=10**4)]
Width = Annotated[int, Field(ge=1, le=2**16)]  # width of a layer


def _refuse_repeated_gpus(gpus: tuple[int, ...]) -> tuple[int, ...]:
    repeated_gpus = sorted({gpu for gpu in gpus if gpus.count(gpu) > 1})
    if repeated_gpus:
        raise ValueError(f"GPU {repeated_gpus[0]} is listed twice; name each once")
    return gpus


# GPU numbers of this machine, from 0
Gpus = Annotated[
    tuple[Annotated[int, Field(ge=0, le=1023)], ...],
    Field(max_length=64),
    AfterValidator(_refuse_repeated_gpus),
]


class Strict(BaseModel):
    """Base of all sections: unknown keys are errors, values are frozen, numbers are finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``base`` with ``changes``: nested mappings are merged, other values replaced."""
    result = dict(copy.deepcopy(dict(base)))
    for key, value in changes.items():
        is_section = (
            isinstance(value, Mapping)
            and isinstance(result.get(key), Mapping)
            and "name" not in value
            and "schedule" not in value
        )
        result[key] = merge(result[key], value) if is_section else copy.deepcopy(value)
    return result


def refuse_repeated(noun: str, names: Iterable[str], reason: str) -> None:
    """Raise ValueError if a list has the same name twice."""
    names = list(names)
    repeated_names = sorted({name for name in names if names.count(name) > 1})
    if repeated_names:
        raise ValueError(f"{noun} {quoted(repeated_names[0])} is listed twice; {reason}")


def parse_named(text: str, noun: str, example: str) -> tuple[str, dict[str, Any]]:
    """Return (name, options) of a text such as ``mcts simulations=1000``.

    Args:
        text: a name, then ``key=value`` pairs with values in YAML, quoted as in a shell.
        noun: the kind of thing, for messages.
        example: a valid text, for messages.

    Raises:
        ConfigError: the text cannot be read.
    """
    from sparring.config.yaml_text import parse_value  # estimators alone need no YAML

    try:
        name, *pairs = shlex.split(text)
    except ValueError as error:
        raise ConfigError(
            f"{noun} {quoted(text)} cannot be read ({error}); write for example {example!r}."
        ) from None
    options: dict[str, Any] = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise ConfigError(
                f"{noun} {quoted(text)}: {quoted(pair)} is not an option; write key=value, for "
                f"example {example!r}."
            )
        options[key] = parse_value(value, f"{noun} {quoted(text)}", key)
    return name, options


def to_option_text(name: str, options: Mapping[str, Any]) -> str:
    """Return a name and options as text that ``parse_named`` can read.

    Args:
        name: name of a plug-in.
        options: JSON values, all finite.
    """
    pairs = (f"{key}={_to_ascii_json(value)}" for key, value in options.items())
    return " ".join(map(shlex.quote, [name, *pairs]))


def _to_ascii_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return _NOT_ASCII.sub(lambda match: f"\\U{ord(match[0]):08x}", text)


def parse_plugin(text: str, noun: str, example: str) -> tuple[str, str | None, dict[str, Any]]:
    """Return (name, preset, options) of a text ``NAME[:PRESET] key=value ...``."""
    label, options = parse_named(text, noun, example)
    name, _, preset = label.partition(":")
    return name, preset or None, options


def bound_agent(text: str) -> registry.BoundPlugin:
    """Return the player plug-in of a text ``NAME[:PRESET] key=value ...``.

    Raises:
        UnknownNameError: there is no such player or option.
        ConfigError: the text cannot be read, or a value has the wrong type or is missing.
    """
    name, preset, options = parse_plugin(text, "Agent", "mcts simulations=1000")
    return registry.bind("players", name, options, preset=preset)


class PluginConfig(BaseModel):
    """A plug-in by name; all other keys are its options.

    A text ``NAME[:PRESET] key=value ...`` means the same.
    """

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)
    name: str = Field(description="the plug-in's name")
    preset: str | None = Field(None, description="a named set of options of the plug-in")

    @model_validator(mode="before")
    @classmethod
    def _parse_text(cls, data: Any) -> Any:
        if not isinstance(data, str):
            return data
        name, preset, options = parse_plugin(data, "Plug-in", "mcts simulations=1000")
        if options.keys() & ({"name", "preset"} if preset else {"name"}):
            raise ValueError(
                f"{quoted(data)} gives the name or preset twice; write NAME or NAME:PRESET, "
                "then options"
            )
        return {"name": name, **({"preset": preset} if preset else {}), **options}

    @property
    def options(self) -> dict[str, Any]:
        """The plug-in's options as the user wrote them."""
        return dict(self.__pydantic_extra__ or {})

    def bind(self, slot: str) -> registry.BoundPlugin:
        """Return the plug-in of ``slot`` with these options, checked against its signature."""
        return registry.bind(slot, self.name, self.options, preset=self.preset)


def named_components(credit: registry.BoundPlugin) -> dict[str, Any]:
    """Return the reward components that an estimator's options name, by option."""
    requirements = credit.plugin.declarations.REQUIRES
    return {
        option: credit.options.get(option, credit.plugin.options[option].default)
        for option in sorted(requirements.get("components", ()))
    }


def check_requires(
    credit: registry.BoundPlugin, losses: Sequence[str], rewards: Sequence[str]
) -> None:
    """Check that a run has the losses and reward components that an estimator REQUIRES.

    REQUIRES may have "losses" (the run must have one of them) and "components": options of the
    estimator that name reward components of the run.

    Raises:
        MissingError: something is missing; the message shows the line to add.
    """
    requirements = credit.plugin.declarations.REQUIRES
    fitting_losses = sorted(requirements.get("losses", ()))
    if fitting_losses and not set(fitting_losses) & set(losses):
        raise MissingError(
            f"credit: {credit.plugin.name!r} needs a critic, which no loss trains; add to losses "
            f"the line - {{name: {fitting_losses[0]}}}."
        )
    for option, component in named_components(credit).items():
        if isinstance(component, str) and component not in (*BUILT_IN_COMPONENTS, *rewards):
            raise MissingError(
                f"credit: {credit.plugin.name!r} reads the reward component {quoted(component)} "
                f"(its option {option}), but no reward of this run computes it; add to rewards - "
                f"{{name: {component}}}, or name another component."
            )


def config_error(
    error: Any, keys_at: Callable[[tuple[int | str, ...]], Iterable[str]], document: str = ""
) -> ConfigError:
    """Return pydantic's first error as a ConfigError of one line.

    Args:
        error: pydantic's ValidationError.
        keys_at: returns the valid keys of the section at a path.
        document: name of the document, printed before the path; empty for a run's configuration.
    """
    problem = error.errors(include_url=False)[0]
    parts = [str(part) if len(str(part)) <= 40 else quoted(str(part)) for part in problem["loc"]]
    label = ".".join(parts) or ("suite" if document else "configuration")
    if problem["type"] == "extra_forbidden":
        section = ".".join(parts[:-1]) or ("the suite" if document else "the configuration")
        title = f"key of {section} in {document}" if document else f"key of {section}"
        return UnknownNameError(title, str(problem["loc"][-1]), keys_at(problem["loc"][:-1]))
    message = problem["msg"].removeprefix("Value error, ").rstrip(".")
    if problem["type"] == "missing" and label == "environments" and not document:
        message = "a recipe names its environments; begin it with the line extends: kuhn-tiny"
    value = problem.get("input")
    # if the value is a whole section, the message already names the wrong part
    is_section_error = isinstance(value, (dict, BaseModel)) and problem["type"] == "value_error"
    if problem["type"] != "missing" and not is_section_error and quoted(value) not in message:
        message += f", got {quoted(value)}"
        if problem["type"] == "string_type" and isinstance(value, (int, float)):
            message += "; write it in quotes, as in label: '12e5'"
    return ConfigError(f"{document + ': ' if document else ''}{label}: {message}.")
