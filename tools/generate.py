"""Write the generated parts of the documentation; with --check, fail if any of them is stale or a link leads nowhere.

Pages per method come from docstrings and signatures, docs/config.md from the configuration's schema, docs/metrics.md
from the modules that make metrics, docs/methods.md and docs/environments.md from the registry, the tests and the recipes,
and tables of measurements on any page from benchmarks/results (tools/measured.py).
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

import credit_pages
import measured
import self_play_page
from pages import config_page, method_page, metrics_page, prose, table

from sparring.config.plugins import registry
from sparring.config.plugins.plugin import package_of
from sparring.config.plugins.registry import load_part
from sparring.config.recipe import load_recipe, recipe_names
from sparring.core.errors import SparringError
from sparring.environments.catalogue import make_game
from sparring.report.explanations import METHOD_SLOTS

ROOT = Path(__file__).resolve().parents[1]
README_BYTES = 12_000  # two screens


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
    claimed = set(re.findall(r"tests/\S+?\.py", text))
    name, package = plugin.name, package_of(plugin.slot).removeprefix("sparring.")
    own_tests = (f"/test_{name}.py", f"tests/{package.replace('.', '/')}/{name}/")
    about = {
        path for path in tests if path.endswith(own_tests[0]) or path.startswith(own_tests[1])
    } | (claimed & tests.keys())
    if about:
        return files(about)
    users = {
        path
        for path, source in tests.items()
        if {(plugin.slot, name), (package, name)} & mentioned(source)
    }
    return f"used in {files(users)}" if users else "none"


@cache
def mentioned(source: str) -> set[tuple[str, str]]:
    """Return the slots and names of plug-ins that a test file binds or imports."""
    bound = re.findall(r'"([\w.]+)", (?="(\w+)")', source)
    standard = re.findall(r"sparring\.([\w.]+)\.standard import (\w+)", source)
    return {
        *bound,
        *standard,
        *re.findall(r"sparring\.([\w.]+)\.(\w+) import", source),
        *re.findall(r"sparring\.([\w.]+) import (\w+)", source),
    }


def files(names: set[str]) -> str:
    """Return the number of some files in words."""
    return f"{len(names)} file{'s' * (len(names) > 1)}"


def environments_page() -> str:
    """Return the page of all environments."""
    rows = [("environment", "seats", "hidden information", "payoffs", "solver", "recipes", "tests")]
    trained = {
        name: {game["name"] for game in load_recipe(name)["environments"]}
        for name in recipe_names()
    }
    for name in registry.built_in("environments"):
        game = make_game(name)
        hidden = "no" if getattr(game, "perfect_information", False) else "yes"
        payoffs = (
            "zero-sum" if game.zero_sum else "cooperative" if game.cooperative else "general-sum"
        )
        golden = (
            ", golden playthrough"
            if (ROOT / "tests" / "golden" / f"game_{name}.txt").exists()
            else ""
        )
        using = sorted(
            (recipe for recipe in trained if name in trained[recipe]),
            key=lambda recipe: (recipe.count("/"), recipe),
        )
        recipes = ", ".join(f"`{recipe}`" for recipe in using[:3]) + (
            f" and {len(using) - 3} more" if len(using) > 3 else ""
        )
        tested = status(registry.load("environments", name), test_texts()) + golden
        rows.append(
            (
                f"[`{name}`](methods/environments-{name}.md)",
                seats(name),
                hidden,
                payoffs,
                solver_of(name),
                recipes or "-",
                tested,
            )
        )
    intro = [
        "Generated from the code; names in code say *game*. Each name links to a page with the rules, exact values, the options",
        "and a sample episode; `sparring explain NAME` prints the same. *Solver* names the oracle that uses the environment's own solver.",
        "",
        "You can also use any other sequential game of OpenSpiel by its name, with generic wording. In simultaneous games of OpenSpiel the seats act in turn.",
        "Your own environment consists of two classes: see [your own plug-in](your-own.md#an-environment). Every environment has a picture: [here are some](your-own.md#the-picture-of-an-environment).",
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


def pages() -> dict[Path, str]:
    """Return every generated file and what it should hold."""
    docs = ROOT / "docs"
    texts = {docs / "config.md": config_page(), docs / "metrics.md": metrics_page()}
    texts |= {docs / "methods.md": methods_page(), docs / "environments.md": environments_page()}
    texts |= {
        credit_pages.LAB: credit_pages.lab_page(),
        credit_pages.RACE: credit_pages.race_page(),
    }
    texts[self_play_page.PAGE] = self_play_page.page()
    for slot in ("environments", *METHOD_SLOTS):
        for name in registry.built_in(slot):
            texts[docs / "methods" / f"{slot}-{name}.md"] = method_page(registry.load(slot, name))
    for page in written_pages():
        text = texts.get(page) or page.read_text(encoding="utf-8")
        if "<!-- table: " in text or "<!-- figure: " in text:
            texts[page] = measured.filled(text, measured.made())
    return texts


def written_pages() -> list[Path]:
    """Return every page of the project that may hold measurements; those of methods hold none."""
    top = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "benchmarks").glob("*.md")]
    return sorted([*top, *(ROOT / "studies").glob("*/page.md")])


def too_long(readme: str) -> str:
    """Return what is wrong with a README of more than two screens, or ""."""
    size = len(readme.encode())
    return (
        f"README.md has {size:,} bytes, and {README_BYTES:,} at most are wanted; move some to docs/."
        if size > README_BYTES
        else ""
    )


def broken_links(text: str, folder: Path) -> list[str]:
    """Return the relative links of a page in ``folder`` that lead nowhere."""
    targets = re.findall(
        r"\]\(([^)#\s]+)", re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    )
    return [target for target in targets if "://" not in target and not (folder / target).exists()]


def main() -> None:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if anything is stale")
    check = parser.parse_args().check
    texts = pages()
    stale = [
        path
        for path, text in texts.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    extra = [path for path in (ROOT / "docs" / "methods").glob("*.md") if path not in texts]
    if not check:
        (ROOT / "docs" / "methods").mkdir(exist_ok=True)
        for path in stale:
            path.write_text(texts[path], encoding="utf-8")
        for path in extra:
            path.unlink()
    every = [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "benchmarks").glob("*.md"),
    ]
    broken = {
        str(page.relative_to(ROOT)): broken_links(page.read_text(encoding="utf-8"), page.parent)
        for page in every
    }
    broken = {page: links for page, links in broken.items() if links}
    if check and (stale or extra):
        sys.exit(
            f"Stale: {', '.join(str(path.relative_to(ROOT)) for path in stale + extra)}. Run `make docs`."
        )
    if long := too_long((ROOT / "README.md").read_text(encoding="utf-8")):
        sys.exit(long)
    if broken:
        sys.exit(f"Links that lead nowhere: {broken}.")


if __name__ == "__main__":
    main()
