"""sparring bridge"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from sparring.api.bridge_check import check_bridge, library_ids
from sparring.cli.text import say
from sparring.core.files import write_json_atomic

MARKS = {True: "yes", False: "no", None: "-"}
app = typer.Typer(add_completion=False, help="Try the environments of other libraries.")


@app.callback()
def bridge() -> None:
    """Try the environments of other libraries."""


@app.command()
def check(
    library: Annotated[
        str, typer.Argument(help="textarena, pettingzoo, gymnasium or reasoning_gym.")
    ],
    ids: Annotated[list[str] | None, typer.Argument(help="Ids; default all.")] = None,
    plays: Annotated[int, typer.Option(min=1, help="Random episodes of each.")] = 3,
    only_list: Annotated[bool, typer.Option("--list", help="Only list the ids.")] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the results into this file too.")
    ] = None,
) -> None:
    """Try environments of a library: seeds, copies, the contract, and turns per second."""
    if only_list:
        print("\n".join(library_ids(library)))
        return
    say(f"{'environment':<40} seeds copies conforms turns/s", file=sys.stdout)
    rows = []
    for number, total, row in check_bridge(library, ids or (), plays=plays):
        marks = [MARKS[mark] for mark in (row.has_seeds, row.has_copies, row.conforms)]
        speed = f"{row.turns_per_second:,.0f}" if row.turns_per_second else "-"
        say(
            f"{row.name:<40} {marks[0]:<5} {marks[1]:<6} {marks[2]:<8} {speed:>7}"
            f"{'  ' if row.problem else ''}{row.problem}",
            file=sys.stdout,
        )
        rows.append(asdict(row))
        if sys.stderr.isatty():
            say(f"{number} of {total} tried", file=sys.stderr)
    conforming = sum(row["conforms"] for row in rows)
    say(f"{conforming} of {len(rows)} conform.", file=sys.stdout)
    if json_file is not None:
        write_json_atomic(json_file, rows)
