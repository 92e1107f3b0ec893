"""Tables and figures of measurements: text between markers comes from benchmarks/results.

    <!-- table: NAME -->          <!-- figure: NAME -->0.36<!-- end -->
    ...
    <!-- end -->

A module in docs/tables gives the text of a marker, by its name in MADE: a function of nothing. The
functions here are what such modules need: rows of a file, and those of `sparring.report`.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from sparring.report.result_figures import (
    Results,
    Row,
    clipped,
    interval,
    less,
    markdown,
    shown,
    spread,
    values,
)

__all__ = [
    "MARK",
    "RESULTS",
    "ROOT",
    "Results",
    "Row",
    "clipped",
    "document",
    "filled",
    "interval",
    "less",
    "made",
    "markdown",
    "marks",
    "results",
    "row",
    "rows",
    "shown",
    "source",
    "spread",
    "values",
]
ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
MARK = re.compile(r"<!-- (table|figure): ([^>]+?) -->(.*?)<!-- end -->", re.DOTALL)


@cache
def document(name: str) -> dict[str, Any]:
    """Return the content of benchmarks/results/NAME.json."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def results(name: str) -> Results:
    """Return benchmarks/results/NAME.json as tables ask it."""
    return Results(document(name), f"benchmarks/results/{name}.json")


def rows(name: str, **labels: Any) -> list[Row]:
    """Return the rows with these labels (`trained_on` stands for "trained on")."""
    return results(name).rows(**labels)


def row(name: str, **labels: Any) -> Row:
    """Return the one row with these labels.

    Raises:
        ValueError: there is none, or more than one.
    """
    return results(name).row(**labels)


def source(name: str) -> str:
    """Return a line for under a table: where its figures come from."""
    return results(name).source()


@cache
def made(folder: Path = ROOT / "docs" / "tables") -> dict[str, Callable[[], str]]:
    """Return the functions of all modules in a folder, by the names of their markers.

    Raises:
        ValueError: two modules give one name.
    """
    found: dict[str, Callable[[], str]] = {}
    for path in sorted(folder.glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"table_{path.stem}", path)
        if spec is None or spec.loader is None:
            raise ValueError(f"{path} cannot be loaded.")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        if twice := found.keys() & module.MADE.keys():
            raise ValueError(
                f"{path.name} gives {', '.join(sorted(twice))}; another module of {folder} does too."
            )
        found |= module.MADE
    return found


def filled(text: str, functions: dict[str, Callable[[], str]]) -> str:
    """Return a page with what stands between its markers written anew.

    Raises:
        ValueError: a marker has no function, or no end.
    """

    def part(found: re.Match[str]) -> str:
        kind, name, old = found.groups()
        if name not in functions or "<!-- table:" in old or "<!-- figure:" in old:
            raise ValueError(
                f"<!-- {kind}: {name} --> has no <!-- end -->, or docs/tables has no '{name}'."
            )
        gap = "\n" if kind == "table" else ""
        return f"<!-- {kind}: {name} -->{gap}{functions[name]()}{gap}<!-- end -->"

    if len(marks(text)) != text.count("<!-- end -->"):
        raise ValueError(
            f"There are {len(marks(text))} markers; one has no <!-- end -->, or the reverse."
        )
    return MARK.sub(part, text)


def marks(text: str) -> list[str]:
    """Return the names of a page's markers."""
    return re.findall(r"<!-- (?:table|figure): ([^>]+?) -->", text)
