"""Recipes: YAML by name or path, laid over one another, with ``a.b=c`` overrides; ``config.resolve`` checks the result."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from sparring.config import RunConfig
from sparring.errors import ConfigError, UnknownNameError

FOLDER = Path(__file__).parent / "recipes"


def recipe_names() -> tuple[str, ...]:
    """Return the names of the recipes in the package, FOLDER/NAME for those in folders; what others extend begins with _."""
    names = [path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.yaml") if not path.name.startswith("_")]
    return tuple(sorted(names))


def load_recipe(name: str, *, part_of_another: bool = False) -> dict[str, Any]:
    """Return a recipe by name, or a YAML file by path, as a plain mapping; ``extends``, a name or a list of them, is followed.

    Args:
        name: of a recipe in the package, or the path of a YAML file.
        part_of_another: whether another recipe extends it, so that it may be no recipe by itself.

    Raises:
        UnknownNameError: neither a recipe nor a file.
        ConfigError: not a YAML mapping.
    """
    path = Path(name)
    if path.suffix in (".yaml", ".yml") and path.is_file():
        text = path.read_text(encoding="utf-8")
    elif name in recipe_names() or (part_of_another and (FOLDER / f"{name}.yaml").is_file()):
        text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    else:
        raise UnknownNameError("recipe", name, recipe_names(), "See `sparring list recipes`, or give the path of a YAML file.")
    data = parse_yaml(text, f"Recipe {name!r}")
    if not isinstance(data, dict):
        raise ConfigError(f"Recipe {name!r} must be a mapping of keys to values, got {type(data).__name__}.")
    bases = data.pop("extends", [])
    result: dict[str, Any] = {}
    for base in [bases] if isinstance(bases, str) else bases:
        result = merge(result, load_recipe(base, part_of_another=True))
    return merge(result, data)


def parse_yaml(text: str, what: str) -> Any:
    """Return what a YAML text says; ``what`` names it in the error.

    Raises:
        ConfigError: not YAML.
    """
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{what} is not valid YAML: {' '.join(str(error).split())}") from None


def merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``base`` with ``changes`` laid over it; mappings merge, everything else is replaced."""
    result = dict(copy.deepcopy(dict(base)))
    for key, value in changes.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping) and "name" not in value and "schedule" not in value
        result[key] = merge(result[key], value) if both else copy.deepcopy(value)
    return result


def apply_overrides(data: Mapping[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """Return ``data`` with ``a.b=c`` overrides applied; values are YAML, list items are addressed by number.

    Raises:
        ConfigError: an override without '=', or a path through something that has no parts.
    """
    result = copy.deepcopy(dict(data))
    for override in overrides:
        path, separator, text = override.partition("=")
        if not separator or not path:
            raise ConfigError(f"Override {override!r} must look like learner.learning_rate=0.001.")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError:
            raise ConfigError(f"Override {override!r}: {text!r} is not a valid value.") from None
        _assign(result, path.split("."), value, override)
    return result


def _assign(target: Any, path: list[str], value: Any, override: str) -> None:
    """Set the item at ``path`` below ``target``, making mappings on the way."""
    for depth, part in enumerate(path):
        last = depth + 1 == len(path)
        if isinstance(target, list):
            if not part.isdigit() or int(part) >= len(target):
                raise ConfigError(f"Override {override!r}: {part!r} is not an index of a list of {len(target)} items.")
            index: Any = int(part)
        elif isinstance(target, dict):
            index = part
            if not last:
                target.setdefault(index, {})
        else:
            raise ConfigError(f"Override {override!r}: {'.'.join(path[:depth])!r} is a plain value and has no part {part!r}.")
        if last:
            target[index] = value
        target = target[index]


def to_yaml(config: RunConfig) -> str:
    """Return the resolved configuration as YAML that ``resolve`` reads back to an equal one."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
