"""Lists and explanations of games, methods, recipes and metrics, read from their code."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from sparring.config import resolve
from sparring.config.plugins import registry
from sparring.config.plugins.outside import slot_of
from sparring.config.plugins.registry import load_part
from sparring.config.recipe import layers, load_recipe, recipe_names, to_yaml
from sparring.config.yaml_text import dump_yaml
from sparring.core.errors import UnknownNameError
from sparring.environments.catalogue import game_names
from sparring.environments.openspiel.people import wrap_lines
from sparring.run.events import fits

METHOD_SLOTS = tuple(slot for slot in registry.SLOTS if slot != "environments")
KINDS = ("environments", "methods", "recipes", "suites", "metrics", *METHOD_SLOTS)
FIRST_RECIPES = ("demo", "kuhn-tiny", "tictactoe-tiny")  # shown first in a list
WIDTH = 100  # columns of paragraphs; shorter lines are not changed
METRIC_SOURCES = (
    "run.step",
    "run.evaluation",
    "run.pipeline",
    "run.events",
    "engine.workers.distributed",
    "engine.workers.unit_scheduler",
    "play.plans.base",
    "learn.learner",
    "learn.reward_model",
)


def entries(kind: str) -> list[dict[str, str]]:
    """Return the name, kind and summary of all entries of a kind in ``KINDS``."""
    if kind == "recipes":
        names = sorted(recipe_names(), key=lambda name: name not in FIRST_RECIPES)
        return [
            {"name": name, "kind": "recipe", "summary": load_recipe(name).get("summary", "")}
            for name in names
        ] + [
            {"name": name, "kind": "layer", "summary": f"{summary} (with={name})"}
            for name, summary in layers().items()
        ]
    if kind == "suites":
        from sparring.measure.suite import load_suite, suite_names

        return [
            {"name": name, "kind": "suite", "summary": load_suite(name)[1].summary}
            for name in suite_names()
        ]
    if kind == "metrics":
        metrics = sorted(glossary().items())
        return [{"name": name, "kind": "metric", "summary": text} for name, text in metrics]
    slots = METHOD_SLOTS if kind == "methods" else (kind,)
    plugins = [plugin for slot in slots for plugin in registry.load_all(slot)]
    plugins += [registry.load(slot, name) for slot in slots for name in registry.bridges(slot)]
    return [
        {"name": plugin.name, "kind": registry.SLOTS[plugin.slot], "summary": plugin.summary}
        for plugin in plugins
    ]


def explanation(name: str) -> str:
    """Return the explanation of a plug-in, game, recipe, suite or metric.

    Raises:
        UnknownNameError: the name does not exist.
    """
    own_slot = slot_of(name)
    slots = [
        slot
        for slot in registry.SLOTS
        if name in (*registry.names(slot), *registry.bridges(slot)) or slot == own_slot
    ]
    texts = [describe_plugin(registry.load(slot, name)) for slot in slots]
    solver = load_part("environments", name, "solver") if "environments" in slots else None
    texts += [describe_plugin(solver)] if solver is not None else []
    if name in game_names() and name not in registry.bridges("environments"):
        from sparring.report.game_page import explain_game

        texts = [*(texts or [f"game {name}, by OpenSpiel"]), *explain_game(name)]
    if name in recipe_names():
        texts.append(f"recipe {name}\n\n{to_yaml(resolve(load_recipe(name)))}")
    if name in layers():
        layer = dump_yaml(load_recipe(name, may_be_incomplete=True))
        texts.append(f"recipe {name}, a layer over another recipe: with={name}\n\n{layer}")
    metrics = {**glossary(), **figure_glossary()}
    texts += [f"metric {key}\n\n{text}" for key, text in metrics.items() if _is_metric(key, name)]
    if name.startswith("nash_conv"):
        texts += _explain_nash_conv(name.partition("/")[2])
    if name.lower() in registry.ALGORITHM_HINTS:
        texts.append(registry.ALGORITHM_HINTS[name.lower()])
    if not texts:
        plugins = (plugin for slot in registry.SLOTS for plugin in registry.names(slot))
        names = {*recipe_names(), *layers(), *metrics, *game_names(), *plugins}
        advice = "See `sparring list environments|methods|recipes|suites|metrics`."
        raise UnknownNameError("name", name, names, advice, list_all=False)
    paragraphs = (text if text.startswith("recipe ") else wrap_lines(text, WIDTH) for text in texts)
    return "\n\n".join(paragraphs)


def _is_metric(key: str, name: str) -> bool:
    """Return whether a name is a metric's full name, its name without placeholders, or a match."""
    fixed_part = "/".join(part for part in key.split("/") if part != "..." and not part.isupper())
    return name in (key, fixed_part, key.split("/")[0]) or fits(key, name)


def _explain_nash_conv(game: str) -> list[str]:
    """Explain NashConv, with values of one game or of two common ones."""
    from sparring.report.game_page import format_exact_values

    names = [game] if game in game_names() else [] if game else ["kuhn_poker", "leduc_poker"]
    texts = ((name, format_exact_values(name)) for name in names)
    exact_texts = [f"{name}: {text}" for name, text in texts if text]
    meaning = (
        "A best response is the policy that gains most against a fixed policy. If no seat can gain "
        "by a best response, the policies are an equilibrium. The policy is renormalised over "
        "legal actions, so an untrained model that rarely gives a legal reply may have a smaller "
        "NashConv than uniform play; read it with illegal_mass_reached. See docs/evaluation.md."
    )
    return [meaning, *exact_texts]


def describe_plugin(plugin: registry.Plugin) -> str:
    """Return a plug-in's docstring, options and presets as text."""
    lines = [
        f"{registry.slot_noun(plugin.slot)} {plugin.name}",
        "",
        inspect.getdoc(plugin.function) or "",
    ]
    for name, parameter in plugin.options.items():
        default = (
            "required"
            if parameter.default is inspect.Parameter.empty
            else f"default {parameter.default!r}"
        )
        type_text = (
            parameter.annotation
            if isinstance(parameter.annotation, str)
            else inspect.formatannotation(parameter.annotation)
        )
        lines.append(f"  option {name}: {type_text}, {default}")
    lines += [f"  preset {name}: {dict(options)}" for name, options in plugin.presets.items()]
    return "\n".join(lines)


def glossary(metrics: Iterable[str] | None = None) -> dict[str, str]:
    """Return the documented metrics of a run: name -> meaning, from the modules that write them.

    Args:
        metrics: names, so that only their losses are imported; None: all losses.
    """
    meanings = _all_metric_tables()
    losses = registry.names("losses")
    if metrics is not None:
        losses = tuple({*losses} & {name.partition("/")[0] for name in metrics})
    for plugin in registry.load_all("losses", sorted(losses)):
        text = inspect.getdoc(plugin.function) or ""
        if "\nMetrics:" in text:
            meanings[f"{plugin.name}/..."] = " ".join(
                text.partition("\nMetrics:")[2].partition("\nReference:")[0].split()
            )
    return meanings


def figure_glossary() -> dict[str, str]:
    """Return the documented figures of `sparring evaluate`, and the figures of a run."""
    return {**_metric_table("run.evaluation"), **_metric_table("api.policy_evaluation")}


def meanings(names: Iterable[str]) -> dict[str, str]:
    """Return the documented meanings of a run's metrics, without those of its losses."""
    tables = _all_metric_tables()
    keys = {name: next((key for key in tables if fits(key, name)), None) for name in names}
    return {name: tables[key] for name, key in keys.items() if key}


def _all_metric_tables() -> dict[str, str]:
    return {name: text for source in METRIC_SOURCES for name, text in _metric_table(source).items()}


@cache
def _metric_table(source: str) -> dict[str, str]:
    """Read a module's table without its import, which may be slow."""
    spec = find_spec(f"sparring.{source}")
    code = Path(spec.origin).read_text(encoding="utf-8") if spec and spec.origin else ""
    text = ast.get_docstring(ast.parse(code)) or ""
    rows = re.findall(r"^ {4}(\S+) +(\S.*(?:\n {5,}\S.*)*)$", text, re.MULTILINE)
    return {key: " ".join(meaning.split()) for key, meaning in rows}


def check_metrics(names: Iterable[str]) -> None:
    """Check that health rules name documented metrics or patterns.

    Raises:
        UnknownNameError: the glossary lacks a metric; the message suggests the nearest one.
    """
    tables = _all_metric_tables()
    unknown_names = [name for name in names if not _is_documented(name, tables)]
    all_tables = glossary() if unknown_names else tables  # the glossary imports all losses
    for name in unknown_names:
        if not _is_documented(name, all_tables):
            raise UnknownNameError(
                "metric of a health rule",
                name,
                all_tables,
                "`sparring list metrics` has all of them.",
            )


def _is_documented(name: str, patterns: Iterable[str]) -> bool:
    return any(name == pattern or fits(pattern, name) for pattern in patterns)
