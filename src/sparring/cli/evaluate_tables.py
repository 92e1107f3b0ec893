"""Tables of what `sparring evaluate` has measured."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.table import Column, Table

from sparring.report.adaptation_table import adaptation_table, reasons
from sparring.report.figure_tables import figure_table, legend
from sparring.report.match_tables import (
    counted_table,
    interval_text,
    match_table,
    oracle_table,
    self_plays_table,
    suite_table,
)
from sparring.report.terminal import PlainConsole

WIDTH = 120  # of the tables where no terminal says so
OUTCOMES = ("wins", "draws", "losses")


def show_games(result: dict[str, Any]) -> None:
    """Show what was measured on games as tables."""
    console = PlainConsole(width=None if sys.stdout.isatty() else WIDTH)
    for note in result["notes"]:
        console.print(note, style="yellow")
    if "answer" in result:
        console.print(f"Measured is a {result['answer']}.")
    title = result.get("agent") or "{run}, step {step}, {weights}".format_map(result)
    table = figure_table(result, title)
    if table.row_count:
        console.print(table)
        for line in legend(result["figures"]):
            console.print(line)
    else:
        console.print(f"Measured is {title}.", markup=False, soft_wrap=True)
    console.print(match_table(result["matches"]))
    judged = oracle_table(result["matches"])
    if judged is not None:
        console.print(judged)
    if "self_plays" in result:
        console.print(self_plays_table(result["self_plays"]))
        counted = counted_table(result["self_plays"])
        if counted is not None:
            console.print(counted)
    for game, rows in groupby(result.get("adaptation", ()), lambda row: row["game"]):
        found = list(rows)
        console.print(adaptation_table(game, found))
        for reason in reasons(found):
            console.print(reason, style="yellow")
    for entry in result.get("league", []):
        ratings = Table(
            "player",
            "rating",
            "95 % interval",
            title=f"League: {entry['game']}, {entry['starts']} starts",
        )
        for row in entry["rows"]:
            ratings.add_row(
                row["name"], f"{row['rating']:.0f}", f"{row['low']:.0f} .. {row['high']:.0f}"
            )
        console.print(ratings)
    for line in result["verdicts"]:
        console.print(line)


def show_suite(report: dict[str, Any], path: Path) -> None:
    """Show a suite's report as tables."""
    console = PlainConsole(width=None if sys.stdout.isatty() else WIDTH)
    player = ", ".join(
        f"{key} {value}" for key, value in report["player"].items() if value not in (None, {})
    )
    title = f"Suite {report['suite']}: {player}. 95 % intervals"
    heads = ("row", "games", "win/draw/loss", "mean return", "illegal", "score", "score by seat")
    table = Table(
        *(Column(head, no_wrap=head in ("row", "mean return", "score")) for head in heads),
        title=title,
        box=SIMPLE,
    )
    exact = Table("row", "measure", "value", title="Exact")
    for row in report["rows"]:
        starts = "" if row["starts"] == "all" else f" ({row['starts']} starts)"
        name = row["name"] + starts + ("" if row["in_totals"] else " *")
        if not row["measured"]:
            table.add_row(name, "not measured")
        elif row["kind"] == "exact":
            for number, (measure, value) in enumerate(row["figures"].items()):
                exact.add_row("" if number else name, measure, f"{value:.4f}")
        else:
            table.add_row(name, *_cells(row["overall"]), _by_seat(row["seats"]))
    console.print(table)
    judged = suite_table(report["rows"])
    if judged is not None:
        console.print(judged)
    if exact.row_count:
        console.print(exact)
    if not all(row["in_totals"] for row in report["rows"]):
        console.print("* not part of the totals")
    totals = Table("total", "games", "score", title="Mean score over games")
    for name, value in report["totals"].items():
        if value is not None:
            totals.add_row(name.replace("_", " "), str(value["games"]), interval_text(value, 1))
    console.print(totals)
    for row in report["rows"]:
        for note in row["notes"]:
            console.print(f"{row['name']}: {note}", style="yellow")
    console.print(
        f"Kept in {path}; scores are 100 * (mean return - low) / (high - low), see docs/suites.md."
    )


def _cells(found: dict[str, Any]) -> list[str]:
    """Return the cells of a row: games, outcomes, mean return, share of illegal replies, score."""
    outcomes = "/".join(str(found[key]) for key in OUTCOMES) if "wins" in found else "-"
    mean, illegal = found["return"], found["illegal"]["mean"]
    margin = "" if mean["high"] is None else f" ± {mean['high'] - mean['mean']:.2f}"
    score = "-" if found["score"] is None else interval_text(found["score"], 1)
    return [
        str(found["games"]),
        outcomes,
        f"{mean['mean']:.2f}{margin}",
        "-" if illegal is None else f"{illegal:.1%}",
        score,
    ]


def _by_seat(seats: list[dict[str, Any]]) -> str:
    """Return the mean scores of the seats."""
    return (
        " / ".join(
            f"{seat['role']} {seat['score']['mean']:.1f}"
            for seat in seats
            if seat["score"] is not None
        )
        or "-"
    )
