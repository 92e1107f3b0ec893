"""Matches, exact figures and adaptation as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.box import SIMPLE
from rich.table import Column, Table

from sparring.report.explanations import figure_glossary

ORACLE_HEADERS = ("oracle", "optimal moves", "regret per turn", "judged")
LEGEND = "unseen: initial states not used in training; seen: used, and perhaps memorised"
SHARES = ("success", "win", "win_or_draw", "return", "illegal")


def match_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return the table of matches of ``evaluate_policy``."""
    columns = [name for name in SHARES if any(name in row for row in rows)]
    headers = ("game", "starts", "opponent", "seat", *(name.replace("_", " ") for name in columns))
    table = Table(
        *headers,
        title="Matches, 95 % intervals",
        caption=LEGEND if _has_split_starts(rows) else None,
    )
    for row in rows:
        table.add_row(
            row["game"],
            row["starts"],
            row["opponent"] or "-",
            row["role"],
            *(row.get(name, "-") for name in columns),
        )
    return table


def _has_split_starts(rows: Sequence[Mapping[str, Any]]) -> bool:
    return any(row["starts"] != "all" for row in rows)


def oracle_table(rows: Sequence[Mapping[str, Any]]) -> Table | None:
    """Return the table of oracle verdicts; None without verdicts."""
    table = Table(
        "game",
        "starts",
        "opponent",
        "seat",
        *ORACLE_HEADERS,
        title="Verdicts of an oracle on the moves, 95 % intervals by game",
    )
    for row in rows:
        if "oracle" in row:
            oracle = row["oracle"]
            judged_text = f"{row['oracle']['judged_share']:.1%} of {row['oracle']['turns']}"
            optimal, regret = row.get("optimal", "-"), row.get("regret", "-")
            cells = (_oracle_name(oracle), optimal, regret, judged_text)
            table.add_row(row["game"], row["starts"], row["opponent"] or "-", row["role"], *cells)
    return table if table.row_count else None


def self_plays_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return the table of self-play results of ``self_plays_of``."""
    headers_of_counts = ("episodes", "distinct", "most frequent", "replies per episode", "illegal")
    headers = ("game", "starts", *headers_of_counts, "mean return")
    table = Table(*headers, title="Self-play", caption=LEGEND if _has_split_starts(rows) else None)
    for row in rows:
        counts = (str(row[name]) for name in ("plays", "distinct", "commonest"))
        cells = (*counts, f"{row['turns']:.1f}", interval_text(row["illegal"], 3))
        table.add_row(row["game"], row["starts"], *cells, _returns_text(row["returns"]))
    return table


def environment_figures_table(rows: Sequence[Mapping[str, Any]]) -> Table | None:
    """Return the table of figures that environments define, in self-play; None without figures."""
    table = Table("game", "figure", "mean", title="Figures of the environment in self-play")
    for row in rows:
        for name, interval in row["figures"].items():
            table.add_row(row["game"], name, interval_text(interval, 3))
    return table if table.row_count else None


def _returns_text(intervals: Mapping[str, Any]) -> str:
    texts = {role: interval_text(interval, 3) for role, interval in intervals.items()}
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return ", ".join(f"{role} {text}" for role, text in texts.items())


def suite_table(rows: Sequence[Mapping[str, Any]]) -> Table | None:
    """Return the table of success and oracle verdicts in a suite; None if it has no row."""
    headers = ("row", "seat", "success", *ORACLE_HEADERS)
    table = Table(
        *(Column(header, no_wrap=header != "oracle") for header in headers),
        title="Success, and verdicts of an oracle on the moves",
        box=SIMPLE,
        pad_edge=False,
    )
    for row in rows:
        if row["measured"] and "success" in row.get("overall", {}):
            seats = row["seats"] if len(row["seats"]) > 1 else []
            for figures in (row["overall"], *seats):
                suffix = "" if row["starts"] == "all" else f" ({row['starts']})"
                table.add_row(
                    "" if "role" in figures else row["name"] + suffix,
                    figures.get("role", "all" if seats else "-"),
                    *_success_and_judged(figures),
                )
    return table if table.row_count else None


def _success_and_judged(figures: Mapping[str, Any]) -> list[str]:
    """Return the cells of a row of a suite: success, and the oracle's figures."""
    oracle = figures.get("oracle")
    digits = {"success": 2, "optimal": 2, "regret": 3}
    success, *verdict_cells = [
        interval_text(figures[name], num_digits) if name in figures else "-"
        for name, num_digits in digits.items()
    ]
    if not oracle:
        return [success, *["-"] * len(ORACLE_HEADERS)]
    return [success, _oracle_name(oracle), *verdict_cells, f"{oracle['judged_share']:.1%}"]


def _oracle_name(facts: Mapping[str, Any]) -> str:
    """Return the oracle's name and error bound; ``facts`` is ``Regret.facts``."""
    return str(facts["name"]) + (f" ±{facts['bound']:.2g}" if facts["bound"] else "")


def interval_text(value: Mapping[str, Any], digits: int) -> str:
    """Return an interval as text; ends without an estimate are dashes."""
    numbers = [
        "-" if value[key] is None else f"{value[key]:.{digits}f}" for key in ("mean", "low", "high")
    ]
    return f"{numbers[0]} [{numbers[1]}, {numbers[2]}]"


# -- exact figures

BEST = (
    "best play: an equilibrium if seats are opponents, otherwise the best team, "
    "or the best policy of a single seat"
)


def figure_table(result: Mapping[str, Any], title: str) -> Table:
    """Return the table of exact figures of ``evaluate_policy``; it may have no rows."""
    table = Table("measure", "value", "uniform play", "best play", title=title)
    for name, value in result["figures"].items():
        references = result["references"].get(name, {})
        values = [references.get(policy) for policy in ("uniform", "best")]
        cells = ["-" if reference is None else f"{reference:.4f}" for reference in values]
        table.add_row(name, f"{value:.4f}", *cells)
    return table


def legend(figures: Iterable[str]) -> list[str]:
    """Return a line per kind of metric with its meaning."""
    texts: dict[str, str] = {}
    for name, text in figure_glossary().items():
        texts.setdefault(name.split("/")[0], text)  # a game's text comes before its teams' texts
    kinds = dict.fromkeys(name.split("/")[0] for name in figures)
    return [f"{kind}: {texts[kind]}" for kind in kinds if kind in texts] + [BEST]


# -- adaptation

ADAPTATION = (
    "gain: last attempt minus first. *: not an opponent in training. all: mean over opponents, "
    "weighted by shares. best: a policy that knows the opponent. fixed: the best single policy. "
    "headroom: best minus fixed. exact: from the policy's action probabilities, without episodes."
)


def adaptation_table(game: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return the adaptation table of a game."""
    num_attempts = max(len(row["attempts"]) for row in rows)
    starts = "" if rows[0]["starts"] == "all" else f", {rows[0]['starts']} starts"
    attempts = (f"attempt {number + 1}" for number in range(num_attempts))
    opponent = Column("opponent", overflow="fold")
    headers: tuple[str | Column, ...] = (
        "role",
        opponent,
        *attempts,
        "gain",
        "forfeits",
        "best",
        "fixed",
    )
    title = f"Adaptation in {game}{starts}: mean return, 95 % intervals"
    table = Table(*headers, title=title, caption=ADAPTATION)
    for row in rows:
        headroom_shares = row.get("closed")
        table.add_row(
            row["role"],
            f"{row['opponent'] or 'all'}{'' if row['trained'] else ' *'}",
            *(interval_text(interval, 3) for interval in row["attempts"]),
            interval_text(row["gain"], 3),
            f"{row['forfeits']:.1%}",
            *(f"{row[name]:.3f}" if name in row else "-" for name in ("best", "fixed")),
        )
        exact_values = row.get("exact", {})
        if exact_values:
            table.add_row("", "exact", *_numbers(exact_values["returns"], 3))
        if headroom_shares:
            table.add_row(
                "",
                "share of the headroom",
                *(interval_text(interval, 2) for interval in headroom_shares),
            )
            if "closed" in exact_values:
                table.add_row("", "exact share", *_numbers(exact_values["closed"], 2))
            table.add_row("", "upper bound, exact", *_numbers(row["ceiling"], 2))
        if row["opponent"] is None:
            table.add_section()
    return table


def _numbers(values: Sequence[float | None], digits: int) -> list[str]:
    return ["-" if value is None else f"{value:.{digits}f}" for value in values]


def missing_value_reasons(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the distinct reasons why rows have no exact values."""
    lines = (
        f"{row['role']}: {row[reason]}"
        for row in rows
        for reason in ("why", "why_sampled")
        if reason in row
    )
    return list(dict.fromkeys(lines))
