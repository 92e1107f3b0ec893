"""Write the tables and figures of the pages from their results files; with --check, fail if a page is stale.

`reference_pages` has the pages that only the site has (tools/build_site.py): one per method from its docstring, the
configuration from its schema, metrics from the modules that write them, methods and environments from the registry.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import re
import sys
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import measured
from pages import commands_page, config_page, method_page, metrics_page, prose, table

import sparring
import sparring.testing
from sparring.config.plugins import registry
from sparring.config.plugins.plugin import package_of
from sparring.config.plugins.registry import load_part
from sparring.config.recipe import load_recipe, recipe_names
from sparring.core.errors import SparringError
from sparring.environments.catalogue import make_game
from sparring.report.explanations import METHOD_SLOTS
from studies.self_play import tables as self_play

ROOT = Path(__file__).resolve().parents[1]
SELF_PLAY = ROOT / "studies" / "self_play" / "page.md"  # made as a whole
README_BYTES = 12_000  # two screens
API = {  # heading -> public names
    "Functions": [f"{getattr(sparring, name).__module__}.{name}" for name in sparring.__all__],
    "Records": [f"sparring.core.records.{name}" for name in ("Episode", "Turn", "Segment")],
    "Environments": [
        f"sparring.environments.base.{name}"
        for name in ("Environment", "Play", "Searchable", "Observation")
    ],
    "Checks of plug-ins": [
        f"{getattr(sparring.testing, name).__module__}.{name}" for name in sparring.testing.__all__
    ],
}


def methods_page() -> str:
    """Return the page of all methods: a table per slot."""
    intro = [
        "Generated from the code. Each name links to a page with the mathematics, the options, the presets and the known pitfalls;",
        "`sparring explain NAME` prints the same, and `sparring list methods` prints these lists. [Finding methods](finding-methods.md)",
        "is sorted by the names of the literature. There are separate pages for [environments](environments.md) and for",
        "[your own plug-ins](your-own.md). After each number you see the key of [the configuration](config.md).",
    ]
    contents, tables = [], []
    for slot in METHOD_SLOTS:
        names, title = registry.built_in(slot), plural(registry.SLOTS[slot]).capitalize()
        key = f", `{registry.KEYS[slot].replace(', ', '`, `')}`" if slot in registry.KEYS else ""
        contents.append(f"- [{title}](#{title.lower().replace(' ', '-')}): {len(names)}{key}")
        rows = [(f"[`{name}`](methods/{slot}-{name}.md)", *summary(slot, name)) for name in names]
        tables += ["", f"## {title}", "", *table(("name", "what it does", "tests"), *rows)]
    return "\n".join(["# Methods", "", *intro, "", *contents, *tables]) + "\n"


def summary(slot: str, name: str) -> tuple[str, str]:
    """Return what a plug-in does, in a line, and how it is tested."""
    plugin = registry.load(slot, name)
    return prose(plugin.summary), status(plugin, test_texts())


def plural(name: str) -> str:
    """Return the plural of a slot's name."""
    if name == "curriculum":
        return "curricula"
    return (
        f"{name}es"
        if name.endswith("s")
        else f"{name.removesuffix('y')}ies"
        if name.endswith("egy")
        else f"{name}s"
    )


@cache
def test_texts() -> dict[str, str]:
    """Return the text of every test file, by its path below the project."""
    return {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
    }


def status(plugin: registry.Plugin, tests: dict[str, str]) -> str:
    """Return how a plug-in is tested: by files about it, else by files that use it."""
    text = inspect.getdoc(plugin.function) or ""
    named_files = set(re.findall(r"tests/\S+?\.py", text))
    name, package = plugin.name, package_of(plugin.slot).removeprefix("sparring.")
    name_patterns = (f"/test_{name}.py", f"tests/{package.replace('.', '/')}/{name}/")
    test_files = {
        path
        for path in tests
        if path.endswith(name_patterns[0]) or path.startswith(name_patterns[1])
    } | (named_files & tests.keys())
    if test_files:
        return files(test_files)
    users = {
        path
        for path, source in tests.items()
        if {(plugin.slot, name), (package, name)} & plugins_in(source)
    }
    return f"used in {files(users)}" if users else "none"


@cache
def plugins_in(source: str) -> set[tuple[str, str]]:
    """Return the slots and names of plug-ins that a test file binds or imports."""
    bound_plugins = re.findall(r'"([\w.]+)", (?="(\w+)")', source)
    standard_plugins = re.findall(r"sparring\.([\w.]+)\.standard import (\w+)", source)
    return {
        *bound_plugins,
        *standard_plugins,
        *re.findall(r"sparring\.([\w.]+)\.(\w+) import", source),
        *re.findall(r"sparring\.([\w.]+) import (\w+)", source),
    }


def files(names: set[str]) -> str:
    """Return the number of some files in words."""
    return f"{len(names)} file{'s' * (len(names) > 1)}"


def environments_page() -> str:
    """Return the page of all environments."""
    rows = [("environment", "seats", "hidden information", "payoffs", "solver", "recipes", "tests")]
    games_of_recipe = {
        name: {game["name"] for game in load_recipe(name)["environments"]}
        for name in recipe_names()
    }
    for name in registry.built_in("environments"):
        game = make_game(name)
        hidden = "no" if getattr(game, "perfect_information", False) else "yes"
        payoffs = (
            "zero-sum" if game.zero_sum else "cooperative" if game.cooperative else "general-sum"
        )
        golden_note = (
            ", golden playthrough"
            if (ROOT / "tests" / "golden" / f"game_{name}.txt").exists()
            else ""
        )
        recipes_of_game = sorted(
            (recipe for recipe in games_of_recipe if name in games_of_recipe[recipe]),
            key=lambda recipe: (recipe.count("/"), recipe),
        )
        recipes = ", ".join(f"`{recipe}`" for recipe in recipes_of_game[:3]) + (
            f" and {len(recipes_of_game) - 3} more" if len(recipes_of_game) > 3 else ""
        )
        test_status = status(registry.load("environments", name), test_texts()) + golden_note
        rows.append(
            (
                f"[`{name}`](methods/environments-{name}.md)",
                seats(name),
                hidden,
                payoffs,
                solver_of(name),
                recipes or "-",
                test_status,
            )
        )
    intro = [
        "Generated from the code; names in code say *game*. Each name links to a page with the rules, exact values, the options",
        "and a sample episode; `sparring explain NAME` prints the same. *Solver* names the oracle that uses the environment's own solver.",
        "",
        "You can also use any other sequential game of OpenSpiel by its name, with generic wording. In simultaneous games of OpenSpiel the seats act in turn.",
        "[Bridges](bridges.md) play the environments of TextArena, PettingZoo, Gymnasium and reasoning-gym, and files of prompts.",
        "Your own environment consists of two classes: see [your own environment](your-environment.md). Every environment has a picture: [here are some](your-environment.md#the-picture-of-an-environment).",
    ]
    return "\n".join(["# Environments", "", *intro, "", *table(*rows)]) + "\n"


def solver_of(name: str) -> str:
    """Return the oracle that asks an environment's solver, with a link to what the solver does."""
    solver = load_part("environments", name, "solver")
    return (
        "-"
        if solver is None
        else f"[`{solver.module.ORACLE}`](methods/environments-{name}.md#solver)"
    )


def seats(name: str) -> str:
    """Return the numbers of seats a game can be played with."""
    if "players" not in registry.load("environments", name).options:
        return str(make_game(name).num_seats)
    counts = []
    for players in range(2, 6):
        with contextlib.suppress(SparringError):
            make_game(name, options={"players": players})
            counts.append(str(players))
    return ", ".join(counts)


def api_page() -> str:
    """Return the page of the public Python names; mkdocstrings writes each from its docstring."""
    lines = [
        "# Python reference",
        "",
        "Generated from the code. [From Python](api.md) shows how these work together.",
    ]
    for title, names in API.items():
        lines += ["", f"## {title}"]
        for name in names:
            lines += ["", f"::: {name}"]
    return "\n".join(lines) + "\n"


def reference_pages() -> dict[str, str]:
    """Return the pages of the site that come from the code, by their paths in the project."""
    texts = {
        "docs/api-reference.md": api_page(),
        "docs/commands.md": commands_page(),
        "docs/config.md": config_page(),
        "docs/environments.md": environments_page(),
        "docs/methods.md": methods_page(),
        "docs/metrics.md": metrics_page(),
    }
    for slot in ("environments", *METHOD_SLOTS):
        for name in registry.built_in(slot):
            texts[f"docs/methods/{slot}-{name}.md"] = method_page(registry.load(slot, name))
        for name in registry.bridges(slot):
            texts[f"docs/methods/{slot}-{name}.md"] = method_page(registry.load(slot, name))
    return texts


def pages() -> dict[Path, str]:
    """Return every committed page with generated parts, and its text."""
    texts = {SELF_PLAY: self_play.page(measured.results("self-play"))}
    texts |= {
        ROOT / name: draw()
        for name, draw in measured.marker_functions().items()
        if name.endswith(".svg")
    }
    for page in committed_pages():
        text = texts.get(page) or page.read_text(encoding="utf-8")
        if "<!-- table: " in text or "<!-- figure: " in text:
            texts[page] = measured.fill_markers(text, measured.marker_functions())
    return texts


def committed_pages() -> list[Path]:
    """Return every committed page of the project."""
    patterns = ("*.md", "docs/*.md", "studies/*/page.md", "studies/log/*.md", "benchmarks/*.md")
    return sorted(path for pattern in patterns for path in ROOT.glob(pattern))


def too_long(readme: str) -> str:
    """Return what is wrong with a README of more than two screens, or ""."""
    size = len(readme.encode())
    return (
        f"README.md has {size:,} bytes, and {README_BYTES:,} at most are wanted; move some to docs/."
        if size > README_BYTES
        else ""
    )


def main() -> None:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if anything is stale")
    check = parser.parse_args().check
    stale = {
        path: text
        for path, text in pages().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }
    if check and stale:
        names = ", ".join(path.relative_to(ROOT).as_posix() for path in stale)
        sys.exit(f"Stale: {names}. Run `make docs`.")
    for path, text in stale.items():
        path.write_text(text, encoding="utf-8")
    if long := too_long((ROOT / "README.md").read_text(encoding="utf-8")):
        sys.exit(long)


if __name__ == "__main__":
    main()
