"""Exact figures beside those of uniform and of best play, and what they mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.table import Table

from sparring.report.catalogue import figure_glossary

BEST = (
    "best play: an equilibrium where seats are opposed, else the best team, "
    "or the best policy of one seat alone"
)


def figure_table(result: Mapping[str, Any], title: str) -> Table:
    """Return the exact figures of ``evaluate_policy``; without rows where there are none."""
    table = Table("measure", "value", "uniform play", "best play", title=title)
    known = result["references"]
    for name, value in result["figures"].items():
        table.add_row(
            name,
            f"{value:.4f}",
            *(_number(known.get(name, {}).get(who)) for who in ("uniform", "best")),
        )
    return table


def legend(figures: Iterable[str]) -> list[str]:
    """Return a line per kind of figure that says what it is."""
    texts: dict[str, str] = {}
    for name, text in figure_glossary().items():
        texts.setdefault(name.split("/")[0], text)  # of a game, before those of its teams
    kinds = dict.fromkeys(name.split("/")[0] for name in figures)
    return [f"{kind}: {texts[kind]}" for kind in kinds if kind in texts] + [BEST]


def _number(value: float | None) -> str:
    """Return a number as the table shows it; a dash where it is not known."""
    return "-" if value is None else f"{value:.4f}"
