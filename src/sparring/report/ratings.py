"""Results of a run's policy against others, with intervals: matches, and the payoff book."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sparring.core.errors import SparringError
from sparring.league.payoffs import Payoffs
from sparring.report import svg
from sparring.run.folder import RunFolder
from sparring.run.state import RunState

INTERVAL = "95 % interval"
PLAYERS = ("environment", "player", "against")
HEAD = (*PLAYERS, "plays", "mean return", INTERVAL, "win rate", INTERVAL)
MATCH_FIGURES = {
    "success": "success",
    "win": "win",
    "win_or_draw": "win or draw",
    "return": "return",
    "optimal": "optimal moves",
    "regret": "regret per turn",
}
SHARES = ("win_or_draw", "success")  # figures in charts; a match has one of them
MAX_ROWS = 40  # rows of a chart; a table has all rows
MAX_LETTERS = 44  # letters of a row's name
ROW = 20  # height of a row


class PairResults(NamedTuple):
    """Results of a player against another, over all seats.

    Attributes:
        environment: label of the environment, as in metrics.
        player: the player in text form.
        opponent: the other player.
        games: number of episodes, or sum of weights with ``league.payoff_decay``; 0 if exact.
        mean_return: mean of the player's returns, in the environment's units.
        win_rate: share of wins, where a draw counts half; None without wins, draws and losses.
        low: lower end of the win rate's 95 % interval.
        high: upper end.
        exact: whether the results are computed from the players' policies, without episodes.
        return_low: lower end of the mean return's 95 % interval; None with fewer than two episodes
            or groups of one deal, and in older checkpoints.
        return_high: upper end.
    """

    environment: str
    player: str
    opponent: str
    games: float
    mean_return: float
    win_rate: float | None
    low: float
    high: float
    exact: bool = False
    return_low: float | None = None
    return_high: float | None = None


class RateInterval(NamedTuple):
    """A share with the ends of its interval."""

    name: str
    value: float
    low: float
    high: float


def dot_chart(rows: Sequence[RateInterval], *, title: str, note: str) -> str:
    """Return a chart with a row per share, as a dot with its interval, as an <svg> element."""
    rows = [row for row in rows if all(map(math.isfinite, row[1:]))][:MAX_ROWS]
    half_length = MAX_LETTERS // 2
    names = [
        name if len(name) <= MAX_LETTERS else f"{name[: half_length - 1]}…{name[-half_length:]}"
        for name in (row.name for row in rows)
    ]
    x_left = 12 + svg.LETTER * max(map(len, names), default=0)
    x_at = svg.scale(0.0, 1.0, x_left, svg.WIDTH - svg.RIGHT - 34)
    bottom, colour = svg.TOP + ROW * len(rows) + 4, svg.COLOURS[0]
    elements = svg.headings(title, note, 4, (16, 32))
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, weight = x_at(tick), ".45" if tick == 0.5 else ".15"
        elements.append(
            f'<path d="M{x:.1f} {svg.TOP}V{bottom}" stroke="currentColor" opacity="{weight}"/>'
        )
        elements.append(svg.text_at(f"{x:.1f}", bottom + 14, f"{tick:g}", svg.MIDDLE))
    for number, (row, name) in enumerate(zip(rows, names, strict=True)):
        y = svg.TOP + ROW * number + ROW / 2
        ends = x_at(row.low), x_at(row.high)
        elements.append(svg.text_at(f"{x_left - 8:.1f}", f"{y + 4:.1f}", svg.escape(name), svg.END))
        elements.append(
            f'<path d="M{ends[0]:.1f} {y:.1f}H{ends[1]:.1f}" stroke="{colour}" stroke-width="2"/>'
        )
        elements.append(
            f'<circle cx="{x_at(row.value):.1f}" cy="{y:.1f}" r="4" fill="{svg.COLOURS[0]}"/>'
        )
        elements.append(svg.text_at(svg.WIDTH - 4, f"{y + 4:.1f}", f"{row.value:.2f}", svg.END))
    values = [f"{row.name} {row.value:.2f} [{row.low:.2f}, {row.high:.2f}]" for row in rows]
    height = max(bottom + 22, svg.BOTTOM / 4)
    return svg.element(elements, height, False, f"{title}: {'; '.join(values)}")


def matches(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the latest matches of a run as a chart and a table; None without matches."""
    values: dict[str, Any] = {}
    for line in lines:
        values.update(
            {key: value for key, value in line.items() if key.startswith(("match/", "match_seen/"))}
        )
    seats = sorted({key.rsplit("/", 1)[0] for key in values if key.count("/") >= 4})
    if not seats:
        return None
    figures = [name for name in MATCH_FIGURES if any(f"{seat}/{name}" in values for seat in seats)]
    rows, chart_rows = [], []
    for seat in seats:
        family, game, *opponent_parts, role = seat.split("/")
        opponent = "/".join(opponent_parts)  # an endpoint's name may contain /
        pair = f"match_seen/{game}/{opponent}/{role}"
        starts = ("seen" if family == "match_seen" else "unseen") if pair in seats else "-"
        intervals = [_interval(values, seat, name) for name in figures]
        cells = [
            "-" if ends is None else "{:.3f} [{:.3f}, {:.3f}]".format(*ends) for ends in intervals
        ]
        rows.append([game, starts, opponent, role, *cells])
        suffix = "" if starts == "-" else f", {starts} starts"
        shares = [ends for name in SHARES if (ends := _interval(values, seat, name)) is not None]
        chart_rows += [
            RateInterval(f"{game}: {role} against {opponent}{suffix}", *ends) for ends in shares[:1]
        ]
    note = "share of wins and draws, or of successes, of the last matches, with 95 % intervals"
    return {
        "charts": [dot_chart(chart_rows, title="Against bots", note=note)] if chart_rows else [],
        "head": ("game", "starts", "opponent", "seat", *(MATCH_FIGURES[name] for name in figures)),
        "rows": rows,
    }


def _interval(values: Mapping[str, Any], seat: str, name: str) -> tuple[float, float, float] | None:
    """Return a figure of a match with the ends of its interval; None if not measured."""
    mean, *ends = (values.get(f"{seat}/{name}{end}") for end in ("", "_low", "_high"))
    if mean is None:
        return None
    low, high = (math.nan if end is None else float(end) for end in ends)
    return float(mean), low, high


def league(path: Path) -> dict[str, Any] | None:
    """Return the results between the players of a run, from its newest checkpoint.

    The result is None if players played only against themselves. If the payoff book cannot be read,
    ``trouble`` has the reason.
    """
    try:
        checkpoint = RunFolder.open(path).checkpoint()
        standings = standings_of(RunState(owners=checkpoint.state).payoffs)
    except SparringError as error:
        return {"trouble": f"The payoff book cannot be read: {error}"}
    between_players = [row for row in standings if row.player != row.opponent]
    if not between_players:
        return None
    intervals = [
        RateInterval(
            f"{row.environment}: {row.player} against {row.opponent}",
            row.win_rate,
            row.low,
            row.high,
        )
        for row in between_players
        if row.win_rate is not None and row.player.startswith("learner")
    ]
    note = "win rate (a draw counts half), with 95 % intervals"
    return {
        "trouble": "",
        "charts": [dot_chart(intervals, title="In training", note=note)] if intervals else [],
        "head": HEAD,
        "rows": league_rows(between_players)[1:],
        "caption": f"Results of training episodes up to step {checkpoint.step}",
    }


def standings_of(payoffs: Payoffs) -> list[PairResults]:
    """Return the results of each environment's pairs, sorted by names."""
    standings = []
    pairs = {(row.environment, row.player, row.opponent) for row in payoffs.rows}
    for environment, player, opponent in sorted(pairs, key=lambda pair: tuple(map(str, pair))):
        results = payoffs.results(player, opponent, environment=environment)
        has_winner = results.wins + results.draws + results.losses > 0
        standings.append(
            PairResults(
                environment,
                str(player),
                str(opponent),
                0 if results.exact else results.games,
                results.mean_return,
                results.win_rate() if has_winner else None,
                *results.rate_interval(),
                results.exact,
                *(results.return_interval() or (None, None)),
            )
        )
    return standings


def league_rows(standings: Sequence[PairResults]) -> list[tuple[str, ...]]:
    """Return standings as rows of text, under a head."""
    return [HEAD, *map(_text_row, standings)]


def _text_row(row: PairResults) -> tuple[str, ...]:
    games = "exact" if row.exact else f"{row.games:.{1 if row.games % 1 else 0}f}"
    mean_ends, rate, rate_ends = "-", "-", "-"
    if row.return_low is not None:
        mean_ends = "exact" if row.exact else f"[{row.return_low:+.3f}, {row.return_high:+.3f}]"
    if row.win_rate is not None:
        rate = f"{row.win_rate:.3f}"
        rate_ends = "exact" if row.exact else f"[{row.low:.3f}, {row.high:.3f}]"
    names = (row.environment, row.player, row.opponent)
    return (*names, games, f"{row.mean_return:+.3f}", mean_ends, rate, rate_ends)
