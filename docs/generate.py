"""Write the generated parts of the documentation; with --check, fail if any of them is stale or a link leads nowhere.

Pages per method come from docstrings and signatures, docs/config.md from the configuration's schema, docs/metrics.md
from the modules that make metrics, the tables of README.md from the registry, the tests and the recipes, and tables of
measurements on any page from benchmarks/results (docs/measured.py).
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
from pages import config_page, method_page, metrics_page, prose, table

from sparring import registry
from sparring.errors import SparringError
from sparring.games.catalogue import make_game
from sparring.recipe import load_recipe, recipe_names
from sparring.report.catalogue import METHOD_SLOTS

ROOT = Path(__file__).resolve().parents[1]


def methods_table() -> str:
    """Return the table of methods for the README."""
    rows = [("slot", "method", "what it does", "status")]
    for slot in METHOD_SLOTS:
        for name in registry.built_in(slot):
            plugin = registry.load(slot, name)
            link = f"[`{name}`](docs/methods/{slot}-{name}.md)"
            rows.append((registry.SLOTS[slot], link, prose(plugin.summary), status(plugin, test_texts())))
    return "\n".join(table(*rows))


@cache
def test_texts() -> dict[str, str]:
    """Return the text of every test file, by its path below the project."""
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").rglob("test_*.py"))}


def status(plugin: registry.Plugin, tests: dict[str, str]) -> str:
    """Return how a plug-in is verified: tests about it, else tests that use it; and whether it has known pitfalls."""
    text = inspect.getdoc(plugin.function) or ""
    claimed = set(re.findall(r"tests/\S+?\.py", text))
    about = {path for path in tests if path.endswith(f"/test_{plugin.name}.py")} | (claimed & tests.keys())
    slot, name = plugin.slot, plugin.name
    mention = re.compile(rf'"{slot}", "{name}"|sparring\.{slot}\.{name} import|sparring\.{slot} import {name}\b')
    users = {path for path, source in tests.items() if mention.search(source)}
    if about:
        state = f"{len(about)} test file{'s' * (len(about) > 1)}"
    else:
        state = f"used in {len(users)} test file{'s' * (len(users) > 1)}" if users else "not tested"
    return state + (f", [known pitfalls](docs/methods/{slot}-{name}.md)" if "\nPitfalls:" in text else "")


def games_table() -> str:
    """Return the table of games for the README."""
    rows = [("game", "seats", "hidden information", "payoffs", "recipes", "status")]
    trained = {name: {game["name"] for game in load_recipe(name)["games"]} for name in recipe_names()}
    for name in registry.built_in("games"):
        game = make_game(name)
        kind = game.spiel.get_type()
        hidden = "no" if kind.information == kind.information.PERFECT_INFORMATION else "yes"
        payoffs = "zero-sum" if game.zero_sum else "cooperative" if game.cooperative else "general-sum"
        golden = ", golden playthrough" if (ROOT / "tests" / "golden" / f"game_{name}.txt").exists() else ""
        using = sorted((recipe for recipe in trained if name in trained[recipe]), key=lambda recipe: (recipe.count("/"), recipe))
        recipes = ", ".join(f"`{recipe}`" for recipe in using[:3]) + (f" and {len(using) - 3} more" if len(using) > 3 else "")
        tested = status(registry.load("games", name), test_texts()) + golden
        rows.append((f"[`{name}`](docs/methods/games-{name}.md)", seats(name), hidden, payoffs, recipes or "-", tested))
    return "\n".join(table(*rows))


def seats(name: str) -> str:
    """Return the numbers of seats a game can be played with."""
    if "players" not in registry.load("games", name).options:
        return str(make_game(name).num_seats)
    found = []
    for players in range(2, 6):
        with contextlib.suppress(SparringError):
            make_game(name, options={"players": players})
            found.append(str(players))
    return ", ".join(found)


def pages() -> dict[Path, str]:
    """Return every generated file and what it should hold."""
    found = {ROOT / "docs" / "config.md": config_page(), ROOT / "docs" / "metrics.md": metrics_page()}
    found |= {credit_pages.LAB: credit_pages.lab_page(), credit_pages.RACE: credit_pages.race_page()}
    for slot in ("games", *METHOD_SLOTS):
        for name in registry.built_in(slot):
            found[ROOT / "docs" / "methods" / f"{slot}-{name}.md"] = method_page(registry.load(slot, name))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found[ROOT / "README.md"] = filled(readme, {"methods": methods_table(), "games": games_table()})
    for page in written_pages():
        text = found.get(page) or page.read_text(encoding="utf-8")
        if "<!-- table: " in text or "<!-- figure: " in text:
            found[page] = measured.filled(text, measured.made())
    return found


def written_pages() -> list[Path]:
    """Return every page of the project that may hold measurements; those of methods hold none."""
    top = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "benchmarks").glob("*.md")]
    return sorted([*top, *(ROOT / "docs" / "reproduction").glob("*.md")])


def filled(text: str, parts: dict[str, str]) -> str:
    """Return a page with what stands between <!-- NAME --> and <!-- /NAME --> replaced.

    Raises:
        ValueError: a pair of markers is missing, so that nothing would be written.
    """
    for name, part in parts.items():
        opening, closing = f"<!-- {name} -->\n", f"\n<!-- /{name} -->"
        before, found, rest = text.partition(opening)
        _, found_too, after = rest.partition(closing)
        if not (found and found_too):
            raise ValueError(f"README.md lacks the lines <!-- {name} --> and <!-- /{name} -->, between which its table belongs.")
        text = before + opening + part + closing + after
    return text


def broken_links(text: str, folder: Path) -> list[str]:
    """Return the relative links of a page in ``folder`` that lead nowhere."""
    targets = re.findall(r"\]\(([^)#\s]+)", re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL))
    return [target for target in targets if "://" not in target and not (folder / target).exists()]


def main() -> None:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if anything is stale")
    check = parser.parse_args().check
    wanted = pages()
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    extra = [path for path in (ROOT / "docs" / "methods").glob("*.md") if path not in wanted]
    if not check:
        (ROOT / "docs" / "methods").mkdir(exist_ok=True)
        for path in stale:
            path.write_text(wanted[path], encoding="utf-8")
        for path in extra:
            path.unlink()
    every = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")]
    broken = {str(page.relative_to(ROOT)): broken_links(page.read_text(encoding="utf-8"), page.parent) for page in every}
    broken = {page: links for page, links in broken.items() if links}
    if check and (stale or extra):
        sys.exit(f"Stale: {', '.join(str(path.relative_to(ROOT)) for path in stale + extra)}. Run `make docs`.")
    if broken:
        sys.exit(f"Links that lead nowhere: {broken}.")


if __name__ == "__main__":
    main()
