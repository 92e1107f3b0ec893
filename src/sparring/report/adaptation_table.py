"""What an agent gets in each attempt of a trial, as a table for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from sparring.report.match_tables import interval_text

LEGEND = "gain: the last attempt less the first; * training never met them; all: by their shares"


def adaptation_table(game: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return the rows of a game, as ``experiments.adapting`` gives them."""
    count = max(len(row["attempts"]) for row in rows)
    starts = "" if rows[0]["starts"] == "all" else f", {rows[0]['starts']} starts"
    attempts = (f"attempt {number + 1}" for number in range(count))
    heads = ("role", "opponent", *attempts, "gain", "forfeits")
    title = f"Adaptation in {game}{starts}: mean return, 95 % intervals"
    table = Table(*heads, title=title, caption=LEGEND)
    for row in rows:
        table.add_row(
            row["role"],
            f"{row['opponent'] or 'all'}{'' if row['trained'] else ' *'}",
            *(interval_text(one, 3) for one in row["attempts"]),
            interval_text(row["gain"], 3),
            f"{row['forfeits']:.1%}",
            end_section=row["opponent"] is None,
        )
    return table
