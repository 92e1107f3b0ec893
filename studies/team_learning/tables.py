"""The table of docs/team-credit.md on what a small team learns with each reward."""

from __future__ import annotations

from studies.common.result_figures import (
    Maker,
    Results,
    Row,
    interval_text,
    markdown,
    paired_difference,
    points,
    spread,
)
from studies.team_credit.tables import PAID

MEAN = "mean return"


def learnt(results: Results) -> str:
    """Return the exact returns during training, with intervals over seeds, and the gain of each
    reward.
    """
    rows = results.rows()
    marks = [name for _, name in points(rows[0], "return after ")]
    heads = ("workers", "rate", "paid by", *marks, MEAN, "minus the team's return, by seed")
    lines = [
        (
            str(row["workers"]),
            f"{row['rate']:g}",
            PAID[row["paid"]],
            *(spread(row, name, 2, low=0.0, high=1.0) for name in (*marks, MEAN)),
            gain(results, row),
        )
        for row in rows
    ]
    return markdown(heads, lines)


def gain(results: Results, row: Row) -> str:
    """Return the gain of a reward over the team's return, averaged over steps, paired by seed."""
    if row["paid"] == "team":
        return ""
    team = results.row(workers=row["workers"], rate=row["rate"], paid="team")
    return interval_text(paired_difference(row, team, MEAN), 3)


MARKERS: dict[str, Maker] = {"team learning": learnt, "team learning source": Results.source}
SECTIONS = {"What a team learns by each pay": "team learning"}
