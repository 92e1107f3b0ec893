"""A study: the experiments behind a page, as cells run once each, and rows of a results file.

A study is one file of the folder ``reproduce``. Its name is the file's with ``-`` for ``_``. The
file has a ``Study`` by the name ``STUDY``. Its tables are in the file of the same name of the room
``report``; a study without one gets a plain table of all its figures.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sparring.errors import UnknownNameError
from sparring.experiments import reproduce
from sparring.system.files import parse_json

Setting = Mapping[str, Any]
Row = dict[str, Any]
Ask = Callable[[Sequence[str]], str]
"""Runs a command, `sparring` first, and returns what it printed."""

Measure = Callable[[Path, str, Ask], Any]
"""Gives what a cell came to: from its folder, what its command printed, and further commands."""


FOUND = "found.json"  # what a module that measures writes into its cell's folder


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One run of a study: a command, and what is measured of it.

    Args:
        key: what tells the cell from the study's others, e.g. ("demo", 3).
        folder: its folder's name in the study's.
        command: the words as they are typed, `sparring` or `python -m MODULE` first.
        place: further words, that name a place: `{}` stands for the cell's folder, `{version}` for
            the commit of the code.
        measure: what is kept of it, as JSON holds it.
        after: keys of cells of the study that must be done before this one begins.
    """

    key: tuple[Any, ...]
    folder: str
    command: tuple[str, ...]
    place: tuple[str, ...]
    measure: Measure
    after: tuple[tuple[Any, ...], ...] = ()


Found = Mapping[tuple[Any, ...], Mapping[str, Any]]
"""What is kept of each cell by its key: `command`, `commit`, `date`, `seconds`, `found`."""


def module_cell(
    module: str,
    given: Mapping[str, Any],
    *,
    key: tuple[Any, ...],
    name: str,
    after: Sequence[tuple[Any, ...]] = (),
) -> Cell:
    """Return the cell of a module that is told what to run as JSON, and writes what it found.

    Args:
        module: run by ``python -m MODULE GIVEN FILE``.
        given: what it is told.
        key: of the cell.
        name: of its folder, in which spaces become hyphens.
        after: see ``Cell``.
    """
    return Cell(
        key=key,
        folder=_folder(name),
        command=("python", "-m", module, json.dumps(given)),
        place=(f"{{}}/{FOUND}",),
        measure=_written,
        after=tuple(after),
    )


def _written(folder: Path, said: str, ask: Ask) -> Any:
    """Return what a module wrote into its cell's folder."""
    return parse_json((folder / FOUND).read_bytes())


def _nothing(setting: Setting, kept: Found) -> dict[str, Any]:
    """Return no further fields."""
    return {}


@dataclass(frozen=True, kw_only=True, slots=True)
class Study:
    """The experiments behind a page.

    Args:
        summary: what they find out, in a line.
        page: the page that shows them, from the repository's root.
        hours: how long they take on two cores.
        results: the name of their file in benchmarks/results, without `.json`.
        setting: the published setting.
        quick: what differs from it in a minute's version.
        cells: the cells of a setting, in the order in which they are run.
        rows: the rows of the results file, from what was kept of the cells.
        fields: further fields of the results file, in place of the usual ones.
    """

    summary: str
    page: str
    hours: float
    results: str
    setting: Setting
    quick: Setting
    cells: Callable[[Setting], list[Cell]]
    rows: Callable[[Setting, Found], list[Row]]
    fields: Callable[[Setting, Found], dict[str, Any]] = field(default=_nothing)


def names() -> tuple[str, ...]:
    """Return the names of all studies, sorted."""
    found = (module.name for module in pkgutil.iter_modules(reproduce.__path__))
    return tuple(sorted(name.replace("_", "-") for name in found))


def load(name: str) -> Study:
    """Return a study by its name.

    Raises:
        UnknownNameError: there is none of this name.
    """
    if name not in names():
        hint = "`sparring reproduce` alone says what each is."
        raise UnknownNameError("experiment", name, names(), hint)
    module = importlib.import_module(f"{reproduce.__name__}.{name.replace('-', '_')}")
    study: Study = module.STUDY
    return study


MODEL = "model"  # the folder in a run's, where a study exports its policy for others to begin from


def training(
    key: tuple[Any, ...],
    folder: str,
    recipe: str,
    changes: Sequence[str],
    measure: Measure,
    *,
    begins: Cell | None = None,
) -> Cell:
    """Return the cell of a training run.

    Args:
        key: see ``Cell``.
        folder: see ``Cell``.
        recipe: a recipe's name.
        changes: changes to it, e.g. ["seed=0", "threads=1"].
        measure: see ``Cell``.
        begins: the run that this one begins from, measured by ``exporting``; None: it begins as
            its recipe says.
    """
    model = (f"model.name={{}}/../{begins.folder}/{MODEL}",) if begins else ()
    return Cell(
        key=key,
        folder=_folder(folder),
        command=("sparring", "train", recipe, *changes),
        place=(*model, "--run", "{}", "--overwrite"),
        measure=measure,
        after=(begins.key,) if begins else (),
    )


def _folder(name: str) -> str:
    """Return the name of a cell's folder."""
    return name.replace("/", "-").replace(" ", "-")


def exporting(measure: Measure) -> Measure:
    """Return a measure that also exports a run's policy, for others to begin from."""

    def measured(run: Path, said: str, ask: Ask) -> Any:
        ask(["sparring", "export", str(run), str(run / MODEL)])
        return measure(run, said, ask)

    return measured


def seed_rows(
    kept: Found, labels: Callable[..., Row], figures: Callable[[Any], Mapping[str, Any]]
) -> list[Row]:
    """Return one row for the cells that differ in their seed alone, with each seed's values.

    Args:
        kept: of all cells; the last part of a key is the seed.
        labels: gives a row's labels from the other parts of the key.
        figures: gives the figures of what was measured of a cell; its seconds are added.
    """
    found: dict[tuple[Any, ...], Row] = {}
    for (*key, seed), one in kept.items():
        row = found.setdefault(tuple(key), {**labels(*key), "values": {}})
        for name, value in {**figures(one["found"]), "seconds": one["seconds"]}.items():
            row["values"].setdefault(name, {})[str(seed)] = value
    return list(found.values())


def by_seed(found: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return {figure: {seed: value}} of figures by seed."""
    return {name: {str(seed): one[name] for seed, one in enumerate(found)} for name in found[0]}
