"""Tables and figures of measurements: text between markers comes from results files.

    <!-- table: NAME -->          <!-- figure: NAME -->0.36<!-- end -->
    ...
    <!-- end -->

A module in tools/tables gives the text of a marker, by its name in MARKERS: a function of nothing. The
functions here are what such modules need: rows of a file, and those of `sparring.report`.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from studies.common.result_figures import (
    Results,
    Row,
    clip_interval,
    interval,
    interval_text,
    markdown,
    paired_difference,
    spread,
    values,
)
from studies.common.study import published_path

__all__ = [
    "MARK",
    "RESULTS",
    "ROOT",
    "Results",
    "Row",
    "clip_interval",
    "document",
    "fill_markers",
    "interval",
    "interval_text",
    "markdown",
    "marker_functions",
    "marks",
    "paired_difference",
    "results",
    "row",
    "rows",
    "source",
    "spread",
    "values",
]
RESULTS = ROOT / "benchmarks" / "results"
MARK = re.compile(r"<!-- (table|figure): ([^>]+?) -->(.*?)<!-- end -->", re.DOTALL)


@cache
def document(name: str) -> dict[str, Any]:
    """Return the content of a benchmark's results file, or a study's."""
    content: dict[str, Any] = json.loads(file_of(name).read_text(encoding="utf-8"))
    return content


def file_of(name: str) -> Path:
    """Return the results file of a benchmark, or of a study."""
    path = RESULTS / f"{name}.json"
    return path if path.is_file() else published_path(name)


def results(name: str) -> Results:
    """Return the results of a benchmark or a study as tables ask them."""
    return Results(document(name), file_of(name).relative_to(ROOT).as_posix())


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
def marker_functions(folder: Path = ROOT / "tools" / "tables") -> dict[str, Callable[[], str]]:
    """Return the functions of all modules in a folder, by the names of their markers.

    Raises:
        ValueError: two modules give one name.
    """
    tables: dict[str, Callable[[], str]] = {}
    for path in sorted(folder.glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"table_{path.stem}", path)
        if spec is None or spec.loader is None:
            raise ValueError(f"{path} cannot be loaded.")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        if repeated_names := tables.keys() & module.MARKERS.keys():
            raise ValueError(
                f"{path.name} gives {', '.join(sorted(repeated_names))}; another module of {folder} does too."
            )
        tables |= module.MARKERS
    return tables


def fill_markers(text: str, functions: dict[str, Callable[[], str]]) -> str:
    """Return a page with what stands between its markers written anew.

    Raises:
        ValueError: a marker has no function, or no end.
    """

    def part(match: re.Match[str]) -> str:
        kind, name, old_text = match.groups()
        if name not in functions or "<!-- table:" in old_text or "<!-- figure:" in old_text:
            raise ValueError(
                f"<!-- {kind}: {name} --> has no <!-- end -->, or tools/tables has no '{name}'."
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
