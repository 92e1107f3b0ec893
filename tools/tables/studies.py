"""The tables of the studies that `sparring reproduce` runs, each from its results file."""

from functools import partial

from measured import markdown, results

from studies.common.study import load, study_names
from studies.common.study_tables import module_of


def from_results(make, name):
    """Return a table or a figure of a study's results."""
    return make(results(name))


def experiments():
    """Return what there is to reproduce."""
    lines = []
    for name in study_names():
        study = load(name)
        page = study.page.removeprefix("docs/") if study.page[:5] == "docs/" else f"../{study.page}"
        cells = str(len(study.cells(study.setting)))
        what = study.summary
        lines.append((f"`{name}`", what, f"[{study.page}]({page})", cells, f"{study.hours:g}"))
    return markdown(("experiment", "what it finds out", "page", "cells", "hours"), lines)


MARKERS = {
    "experiments": experiments,
    **{
        marker: partial(from_results, make, name)
        for name in study_names()
        for marker, make in module_of(name).MARKERS.items()
    },
}
