"""Tables and figures of measurements: text between markers comes from benchmarks/results.

    <!-- table: NAME -->          <!-- figure: NAME -->0.36<!-- end -->
    ...
    <!-- end -->

A module in docs/tables gives the text of a marker, by its name in MADE: a function of nothing. The
functions here are what such modules need: rows of a file, intervals over seeds, differences paired
by seed.
"""

from __future__ import annotations

import importlib.util
import json
import math
import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from sparring.ops.statistics import mean_interval
from sparring.types import Interval

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
MARK = re.compile(r"<!-- (table|figure): ([^>]+?) -->(.*?)<!-- end -->", re.DOTALL)
Row = dict[str, Any]


@cache
def document(name: str) -> dict[str, Any]:
    """Return the content of benchmarks/results/NAME.json."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def rows(name: str, **labels: Any) -> list[Row]:
    """Return the rows with these labels (`trained_on` stands for "trained on")."""
    wanted = {label.replace("_", " "): value for label, value in labels.items()}
    found = document(name)["rows"]
    return [row for row in found if all(row.get(label) == value for label, value in wanted.items())]


def row(name: str, **labels: Any) -> Row:
    """Return the one row with these labels.

    Raises:
        ValueError: there is none, or more than one.
    """
    found = rows(name, **labels)
    if len(found) != 1:
        raise ValueError(
            f"benchmarks/results/{name}.json has {len(found)} rows with {labels}; one is wanted."
        )
    return found[0]


def values(of: Row, figure: str) -> list[float]:
    """Return a figure by seed, in the order of the seeds."""
    kept = of["values"][figure]
    return [kept[seed] for seed in sorted(kept, key=int)]


def interval(of: Row, figure: str, *, low: float = -math.inf, high: float = math.inf) -> Interval:
    """Return the mean over seeds with Student's 95 % interval, held to what the figure can be.

    Args:
        of: a row with `values`, or with `intervals` of one run.
        figure: its name in the row.
        low: the least that the figure can be.
        high: the most.
    """
    found = mean_interval(values(of, figure))
    if figure in of.get("intervals", {}):
        ends = of["intervals"][figure]
        found = Interval(mean=found.mean, low=ends[0], high=ends[1], count=1, level=0.95)
    return clipped(found, low, high)


def clipped(found: Interval, low: float, high: float) -> Interval:
    """Return an interval with its ends held to [low, high]; one that is open stays open."""
    if not math.isfinite(found.high - found.low):
        return found
    ends = {"low": min(max(found.low, low), high), "high": max(min(found.high, high), low)}
    return Interval(mean=found.mean, count=found.count, level=found.level, **ends)


def shown(found: Interval, digits: int = 2) -> str:
    """Return an interval as "mean [low, high]"; the mean alone where one run gives no interval."""
    mean, low, high = (f"{part + 0.0:.{digits}f}" for part in (found.mean, found.low, found.high))
    if not math.isfinite(found.high - found.low):
        return mean
    return f"{mean} [{low}, {high}]".replace(f"-{0:.{digits}f}", f"{0:.{digits}f}")


def spread(of: Row, figure: str, digits: int = 2, **ends: float) -> str:
    """Return a figure of a row as text: `text` as it was kept, or mean and interval over seeds."""
    kept = of.get("text", {}).get(figure)
    return str(kept) if kept is not None else shown(interval(of, figure, **ends), digits)


def less(one: Row, other: Row, figure: str) -> Interval:
    """Return by how much a figure is larger in one row, paired by the seeds that both have.

    Raises:
        ValueError: they share no seed.
    """
    ours, theirs = one["values"][figure], other["values"][figure]
    shared = sorted(ours.keys() & theirs.keys(), key=int)
    if not shared:
        raise ValueError(f"The rows share no seed for {figure}, so nothing can be paired.")
    return mean_interval([ours[seed] - theirs[seed] for seed in shared])


def source(name: str) -> str:
    """Return a line for under a table: where its figures come from."""
    found = document(name)
    versions = ", ".join(f"{package} {version}" for package, version in found["versions"].items())
    commit, _, dirty = found["commit"].partition("-")
    at = f"{commit[:7]}{' with changes' if dirty else ''}, {found['date']}"
    line = f"Made by `{found['command']}` at commit {at}; {versions}."
    return f"{line} {found['note']}" if "note" in found else line


def markdown(head: Iterable[str], body: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    lines = [
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |"
        for line in (head, *body)
    ]
    return "\n".join([lines[0], "|" + "---|" * len(list(head)), *lines[1:]])


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
