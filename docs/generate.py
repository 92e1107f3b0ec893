"""Write the generated parts of the documentation; with --check, fail if any of them is stale.

Pages per method come from docstrings and signatures, docs/config.md from the configuration's schema, docs/metrics.md
from the modules that make metrics, and the tables of README.md from the registry.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import re
import sys
from pathlib import Path

from pydantic import BaseModel

from sparring import registry
from sparring.config import RunConfig, load_recipe, recipe_names
from sparring.errors import SparringError
from sparring.games.catalogue import make_game
from sparring.report.catalogue import METHOD_SLOTS, glossary, options_of

ROOT = Path(__file__).resolve().parents[1]
HEADINGS = ("What", "When to use", "Mathematics", "Shapes", "Options", "Pitfalls", "Metrics", "Reference", "Verified by", "Raises")


def method_page(plugin: registry.Plugin) -> str:
    """Return a plug-in's page: its docstring with headings, then options and presets."""
    text = inspect.getdoc(plugin.function) or ""
    for heading in HEADINGS:
        text = re.sub(rf"\n*^{heading}:\s+(\S)", lambda m, h=heading: f"\n\n**{h}.** {m[1] if h == 'Mathematics' else m[1].upper()}", text, flags=re.MULTILINE)
    lines = [f"# {plugin.name}", "", f"*{registry.SLOTS[plugin.slot]}* · `src/sparring/{plugin.slot.replace('.', '/')}/{plugin.name}.py`", "", text]
    options = options_of(plugin)
    if options:
        lines += ["", "| option | type | default |", "|---|---|---|"]
        lines += [f"| `{o['name']}` | `{o['type'].replace('|', chr(92) + '|')}` | `{o['default']}` |" for o in options]
    if plugin.presets:
        lines += ["", "| preset | options |", "|---|---|", *(f"| `{name}` | `{dict(values)}` |" for name, values in plugin.presets.items())]
    return "\n".join(lines).rstrip() + "\n"


def config_page() -> str:
    """Return the reference of every configuration key."""
    lines = ["# Configuration", "", "Generated from `src/sparring/config.py`. Unknown keys are errors. Where a *Number* is asked for, write a number",
             "or a schedule: `{schedule: linear, start: 0.15, end: 0.01, until: 0.8}`, `cosine`, or",
             "`{schedule: staircase, values: [0.1, 0.01], at: [0.5]}`. Plug-ins take their own options as further keys.", ""]
    pending: list[tuple[str, type[BaseModel]]] = [("", RunConfig)]
    while pending:
        name, section = pending.pop(0)
        lines += [f"## {name or 'top level'}", "", (inspect.getdoc(section) or "").split("\n")[0], "", "| key | type | default | what |", "|---|---|---|---|"]
        for key, field in section.model_fields.items():
            inner = [a for a in (field.annotation, *getattr(field.annotation, "__args__", ())) if isinstance(a, type) and issubclass(a, BaseModel)]
            kind = getattr(field.annotation, "__name__", str(field.annotation)).replace("|", "\\|")
            default = "required" if field.is_required() else "section" if inner else repr(field.get_default(call_default_factory=True))
            lines.append(f"| `{key}` | {kind} | `{default}` | {field.description or (inspect.getdoc(inner[0]) if inner else '') or ''} |")
            pending += [(f"{name}.{key}".lstrip("."), model) for model in inner if model is not section]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def metrics_page() -> str:
    """Return the glossary of metrics."""
    rows = [f"| `{name}` | {meaning} |" for name, meaning in glossary().items()]
    intro = "Generated from the modules that make them. `metrics.jsonl` holds what is a function of configuration, seed and code;\n`timing.jsonl` the rest."
    return "\n".join(["# Metrics", "", intro, "", "| metric | meaning |", "|---|---|", *rows]) + "\n"


def methods_table() -> str:
    """Return the table of methods for the README."""
    rows = ["| slot | method | what it does | status |", "|---|---|---|---|"]
    for slot in METHOD_SLOTS:
        for name in registry.names(slot):
            plugin = registry.load(slot, name)
            rows.append(f"| {registry.SLOTS[slot]} | [`{name}`](docs/methods/{slot}-{name}.md) | {plugin.summary} | {status(plugin)} |")
    return "\n".join(rows)


def status(plugin: registry.Plugin) -> str:
    """Return how a plug-in is verified: by how many test files of its own, and what its docstring warns of."""
    text = inspect.getdoc(plugin.function) or ""
    own = {str(path) for path in (ROOT / "tests").rglob(f"test_{plugin.name}.py")}
    named = {str(ROOT / name) for name in re.findall(r"tests/\S+?\.py", text)}
    return f"{len(own | named)} test files" + (", known pitfalls" if "Pitfalls:" in text else "") if own | named else "contract tests"


def games_table() -> str:
    """Return the table of games for the README."""
    rows = ["| game | seats | hidden information | payoffs | recipes | status |", "|---|---|---|---|---|---|"]
    trained = {name: {game["name"] for game in load_recipe(name)["games"]} for name in recipe_names()}
    for name in registry.names("games"):
        game = make_game(name)
        kind = game.spiel.get_type()
        hidden = "no" if kind.information == kind.information.PERFECT_INFORMATION else "yes"
        payoffs = "zero-sum" if game.zero_sum else "cooperative" if game.cooperative else "general-sum"
        golden = "golden playthrough" if (ROOT / "tests" / "golden" / f"game_{name}.txt").exists() else "contract tests"
        recipes = ", ".join(f"`{recipe}`" for recipe in sorted(trained) if name in trained[recipe])
        rows.append(f"| `{name}` | {seats(name)} | {hidden} | {payoffs} | {recipes or '-'} | {golden} |")
    return "\n".join(rows)


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
    for slot in ("games", *METHOD_SLOTS):
        for name in registry.names(slot):
            found[ROOT / "docs" / "methods" / f"{slot}-{name}.md"] = method_page(registry.load(slot, name))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for mark, table in (("methods", methods_table()), ("games", games_table())):
        readme = re.sub(rf"(<!-- {mark} -->\n).*?(\n<!-- /{mark} -->)", lambda m, t=table: m[1] + t + m[2], readme, flags=re.DOTALL)
    found[ROOT / "README.md"] = readme
    return found


def main() -> None:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if anything is stale")
    check = parser.parse_args().check
    wanted = pages()
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    extra = [path for path in (ROOT / "docs" / "methods").glob("*.md") if path not in wanted]
    broken = broken_links()
    if check and (stale or extra or broken):
        sys.exit(f"stale: {[str(p.relative_to(ROOT)) for p in stale + extra]}; broken links: {broken}. Run `make docs`.")
    if not check:
        (ROOT / "docs" / "methods").mkdir(exist_ok=True)
        for path in stale:
            path.write_text(wanted[path], encoding="utf-8")
        for path in extra:
            path.unlink()


def broken_links() -> list[str]:
    """Return relative links of hand-written pages that lead nowhere."""
    found = []
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
            if "://" not in target and not (page.parent / target).exists():
                found.append(f"{page.name}: {target}")
    return found


if __name__ == "__main__":
    main()
