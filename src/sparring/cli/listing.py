"""sparring list"""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.table import Column, Table

from sparring.cli.text import say
from sparring.core.errors import UnknownNameError
from sparring.core.foreign_text import current_slot
from sparring.report.explanations import KINDS, entries
from sparring.report.terminal import PlainConsole


def listing(
    what: Annotated[
        str,
        typer.Argument(
            help="environments, methods, recipes, suites, metrics, or a slot such as credit."
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """List environments, methods, recipes, suites or metrics.

    The list is a table, or in a pipe one line each with tabs between cells.
    """
    what = current_slot(what)
    if what not in KINDS:
        raise UnknownNameError("kind of entry", what, KINDS)
    rows = entries(what)
    if as_json:
        print(json.dumps(rows, sort_keys=True))
        return
    console = PlainConsole()
    if not console.is_terminal:
        say("\n".join("\t".join((row["name"], row["kind"], row["summary"])) for row in rows))
        return
    table = Table(*(Column(head, overflow="fold") for head in ("name", "kind", "what it is")))
    for row in rows:
        table.add_row(row["name"], row["kind"], row["summary"])
    console.print(table)
