"""The tables and the chart of studies/league_tictactoe_smol/page.md."""

from __future__ import annotations

from sparring.core.records import Interval
from sparring.ops.statistics import wilson_interval
from sparring.report.svg import Series, line_chart
from studies.common.result_figures import (
    Maker,
    Results,
    Row,
    curve,
    markdown,
    seeds_in_words,
    seeds_of,
    values,
)
from studies.league_tictactoe.study import figure
from studies.league_tictactoe_smol.study import (
    ALONG,
    COMMON,
    DIFFER,
    HIGH,
    LEGAL,
    LOW,
    OPPONENT,
    START,
)

ROLES = ("X", "O")
FEWEST, LEAST = 33, 0.95  # different plays of 64, and legal replies, that were asked for


def ends(results: Results) -> str:
    """Return the figures of each arm and seed."""
    plays, games = _label(results, "plays"), _label(results, "games")
    shares = (f"{role} wins or draws, of {games}" for role in ROLES)
    head = ("arm", "seed", f"{DIFFER} of {plays}", COMMON, LEGAL, *shares, "minutes")
    return markdown(head, [line for row in results.rows() for line in _lines(row)])


def _lines(row: Row) -> list[tuple[str, ...]]:
    """Return a line of the table per seed."""
    return [
        (
            row["arm"],
            seed,
            *(f"{values(row, name)[index]:.0f}" for name in (DIFFER, COMMON)),
            _interval_text(*(values(row, name)[index] for name in (LEGAL, LOW, HIGH))),
            *(_interval_text(*_ends(won(row, index, role))) for role in ROLES),
            f"{values(row, 'seconds')[index] / 60:.0f}",
        )
        for index, seed in enumerate(seeds_of(row))
    ]


def verdict(results: Results) -> str:
    """Return in how many seeds each arm reaches what was asked for."""
    (start,) = results.rows(arm=START)
    sentences = [_reached(row, start) for row in results.rows() if row["arm"] != START]
    intro = (
        f"Asked for are at least {FEWEST} {DIFFER} of {_label(results, 'plays')}, at least {LEAST} "
        f"of {LEGAL}, and as X a share won or drawn against random play above the start's, "
        "intervals apart."
    )
    return " ".join((intro, *sentences))


def _reached(row: Row, start: Row) -> str:
    """Return in how many seeds an arm reaches each part of what was asked for, and all."""
    seeds = seeds_of(row)
    counts = [reached(row, start, index) for index in range(len(seeds))]
    parts = [sum(count[part] for count in counts) for part in range(3)]
    return (
        f"**{row['arm']}**: {DIFFER} in {parts[0]}, {LEGAL} in {parts[1]}, share as X in "
        f"{parts[2]}, all three in {sum(map(all, counts))} of {seeds_in_words(row)}."
    )


def reached(row: Row, start: Row, place: int) -> tuple[bool, bool, bool]:
    """Return whether a seed reaches each part of what was asked for.

    Args:
        row: of an arm.
        start: that of the start.
        place: of the seed among the seeds.
    """
    return (
        values(row, DIFFER)[place] >= FEWEST,
        values(row, LEGAL)[place] >= LEAST,
        won(row, place, "X").low > won(start, place, "X").high,
    )


def won(row: Row, place: int, role: str) -> Interval:
    """Return the share won or drawn against a random player, of a seed."""
    games = int(row["games"])
    share = values(row, figure(role, OPPONENT, "win_or_draw"))[place]
    return wilson_interval(round(share * games), games)


def _label(results: Results, name: str) -> int:
    """Return a label that all rows have in common."""
    (number,) = {int(row[name]) for row in results.rows()}
    return number


def _ends(estimate: Interval) -> tuple[float, float, float]:
    """Return a share and the ends of its interval."""
    return estimate.mean, estimate.low, estimate.high


def _interval_text(mean: float, low: float, high: float) -> str:
    """Return a share with its interval."""
    return f"{mean:.3f} [{low:.3f}, {high:.3f}]"


def charts(results: Results) -> dict[str, str]:
    """Return the chart of plays that differ in training: means over seeds."""
    rows = [row for row in results.rows() if row["arm"] != START]
    series = [Series(name=row["arm"], points=curve(row, ALONG)) for row in rows]
    note = "means over seeds: " + ", ".join(f"{row['arm']} {len(seeds_of(row))}" for row in rows)
    title = "Share of a step's plays that differ"
    chart = line_chart(series, title=title, note=note, x_label="plays", standalone=True)
    return {"league-tictactoe-smol.svg": chart}


MARKERS: dict[str, Maker] = {
    "league tictactoe smol": ends,
    "league tictactoe smol verdict": verdict,
    "league tictactoe smol source": Results.source,
}
SECTIONS = {"At the end": ends, "In short": verdict}
