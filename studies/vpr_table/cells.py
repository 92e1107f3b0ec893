"""Cells and rows of the studies with a table of logits; see ``learner``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sparring.api.cells import Cell, CellRecords, Row, by_seed, module_cell
from studies.common.study import Setting, Study

MODULE = "studies.vpr_table.learner"
GAMES = 128  # of a step

Labels = dict[str, Any]
Lesson = dict[str, Any]
"""Arguments of ``learner.run``, but for the seed."""

Labelled = Sequence[tuple[Labels, Lesson]]


def lesson(
    task: str, variant: str, size: int, steps: int, oracle: Mapping[str, Any] | None = None
) -> Lesson:
    """Return the arguments of a run; see ``learner.run``."""
    shape = {"steps": steps, "groups": GAMES // size, "size": size}
    return {"task": task, "variant": variant, **shape, "oracle": oracle}


def study(lessons: Callable[[Setting], Labelled], **fields: Any) -> Study:
    """Return a study with a table of logits and several seeds.

    Args:
        lessons: function from a setting to the arguments of each run, with labels.
        fields: other fields of the study; see ``Study``.
    """
    return Study(
        page="studies/vpr_methods/page.md",
        cells=lambda setting: cells(lessons(setting), setting["seeds"]),
        rows=lambda setting, records: rows(lessons(setting), setting["seeds"], records),
        **fields,
    )


def cells(labelled: Labelled, seeds: int) -> list[Cell]:
    """Return the cells of all runs, ordered by seed."""
    return [cell(labels, lesson, seed) for seed in range(seeds) for labels, lesson in labelled]


def cell(labels: Labels, lesson: Lesson, seed: int) -> Cell:
    """Return the cell of a run."""
    name = "-".join(str(value) for value in (*labels.values(), seed))
    return module_cell(MODULE, {**lesson, "seed": seed}, key=(*labels.values(), seed), name=name)


def rows(labelled: Labelled, seeds: int, records: CellRecords) -> list[Row]:
    """Return the rows of all runs."""
    result = []
    for labels, _ in labelled:
        ran = [records[*labels.values(), seed]["found"] for seed in range(seeds)]
        result += rows_of(labels, ran)
    return result


def rows_of(labels: Labels, records: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return the rows of a run: on the initial states of training, and on unseen ones if there are
    any.

    Args:
        labels: labels of the run.
        records: results of ``learner.run``, by seed.
    """
    names = [name for name in records[0]["curve"][-1] if name != "games"]
    values = by_seed([curve_of(record["curve"], names) for record in records])
    rows = [{**labels, "starts": records[0]["starts"], "values": values}]
    if records[0]["unseen"] is not None:
        last = [{f"{name}, end": record["unseen"][name] for name in names} for record in records]
        rows.append({**labels, "starts": "unseen", "values": by_seed(last)})
    return rows


def curve_of(curve: Sequence[Mapping[str, float]], names: Sequence[str]) -> dict[str, float]:
    """Return the figures of a curve: returns by number of games, at half, and over the run."""
    returns = [point["return"] for point in curve]
    later = returns[1:] or returns
    figures = {f"return after {point['games']}": point["return"] for point in curve}
    figures |= {f"{name}, end": curve[-1][name] for name in names}
    figures["return, half"] = returns[len(curve) // 2]
    return {**figures, "return over the run": float(np.mean(later))}
