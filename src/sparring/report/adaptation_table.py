"""What an agent gets in each attempt of a trial, as a table for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Column, Table

from sparring.report.match_tables import interval_text

LEGEND = (
    "gain: the last attempt less the first; * training never met them; all: by their shares; best: "
    "who knows the opponent; fixed: the best single policy; headroom: best less fixed; exactly: by "
    "the policy's probabilities over legal actions, without plays"
)


def adaptation_table(game: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return the rows of a game, as ``api.adapting`` gives them."""
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
        )
        exact = row.get("exact", {})
        if exact:
            table.add_row("", "exactly", *_numbers(exact["returns"], 3))
        if closed:
            table.add_row("", "share of the headroom", *(interval_text(one, 2) for one in closed))
            if "closed" in exact:
                table.add_row("", "share, exactly", *_numbers(exact["closed"], 2))
            table.add_row("", "at most, exactly", *_numbers(row["ceiling"], 2))
        if row["opponent"] is None:
            table.add_section()
    return table


def _numbers(values: Sequence[float | None], digits: int) -> list[str]:
    """Return numbers as text; "-" where there is none."""
    return ["-" if value is None else f"{value:.{digits}f}" for value in values]


def reasons(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return why rows have nothing exact beside them, each reason once."""
    said = (
        f"{row['role']}: {row[reason]}"
        for row in rows
        for reason in ("why", "why_sampled")
        if reason in row
    )
    return list(dict.fromkeys(said))
