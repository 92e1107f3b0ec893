"""Recipes: YAML files by name or path, which may extend others, with ``a.b=c`` overrides.

A file in the folder ``scale`` is a layer: it describes the machines of a run, and the override
``with=scale/8-gpus`` merges it into a recipe. ``config.resolve`` checks the result.
"""

from __future__ import annotations

import copy
import json
import os.path
import shlex
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from sparring.config import RunConfig
from sparring.config.parts import merge
from sparring.config.yaml_text import MAX_DEPTH, dump_yaml, parse_value, parse_yaml, read_text
from sparring.core.errors import ConfigError, UnknownNameError, nearest, quoted
from sparring.core.foreign_text import current_keys, current_path

FOLDER = Path(__file__).parents[1] / "recipes"
LAYERS, WITH = "scale", "with"  # folder of layers, and the override that merges them


def recipe_names() -> tuple[str, ...]:
    """Return the names of the built-in recipes, such as "kuhn-tiny" or "mars/kuhn-paper".

    Files whose names begin with "_" are left out.
    """
    return _recipe_names_in(FOLDER)


@cache
def _recipe_names_in(folder: Path) -> tuple[str, ...]:
    names = [
        path.relative_to(folder).with_suffix("").as_posix()
        for path in folder.rglob("*.yaml")
        if not path.name.startswith("_") and path.parent.name != LAYERS
    ]
    return tuple(sorted(names))


def layers() -> dict[str, str]:
    """Return all layers: {name: description, from the first line of the file}."""
    paths = sorted((FOLDER / LAYERS).glob("*.yaml"))
    return {
        f"{LAYERS}/{path.stem}": read_text(path, path.stem).split("\n")[0].removeprefix("# ")
        for path in paths
    }


@cache
def _read_built_in(path: Path, title: str) -> Any:
    return parse_yaml(read_text(path, title), title)


def load_recipe(name: str, *, may_be_incomplete: bool = False) -> dict[str, Any]:
    """Return a recipe by name, or a YAML file by path, merged into the recipes that it extends.

    Args:
        name: name of a recipe in the package, or the path of a YAML file.
        may_be_incomplete: whether this may be a layer, or a recipe that only others extend.

    Raises:
        UnknownNameError: there is no such recipe or file.
        ConfigError: the file is not a YAML mapping, or extends itself.
    """
    return _load(name, (), may_be_incomplete=may_be_incomplete)


def _load(name: str, chain: tuple[str, ...], *, may_be_incomplete: bool) -> dict[str, Any]:
    title = f"Recipe {quoted(name)}"
    if name in chain:
        raise ConfigError(
            f"{title} extends itself: {' -> '.join([*chain, name])}. Remove one of these `extends`."
        )
    path = Path(name)
    if path.suffix not in (".yaml", ".yml") or not os.path.isfile(path):
        built_in_path = FOLDER / f"{name}.yaml"
        is_allowed = may_be_incomplete and os.path.isfile(built_in_path)
        is_allowed = is_allowed and built_in_path.resolve().is_relative_to(FOLDER.resolve())
        if name not in recipe_names() and not is_allowed:
            if path.suffix in (".yaml", ".yml"):
                raise _missing_file_error(name)
            if os.path.isfile(path / "config.yaml"):
                raise ConfigError(
                    f"{title} is the folder of a run; a recipe is a name or a YAML file. To "
                    f"continue the run: sparring train --run {shlex.quote(name)} --resume."
                )
            if name in layers():
                raise ConfigError(
                    f"{title} is a layer for another recipe; write for example mars/kuhn-paper "
                    f"{WITH}={name}."
                )
            _refuse_removed_recipe(name, title)
            raise UnknownNameError(
                "recipe",
                name,
                recipe_names(),
                "See `sparring list recipes`, or write the path of a YAML file.",
                list_all=False,  # too many names for a message
            )
        return extend_bases(_read_built_in(built_in_path, title), title, (*chain, name))
    return extend_bases(parse_yaml(read_text(path, title), title), title, (*chain, name))


def extend_bases(data: Any, title: str, chain: tuple[str, ...] = ()) -> dict[str, Any]:
    """Merge a recipe into the recipes listed under its ``extends`` key.

    Args:
        data: contents of a recipe's file.
        title: the recipe in words, for errors.
        chain: names of the recipes that extend this recipe, outermost first.

    Raises:
        UnknownNameError: there is no such recipe.
        ConfigError: the data are not a mapping, or a recipe extends itself.
    """
    if not isinstance(data, Mapping):
        raise ConfigError(
            f"{title} must be a mapping of keys to values, got {type(data).__name__}."
        )
    data = current_keys(data, title)
    bases = data.pop("extends", [])
    bases = [bases] if isinstance(bases, str) else bases
    if not isinstance(bases, list) or not all(isinstance(base, str) for base in bases):
        raise ConfigError(
            f"{title}: extends must be a recipe's name or a list of names, got {quoted(bases)}; "
            "write extends: kuhn-tiny."
        )
    result: dict[str, Any] = {}
    for base in bases:
        result = merge(result, _load(base, chain, may_be_incomplete=True))
    return merge(result, data)


def _missing_file_error(name: str) -> ConfigError:
    nearest_names = nearest(Path(name).stem, recipe_names())
    suggestion = f" Did you mean the recipe {nearest_names[0]!r}?" if nearest_names else ""
    lines = r"extends: kuhn-tiny\nsteps: 200\n"
    return ConfigError(
        f"There is no file {quoted(name)}.{suggestion} To write one, extend a recipe and change "
        f"keys: printf '{lines}' > {shlex.quote(name) if len(name) < 100 else 'FILE.yaml'}; "
        "`sparring list recipes` lists all recipes."
    )


def _refuse_removed_recipe(name: str, title: str) -> None:
    entry = _read_built_in(FOLDER / "_removed.yaml", "The list of removed recipes").get(name)
    if entry:
        study = f" It is part of the study {entry['study']}." if "study" in entry else ""
        raise ConfigError(
            f"{title} was removed in version 0.3.{study} Instead: sparring train {entry['write']}"
        )


def apply_overrides(data: Mapping[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """Return ``data`` with ``a.b=c`` overrides applied.

    Values are YAML, and numbers address list items. ``with=NAME`` or ``with=[NAME, ...]`` first
    merges layers into ``data``.

    Raises:
        ConfigError: an override has no '=', or its path goes through a plain value.
        UnknownNameError: there is no such layer.
    """
    overrides = list(overrides)
    _refuse_malformed_overrides(overrides)
    result = copy.deepcopy(current_keys(data, "The configuration"))
    for override in overrides:
        if override.startswith(f"{WITH}="):
            result = _merge_layers(result, override)
    for override in overrides:
        if override.startswith(f"{WITH}="):
            continue
        path, _, text = override.partition("=")
        title = f"Override {quoted(override, 80)}"
        value = parse_value(text, title, path)
        if path.count(".") >= MAX_DEPTH:
            raise ConfigError(f"{title} has more than {MAX_DEPTH} levels.")
        _assign(result, current_path(path).split("."), value, title)
    return result


def _refuse_malformed_overrides(overrides: list[str]) -> None:
    for index, word in enumerate(overrides):
        if "=" in word and not word.startswith("="):
            continue
        title = f"Override {quoted(word, 80)}"
        next_words = overrides[index + 1 : index + 2]
        if word.isidentifier() and next_words and "=" not in next_words[0]:
            pair = quoted(f"{word}={next_words[0]}", 80)
            raise ConfigError(f"{title} must be joined with its value; write {pair}.")
        raise ConfigError(f"{title} must look like learner.learning_rate=0.001.")


def _merge_layers(data: dict[str, Any], override: str) -> dict[str, Any]:
    title = f"Override {quoted(override, 80)}"
    names = parse_value(override.partition("=")[2], title, WITH)
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"{title} must name layers: write {WITH}={next(iter(layers()))}.")
    for name in names:
        if name not in layers() and Path(name).suffix not in (".yaml", ".yml"):
            raise UnknownNameError(
                "layer",
                name,
                layers(),
                "These are the layers for recipes; the path of a YAML file works too.",
            )
        data = merge(data, load_recipe(name, may_be_incomplete=True))
    return data


def _assign(target: Any, path: list[str], value: Any, title: str) -> None:
    for depth, part in enumerate(path):
        is_last = depth + 1 == len(path)
        if isinstance(target, list):
            if not part.isdecimal() or len(part) > 9 or int(part) >= len(target):
                raise ConfigError(
                    f"{title}: {quoted(part)} is not an index of a list of {len(target)} items."
                )
            index: Any = int(part)
        elif isinstance(target, dict):
            index = part
            if not is_last:
                target.setdefault(index, {})
        else:
            prefix = quoted(".".join(path[:depth]))
            raise ConfigError(f"{title}: {prefix} is a plain value and has no part {quoted(part)}.")
        if is_last:
            target[index] = value
        target = target[index]


def to_yaml(config: RunConfig) -> str:
    """Return the configuration as YAML; ``resolve`` makes an equal one from it."""
    return _dump_cached(json.dumps(config.model_dump(mode="json")))


@lru_cache(maxsize=16)
def _dump_cached(text: str) -> str:
    return dump_yaml(json.loads(text))
