"""The table of docs/teams.md on what a small team learns by each pay."""

from __future__ import annotations

from studies.common.result_figures import (
    Maker,
    Results,
    Row,
    less,
    markdown,
    points,
    shown,
    spread,
)
from studies.team_credit.tables import PAID

MEAN = "mean return"


def learnt(results: Results) -> str:
    """Return the exact returns on the way, with intervals over seeds, and what pay changes."""
    found = results.rows()
    marks = [name for _, name in points(found[0], "return after ")]
    heads = ("workers", "rate", "paid by", *marks, MEAN, "less the team's, by seed")
    lines = [
        (
            str(one["workers"]),
            f"{one['rate']:g}",
            PAID[one["paid"]],
            *(spread(one, name, 2, low=0.0, high=1.0) for name in (*marks, MEAN)),
            gain(results, one),
        )
        for one in found
    ]
    return markdown(heads, lines)


def gain(results: Results, one: Row) -> str:
    """Return how much more a pay earns over all steps than the team's return, seed by seed."""
    if one["paid"] == "team":
        return ""
    team = results.row(workers=one["workers"], rate=one["rate"], paid="team")
    return shown(less(one, team, MEAN), 3)


MADE: dict[str, Maker] = {"team learning": learnt, "team learning source": Results.source}
SHOWN = {"What a team learns by each pay": "team learning"}
