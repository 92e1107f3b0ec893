"""Matches and what oracles say of them as tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

SHARES = ("success", "win", "win_or_draw", "return", "illegal")


def match_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return the results of matches, as ``evaluate_policy`` gives them; wins only where there are opponents."""
    shown = [name for name in SHARES if any(name in row for row in rows)]
    table = Table("game", "opponent", "seat", *(name.replace("_", " ") for name in shown), title="Matches, 95 % intervals")
    for row in rows:
        table.add_row(row["game"], row["opponent"] or "-", row["role"], *(row.get(name, "-") for name in shown))
    return table


def oracle_table(rows: Sequence[Mapping[str, Any]]) -> Table | None:
    """Return what oracles say of the moves; None where none was asked."""
    table = Table(
        *("game", "opponent", "seat", "oracle", "optimal moves", "regret per turn", "judged"),
        title="Moves as an oracle judges them, 95 % intervals by game",
    )
    for row in rows:
        found = row.get("oracle")
        if found is not None:
            regret, judged = row.get("regret", "-"), f"{found['judged_share']:.1%} of {found['turns']}"
            name = found["name"] + (f" (± {found['bound']:.2g})" if found["bound"] else "")
            table.add_row(row["game"], row["opponent"] or "-", row["role"], name, row.get("optimal", "-"), regret, judged)
    return table if table.row_count else None
