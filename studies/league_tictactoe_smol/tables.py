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
MIN_DIFFERENT, MIN_LEGAL = 33, 0.95  # goals: different games of 64, and share of legal replies


def table_at_the_end(results: Results) -> str:
    """Return the figures of each arm and seed."""
    plays, games = _common_label(results, "plays"), _common_label(results, "games")
    shares = (f"{role} wins or draws, of {games}" for role in ROLES)
    differ, common = f"different episodes of {plays}", "episodes equal to the most common one"
    head = ("arm", "seed", differ, common, LEGAL, *shares, "minutes")
    return markdown(head, [line for row in results.rows() for line in _lines(row)])


def _lines(row: Row) -> list[tuple[str, ...]]:
    """Return a line of the table per seed."""
    return [
        (
            row["arm"],
            seed,
            *(f"{values(row, name)[index]:.0f}" for name in (DIFFER, COMMON)),
            _interval_text(*(values(row, name)[index] for name in (LEGAL, LOW, HIGH))),
            *(_interval_text(*_bounds(share_won(row, index, role))) for role in ROLES),
            f"{values(row, 'seconds')[index] / 60:.0f}",
        )
        for index, seed in enumerate(seeds_of(row))
    ]


def verdict_text(results: Results) -> str:
    """Return a text that says in how many seeds each arm reaches the goals."""
    (start,) = results.rows(arm=START)
    sentences = [_reached_text(row, start) for row in results.rows() if row["arm"] != START]
    intro = (
        f"Three goals: at least {MIN_DIFFERENT} different episodes of "
        f"{_common_label(results, 'plays')}; a share of at least {MIN_LEGAL} of "
        f"{LEGAL}; and, as X against random play, a larger share "
        "of wins and draws than the start, with intervals that do not overlap."
    )
    return " ".join((intro, *sentences))


def _reached_text(row: Row, start: Row) -> str:
    """Return a text that says in how many seeds an arm reaches each goal, and all goals."""
    seeds = seeds_of(row)
    counts = [goals_reached(row, start, index) for index in range(len(seeds))]
    parts = [sum(count[part] for count in counts) for part in range(3)]
    return (
        f"**{row['arm']}** reaches the first goal in {parts[0]}, the second in {parts[1]}, the "
        f"third in {parts[2]}, and all three in {sum(map(all, counts))} of {seeds_in_words(row)}."
    )


def goals_reached(row: Row, start: Row, seed_index: int) -> tuple[bool, bool, bool]:
    """Return whether a seed reaches each goal.

    Args:
        row: row of an arm.
        start: row of the arm "start".
        seed_index: index of the seed.
    """
    return (
        values(row, DIFFER)[seed_index] >= MIN_DIFFERENT,
        values(row, LEGAL)[seed_index] >= MIN_LEGAL,
        share_won(row, seed_index, "X").low > share_won(start, seed_index, "X").high,
    )


def share_won(row: Row, seed_index: int, role: str) -> Interval:
    """Return the share of games won or drawn against a random player, for one seed."""
    games = int(row["games"])
    share = values(row, figure(role, OPPONENT, "win_or_draw"))[seed_index]
    return wilson_interval(round(share * games), games)


def _common_label(results: Results, name: str) -> int:
    """Return the value of a label that is equal in all rows."""
    (number,) = {int(row[name]) for row in results.rows()}
    return number


def _bounds(estimate: Interval) -> tuple[float, float, float]:
    """Return a share and the bounds of its interval."""
    return estimate.mean, estimate.low, estimate.high


def _interval_text(mean: float, low: float, high: float) -> str:
    """Return a share with its interval."""
    return f"{mean:.3f} [{low:.3f}, {high:.3f}]"


def charts(results: Results) -> dict[str, str]:
    """Return the chart of different games during training, as means over seeds."""
    rows = [row for row in results.rows() if row["arm"] != START]
    series = [Series(name=row["arm"], points=curve(row, ALONG)) for row in rows]
    note = "means over seeds: " + ", ".join(f"{row['arm']} {len(seeds_of(row))}" for row in rows)
    title = "Share of a step's plays that differ"
    chart = line_chart(series, title=title, note=note, x_label="plays", standalone=True)
    return {"league-tictactoe-smol.svg": chart}


MARKERS: dict[str, Maker] = {
    "league tictactoe smol": table_at_the_end,
    "league tictactoe smol verdict": verdict_text,
    "league tictactoe smol source": Results.source,
}
SECTIONS = {"At the end": table_at_the_end, "In short": verdict_text}
