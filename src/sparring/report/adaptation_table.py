"""What an agent gets in each attempt of a trial, as a table for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Column, Table

from sparring.report.match_tables import interval_text

LEGEND = (
    "gain: the last attempt less the first; * training never met them; all: by their shares; best: "
    "who knows the opponent; fixed: the best single policy; headroom: best less fixed"
)


def adaptation_table(game: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return the rows of a game, as ``experiments.adapting`` gives them."""
    count = max(len(row["attempts"]) for row in rows)
    starts = "" if rows[0]["starts"] == "all" else f", {rows[0]['starts']} starts"
    attempts = (f"attempt {number + 1}" for number in range(count))
    who = Column("opponent", overflow="fold")
    heads: tuple[str | Column, ...] = ("role", who, *attempts, "gain", "forfeits", "best", "fixed")
    title = f"Adaptation in {game}{starts}: mean return, 95 % intervals"
    table = Table(*heads, title=title, caption=LEGEND)
    for row in rows:
        closed = row.get("closed")
        table.add_row(
            row["role"],
            f"{row['opponent'] or 'all'}{'' if row['trained'] else ' *'}",
            *(interval_text(one, 3) for one in row["attempts"]),
            interval_text(row["gain"], 3),
            f"{row['forfeits']:.1%}",
            *(f"{row[name]:.3f}" if name in row else "-" for name in ("best", "fixed")),
            end_section=row["opponent"] is None and not closed,
        )
        if closed:
            table.add_row("", "share of the headroom", *(interval_text(one, 2) for one in closed))
            most = (f"{share:.2f}" for share in row["ceiling"])
            table.add_row("", "at most, exactly", *most, end_section=True)
    return table


def reasons(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return why rows have nothing exact beside them, each reason once."""
    return list(dict.fromkeys(f"{row['role']}: {row['why']}" for row in rows if "why" in row))
