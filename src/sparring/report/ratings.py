"""How well a run's policy does against others, with intervals: matches, and the payoff book."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sparring.errors import SparringError
from sparring.report.league_shown import HEAD, Standing, league_rows, standings_of
from sparring.report.page import paragraphs, table
from sparring.report.svg import BOTTOM, COLOURS, LETTER, RIGHT, TOP, WIDTH, element, safe, scale
from sparring.run.folder import RunFolder
from sparring.run.state import RunState

MATCH_FIGURES = {
    "success": "success",
    "win": "win",
    "win_or_draw": "win or draw",
    "return": "return",
    "optimal": "optimal moves",
    "regret": "regret per turn",
}
SHARES = ("win_or_draw", "success")  # what is drawn, the first that a match has
MOST = 40  # rows of a chart; a table has all
LONGEST = 44  # letters of a row's name
ROW = 20  # height of one


class Rated(NamedTuple):
    """A share with the ends of its interval."""

    name: str
    value: float
    low: float
    high: float


def dot_chart(rows: Sequence[Rated], *, title: str, note: str) -> str:
    """Return shares as dots with their intervals, a row each, as an <svg> element."""
    rows = [row for row in rows if all(map(math.isfinite, row[1:]))][:MOST]
    names = [_fitted(row.name) for row in rows]
    left = 12 + LETTER * max(map(len, names), default=0)
    x_at = scale(0.0, 1.0, left, WIDTH - RIGHT - 34)
    bottom = TOP + ROW * len(rows) + 4
    out = [
        f'<text x="4" y="16" font-size="15" font-weight="600">{safe(title)}</text>',
        f'<text x="4" y="32" font-size="11" opacity=".7">{safe(note)}</text>',
    ]
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, weight = x_at(tick), ".45" if tick == 0.5 else ".15"
        out.append(f'<path d="M{x:.1f} {TOP}V{bottom}" stroke="currentColor" opacity="{weight}"/>')
        out.append(f'<text x="{x:.1f}" y="{bottom + 14}" text-anchor="middle">{tick:g}</text>')
    for number, (row, name) in enumerate(zip(rows, names, strict=True)):
        y = TOP + ROW * number + ROW / 2
        ends = x_at(row.low), x_at(row.high)
        out.append(
            f'<text x="{left - 8:.1f}" y="{y + 4:.1f}" text-anchor="end">{safe(name)}</text>'
        )
        out.append(
            f'<path d="M{ends[0]:.1f} {y:.1f}H{ends[1]:.1f}" stroke="{COLOURS[0]}" '
            'stroke-width="2"/>'
        )
        out.append(f'<circle cx="{x_at(row.value):.1f}" cy="{y:.1f}" r="4" fill="{COLOURS[0]}"/>')
        out.append(
            f'<text x="{WIDTH - 4}" y="{y + 4:.1f}" text-anchor="end">{row.value:.2f}</text>'
        )
    said = [f"{row.name} {row.value:.2f} [{row.low:.2f}, {row.high:.2f}]" for row in rows]
    height = max(bottom + 22, BOTTOM / 4)
    return f"<figure>{element(out, height, False, f'{title}: ' + '; '.join(said))}</figure>"


def _fitted(name: str) -> str:
    """Return a row's name with its middle left out, where it is long."""
    half = LONGEST // 2
    return name if len(name) <= LONGEST else f"{name[: half - 1]}…{name[-half:]}"


def matches(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return the latest matches of a run, drawn and as a table; "" where there are none."""
    latest: dict[str, Any] = {}
    for line in lines:
        latest.update(
            {key: value for key, value in line.items() if key.startswith(("match/", "match_seen/"))}
        )
    seats = sorted({key.rsplit("/", 1)[0] for key in latest if key.count("/") >= 4})
    if not seats:
        return ""
    shown = [name for name in MATCH_FIGURES if any(f"{seat}/{name}" in latest for seat in seats)]
    rows, rated = [], []
    for seat in seats:
        family, game, *middle, role = seat.split("/")
        opponent = "/".join(middle)  # an endpoint's model may have a name with /
        pair = f"match_seen/{game}/{opponent}/{role}"
        starts = ("seen" if family == "match_seen" else "unseen") if pair in seats else "-"
        rows.append([game, starts, opponent, role, *(interval(latest, seat, n) for n in shown)])
        on = "" if starts == "-" else f", {starts} starts"
        rated += _rated(latest, seat, f"{game}: {role} against {opponent}{on}")
    head = ("game", "starts", "opponent", "seat", *(MATCH_FIGURES[name] for name in shown))
    note = "share of wins and draws, or of successes, of the last matches, with 95 % intervals"
    drawn = dot_chart(rated, title="Against bots", note=note) if rated else ""
    charted = f'<div class="charts few">{drawn}</div>' if drawn else ""
    return f"<h3>Latest matches, 95 % intervals</h3>{charted}{table(head, rows, tight=True)}"


def _rated(latest: Mapping[str, Any], seat: str, name: str) -> list[Rated]:
    """Return the share of a match that is drawn, where it has one with its interval."""
    for share in SHARES:
        ends = [latest.get(f"{seat}/{share}{end}") for end in ("", "_low", "_high")]
        value, low, high = (math.nan if end is None else float(end) for end in ends)
        if ends[0] is not None:
            return [Rated(name, value, low, high)]
    return []


def interval(values: Mapping[str, Any], seat: str, name: str) -> str:
    """Return an interval as text."""
    mean, low, high = (values.get(f"{seat}/{name}{end}") for end in ("", "_low", "_high"))
    if mean is None:
        return "-"
    ends = [math.nan if end is None else end for end in (low, high)]
    return f"{mean:.3f} [{ends[0]:.3f}, {ends[1]:.3f}]"


def league(path: Path) -> str:
    """Return how the players of a run did against each other, of its newest checkpoint.

    Where nobody met anybody but its like there is nothing to say, and "" is returned.
    """
    try:
        found = RunFolder.open(path).checkpoint()
        standings = standings_of(RunState(owners=found.state).payoffs)
    except SparringError as error:
        return paragraphs([f"The payoff book cannot be read: {error}"])
    others = [one for one in standings if one.player != one.opponent]
    if not others:
        return ""
    rated = [rating for one in others if (rating := _of(one)) is not None]
    note = "win rate, a draw being half a win, with 95 % intervals"
    drawn = dot_chart(rated, title="In training", note=note) if rated else ""
    charted = f'<div class="charts few">{drawn}</div>' if drawn else ""
    rows = league_rows(others)[1:]
    caption = f"Results of training's plays up to step {found.step}"
    return f"<h3>League, 95 % intervals</h3>{charted}{table(HEAD, rows, caption, tight=True)}"


def _of(one: Standing) -> Rated | None:
    """Return a standing of the learner as a share; None for others, and without decided plays."""
    if one.win_rate is None or not one.player.startswith("learner"):
        return None
    name = f"{one.environment}: {one.player} against {one.opponent}"
    return Rated(name, one.win_rate, one.low, one.high)
