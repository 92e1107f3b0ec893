"""The table of docs/teams.md on what a small team learns by each pay."""

from __future__ import annotations

from sparring.report.reproduce.team_credit import PAID
from sparring.report.result_figures import Maker, Results, markdown, points, spread


def learnt(results: Results) -> str:
    """Return the exact returns on the way, with intervals over seeds."""
    found = results.rows()
    marks = [name for _, name in points(found[0], "return after ")]
    heads = ("workers", "rate", "paid by", *marks, "mean return")
    lines = [
        (
            str(one["workers"]),
            f"{one['rate']:g}",
            PAID[one["paid"]],
            *(spread(one, name, 3, low=0.0, high=1.0) for name in (*marks, "mean return")),
        )
        for one in found
    ]
    return markdown(heads, lines)


MADE: dict[str, Maker] = {"team learning": learnt, "team learning source": Results.source}
SHOWN = {"What a team learns by each pay": "team learning"}
