"""The pages that are made from code: one per plug-in, the configuration, the commands and the metrics."""

from __future__ import annotations

import inspect
import itertools
import json
import re
import textwrap
import typing
from pathlib import Path
from typing import Any

import typer
import yaml
from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typer.cli import get_docs_for_click

from sparring.cli import app
from sparring.cli.bridge import MARKS
from sparring.cli.verbs import VERBS, command_of
from sparring.config import PluginConfig, RunConfig
from sparring.config.plugins import registry
from sparring.config.plugins.registry import load_part
from sparring.environments.catalogue import make_game
from sparring.environments.foreign import reason_not_searchable as is_open
from sparring.methods.oracles.solvers import games_of_oracle
from sparring.report import game_page
from sparring.report.explanations import glossary
from sparring.report.game_page import first_prompts, format_random_sample

HEADINGS = (
    "What",
    "When to use",
    "Mathematics",
    "Shapes",
    "Options",
    "Pitfalls",
    "Metrics",
    "Reference",
    "Verified by",
    "Args",
    "Raises",
)
NEW_PARAGRAPH = "\n\n"
EQUATION = "    "  # how a line begins that is an equation of its own
AS_WRITTEN = (
    "Mathematics",
    "Verified by",
    "Metrics",
    "Raises",
)  # sections that do not begin with a capital
SLOT_OF = {
    "renderer": "render",
    "context": "context",
    "sampler": "samplers",
    "matchmaker": "league.matchmakers",
    "curriculum": "selection.curricula",
    "replay": "selection.replay",
    "plan": "rollout.plans",
    "keeping": "league.keeping",
    "schedule": "league.schedules",
    "sinks": "run.sinks",
    "losses": "losses",
    "opponents": "players",
    "bots": "players",
    "player": "players",
    "oracle": "oracles",
    "embedding": "knowledge.embeddings",
}
BOUNDS = {Ge: "at least", Gt: "above", Le: "at most", Lt: "below"}


def table(*rows: tuple[str, ...]) -> list[str]:
    """Return rows (the first one is the head) as lines of a Markdown table."""
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    head, *body = ["| " + " | ".join(row) + " |" for row in cells]
    return [head, "|" + "---|" * len(rows[0]), *body]


def prose(text: str) -> str:
    """Return docstring text as Markdown: ``code`` becomes `code`, and nothing else turns into markup."""
    parts = re.split(r"(``.+?``|`[^`]+`)", text)
    plain_parts = [
        re.sub(r"\*|<(?=[A-Za-z/!?])|\b_\B|\B_\b", r"\\\g<0>", part) for part in parts[::2]
    ]
    code_parts = [f"`{part.strip('`')}`" for part in parts[1::2]]
    return "".join(
        part for pair in zip(plain_parts, [*code_parts, ""], strict=True) for part in pair
    )


def sections(docstring: str) -> dict[str, str]:
    """Return a docstring cut at its headings; the text before the first one stands under ''."""
    parts = re.split(rf"^({'|'.join(HEADINGS)}):[ \n]", docstring, flags=re.MULTILINE)
    parts_by_name = dict(zip(parts[1::2], parts[2::2], strict=True))
    return {
        "": parts[0].strip(),
        **{
            name: text.rstrip() if name == "Mathematics" else _flush(text)
            for name, text in parts_by_name.items()
        },
    }


def _flush(text: str) -> str:
    """Return a section without the margin that all its lines have; its first line may stand beside the heading, and has none."""
    return inspect.cleandoc(f"\n{text}" if text.startswith(" ") else text)


def mathematics(text: str) -> str:
    """Return a section in which indented lines are equations: they stand in blocks of their own, the rest is prose."""
    parts: list[str] = []
    for equation, lines in itertools.groupby(
        text.strip("\n").split("\n"), key=lambda line: line.startswith(EQUATION)
    ):
        block = "\n".join(lines)
        parts.append(
            f"```text\n{textwrap.dedent(block).strip()}\n```" if equation else prose(block.strip())
        )
    return "\n\n".join(part for part in parts if part)


def option_meanings(arguments: str) -> dict[str, str]:
    """Return option -> what it means from the lines of an "Args" section."""
    entries = re.findall(r"^(\w+): (.*(?:\n[ \t]+.*)*)", arguments, flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def type_text(hint: Any) -> str:
    """Return a type as people read it."""
    arguments = typing.get_args(hint)
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return " or ".join(f"`{argument}`" for argument in arguments)
    if origin is typing.Annotated:
        return type_text(arguments[0])
    if arguments and origin not in (None, typing.Union) and not isinstance(hint, type(int | str)):
        return f"{origin.__name__}[{', '.join('...' if a is ... else type_text(a) for a in arguments)}]"
    if arguments:
        return " or ".join(type_text(argument) for argument in arguments)
    return "null" if hint is type(None) else getattr(hint, "__name__", str(hint))


def method_page(plugin: registry.Plugin) -> str:
    """Return a plug-in's page: its docstring under headings, its options and presets."""
    path = f"src/{plugin.module.__name__.replace('.', '/')}{'/__init__.py' if hasattr(plugin.module, '__path__') else '.py'}"
    head = [
        f"# {plugin.name}",
        "",
        f"*{registry.SLOTS[plugin.slot]}* · [`{path}`](../../{path})",
        "",
    ]
    middle_lines = [
        *exact_bias(plugin),
        *(_environment_section(plugin.name) if plugin.slot == "environments" else []),
        *solved_games(plugin),
    ]
    lines = [*head, *docstring_lines(plugin, middle_lines)]
    lines += solver_section(plugin.name) if plugin.slot == "environments" else []
    return "\n".join(lines).rstrip() + "\n"


def _environment_section(name: str) -> list[str]:
    return bridge_section(name) if name in registry.bridges("environments") else game_section(name)


def bridge_section(name: str) -> list[str]:
    """Return what `sparring bridge check` found, from the file that it wrote; nothing without one."""
    path = Path(__file__).parents[1] / "studies" / "bridges" / f"check-{name}.json"
    if not path.exists():
        return []
    rows = json.loads(path.read_text(encoding="utf-8"))
    cells = [
        (
            f"`{row['name']}`",
            *(MARKS[row[key]] for key in ("has_seeds", "has_copies", "conforms")),
            f"{row['turns_per_second']:,.0f}" if row["conforms"] else "-",
            prose(row["problem"][:160]),
        )
        for row in rows
    ]
    count = sum(row["conforms"] for row in rows)
    heads = ("id", "seeds bind", "copies are exact", "conforms", "turns/s", "problem")
    text = f"{count} of {len(rows)} conform. Made by `sparring bridge check {name} --json FILE`, by random play."
    return ["", "## Its environments", "", text, "", *table(heads, *cells)]


def docstring_lines(plugin: registry.Plugin, middle_lines: list[str]) -> list[str]:
    """Return a docstring under headings, then these lines, then tables of options and presets."""
    parts = sections(inspect.getdoc(plugin.function) or "")
    lines = [prose(parts.pop(""))]
    meanings = option_meanings(parts.pop("Args", ""))
    for heading, text in parts.items():
        content = prose(text if heading in AS_WRITTEN else text[:1].upper() + text[1:])
        if heading == "Mathematics":
            content = mathematics(text)
        if heading == "Raises":
            content = "; ".join(
                f"`{name}`: {prose(why)}" for name, why in option_meanings(text).items()
            )
        if heading == "Verified by":
            content = re.sub(r"tests/[\w/]+\.py", r"[`\g<0>`](../../\g<0>)", text)
        lines += [
            "",
            f"**{heading}.**{NEW_PARAGRAPH if content.startswith(('```', '- ')) else ' '}{content}",
        ]
    lines += middle_lines
    hints = typing.get_type_hints(plugin.function)
    rows = [
        (
            f"`{name}`",
            type_text(hints[name]),
            "required" if parameter.default is parameter.empty else f"`{parameter.default!r}`",
            prose(meanings.get(name, "")),
        )
        for name, parameter in plugin.options.items()
        if not callable(parameter.default) or parameter.default is parameter.empty
    ]
    lines += ["", *table(("option", "type", "default", "what"), *rows)] if rows else []
    presets = [
        (f"`{name}`", ", ".join(f"`{key}={value}`" for key, value in values.items()))
        for name, values in plugin.presets.items()
    ]
    lines += ["", *table(("preset", "sets"), *presets)] if presets else []
    return lines


def solver_section(name: str) -> list[str]:
    """Return what a game's solver says of itself; nothing where the game has none."""
    solver = load_part("environments", name, "solver")
    if solver is None:
        return []
    path, oracle = f"src/sparring/environments/{name}/solver.py", solver.module.ORACLE
    link = f"[`{path}`](../../{path}), asked by oracle [`{oracle}`](oracles-{oracle}.md)."
    return ["", "## Solver", "", link, "", *docstring_lines(solver, [])]


def solved_games(plugin: registry.Plugin) -> list[str]:
    """Return a line on the games whose solvers an oracle asks; nothing for other plug-ins."""
    names = games_of_oracle(plugin.name) if plugin.slot == "oracles" else ()
    links = ", ".join(f"[`{name}`](environments-{name}.md#solver)" for name in names)
    return ["", f"**Games with a solver.** {links}."] if names else []


def game_section(name: str) -> list[str]:
    """Return the rules of a game, its exact values, the recipes that train on it, and a sample play."""
    if is_open(make_game(name)):
        return open_section(name)
    play, exact, recipes = (
        game_page.sample_play(name),
        game_page.format_exact_values(name),
        game_page.recipes_for_game(name),
    )
    lines = ["", "## Rules", "", prose(game_page.rules_text(name))]
    lines += ["", "## Exact values", "", prose(exact)] if exact else []
    lines += (
        ["", "Recipes that train on it: " + ", ".join(f"`{recipe}`" for recipe in recipes) + "."]
        if recipes
        else []
    )
    introduction = f"With default options, {play.chooser}, always the same, as the seats see it. In brief style the first turn"
    lines += [
        "",
        "## A sample play",
        "",
        f"{introduction} reads `{play.brief}`.",
        "",
        "```text",
        *game_page.format_sample(play),
        "```",
    ]
    return [*lines, "", "## Options"]


def open_section(name: str) -> list[str]:
    """Return what each seat of an environment without searchable rules is told, the recipes that train on it, and a sample play."""
    recipes = game_page.recipes_for_game(name)
    lines = ["", "## The first turns", "", "```text", *first_prompts(name), "```"]
    lines += (
        ["", "Recipes that train on it: " + ", ".join(f"`{recipe}`" for recipe in recipes) + "."]
        if recipes
        else []
    )
    lines += [
        "",
        "## A sample play",
        "",
        "With default options, replies at random, always the same, as the seats see it.",
        "",
    ]
    return [*lines, "```text", *format_random_sample(name).split("\n"), "```", "", "## Options"]


def exact_bias(plugin: registry.Plugin) -> list[str]:
    """Return the lines on an estimator's exact bias, of it and of its presets; none for other plug-ins."""
    if plugin.slot != "credit":
        return []
    bias_of: dict[str, float] = json.loads(
        (Path(__file__).parents[1] / "tests" / "data" / "exact-bias.json").read_text(
            encoding="utf-8"
        )
    )
    names = {
        plugin.name: "",
        **{f"{plugin.name}:{preset}": f"preset `{preset}` " for preset in plugin.presets},
    }
    biases = [
        f"{label}{bias_text(bias_of[name])}" for name, label in names.items() if name in bias_of
    ]
    if not biases:
        return ["", "**Exact bias on the variable-length game:** not computed."]
    source = "tests/methods/credit/test_exact_bias.py"
    method = (
        f"The mean gradient of groups of three, by enumeration, with the truth in every column that the estimator reads and a judge's "
        f"reward on top for those that read one; the game and the sums are in [`{source}`](../../{source}). A learning rate can mend a "
        f"positive factor, here and not in games with more than one parameter."
    )
    return ["", f"**Exact bias on the variable-length game:** {'; '.join(biases)}. {method}"]


def bias_text(share: float) -> str:
    """Return what an expected gradient that is this share of the exact one means."""
    if share == 1.0:
        return "none (the expected gradient is the exact one)"
    remark = ", the wrong way" if share < 0 else ", no gradient at all" if share == 0 else ""
    return f"{100 * (share - 1):+.3g} % (the expected gradient is {share:.3g} times the exact one{remark})"


def field_type(name: str, field: FieldInfo) -> str:
    """Return a configuration field's type, with its limits."""
    if any(
        getattr(getattr(item, "func", None), "__module__", "") == "sparring.config.parts"
        for item in field.metadata
    ):
        return "number or schedule"
    inner = section_of(field)
    if inner is not None and issubclass(inner, PluginConfig):
        kind = registry.SLOTS[SLOT_OF.get(name, name)]
        if typing.get_origin(field.annotation) is dict:
            return f"map from names to {kind}s"
        return (
            {"loss": "list of losses"}.get(kind, f"list of {kind}s")
            if typing.get_origin(field.annotation) is list
            else kind
        )
    if inner is not None:
        return {list: "list of sections", dict: "map from names to sections"}.get(
            typing.get_origin(field.annotation), "section"
        )
    limits = [
        f"{BOUNDS[type(item)]} {bound(item)}" for item in field.metadata if type(item) in BOUNDS
    ]
    return ", ".join([type_text(field.annotation), *limits])


def bound(item: Any) -> Any:
    """Return the number of a limit such as Ge(1)."""
    return next(getattr(item, key) for key in ("ge", "gt", "le", "lt") if hasattr(item, key))


def section_of(field: FieldInfo) -> type[BaseModel] | None:
    """Return the section a field holds, alone or in a list, or None."""
    candidates = (field.annotation, *typing.get_args(field.annotation))
    return next(
        (item for item in candidates if isinstance(item, type) and issubclass(item, BaseModel)),
        None,
    )


def config_page() -> str:
    """Return the reference of every configuration key."""
    lines = [
        "# Configuration",
        "",
        "Generated from `src/sparring/config/`. A recipe is a YAML mapping of these keys; `extends: NAME` begins from another recipe,",
        "and `a.b=c` on the command line changes a key (`losses.1.weight=0.1` an item of a list). Unknown keys are errors that name the",
        "nearest right one. A *schedule* is one of",
        "",
        "```yaml",
        "{schedule: linear, start: 0.15, end: 0.01, until: 0.8}   # reaches its end at 80 % of the steps",
        "{schedule: cosine, start: 0.003, end: 0.0, rise: 0.05}   # climbs from 0 in the first 5 % (warm-up)",
        "{schedule: staircase, values: [0.1, 0.03, 0.01], at: [0.5, 0.8]}",
        "```",
        "",
        "A plug-in is written `{name: NAME, preset: PRESET, option: value, ...}`: its options are further keys, each on its own page",
        "in `methods/`, and every number among them may be a schedule. A text says the same: `NAME:PRESET option=value ...`, so that",
        "`sparring train kuhn-tiny credit=rae` is enough. Suites and the command line take both.",
        "",
    ]
    pending: list[tuple[str, type[BaseModel]]] = [("", RunConfig)]
    while pending:
        name, section = pending.pop(0)
        lines += [
            f"## {name or 'top level'}",
            "",
            (inspect.getdoc(section) or "").split("\n")[0],
            "",
        ]
        lines += [*config_table(section), ""]
        for key, field in section.model_fields.items():
            inner = (
                None if name == "policies" and key in RunConfig.model_fields else section_of(field)
            )  # as the run's own
            if inner is not None and (
                not issubclass(inner, PluginConfig)
                or inner.model_fields.keys() - PluginConfig.model_fields.keys()
            ):
                pending.append((f"{name}.{key}".lstrip("."), inner))
    return "\n".join(lines).rstrip() + "\n"


def config_table(section: type[BaseModel]) -> list[str]:
    """Return the table of a section's keys."""
    rows = []
    for key, field in section.model_fields.items():
        inner = section_of(field)
        plugin, what = (
            inner is not None and issubclass(inner, PluginConfig),
            field.description or "",
        )
        if field.is_required():
            default = "required"
        elif inner is not None and not plugin:
            default, what = "see below", what or (inspect.getdoc(inner) or "").split("\n")[0]
        else:
            default = f"`{format_default(field.get_default(call_default_factory=True))}`"
        if plugin:
            what = "; ".join(
                part
                for part in (what, f"`sparring list {SLOT_OF.get(key, key)}` names all")
                if part
            )
        rows.append((f"`{key}`", field_type(key, field), default, what))
    return table(("key", "type", "default", "what"), *rows)


def format_default(value: Any) -> str:
    """Return a default as one would write it."""
    if isinstance(value, PluginConfig):
        return value.name
    if isinstance(value, list):
        return "[" + ", ".join(format_default(item) for item in value) + "]"
    return yaml.safe_dump(
        list(value) if isinstance(value, tuple) else value, default_flow_style=True
    ).split("\n")[0]


def metrics_page() -> str:
    """Return the glossary of metrics."""
    rows = [(f"`{name}`", prose(meaning)) for name, meaning in glossary().items()]
    intro = [
        "Generated from the modules that make them. Parts in capitals stand for names; `sparring explain METRIC` shows one.",
        "`metrics.jsonl` holds what is a function of configuration, seed and code; `timing.jsonl` the seconds and rates.",
    ]
    return "\n".join(["# Metrics", "", *intro, "", *table(("metric", "meaning"), *rows)]) + "\n"


def commands_page() -> str:
    """Return the reference of the command line, as Typer writes it."""
    command = typer.main.get_command(app)
    command.commands = {verb: command_of(verb) for verb in VERBS}
    return get_docs_for_click(
        obj=command, ctx=typer.Context(command), name="sparring", title="Commands"
    )
