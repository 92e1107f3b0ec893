"""sparring list"""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from sparring.errors import UnknownNameError
from sparring.report.catalogue import KINDS, entries


def listing(
    what: Annotated[str, typer.Argument(help="games, methods, recipes, suites, or a slot such as credit or losses.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """List games, methods, recipes or suites."""
    if what not in KINDS:
        raise UnknownNameError("kind of thing", what, KINDS)
    rows = entries(what)
    if as_json:
        print(json.dumps(rows, sort_keys=True))
        return
    table = Table("name", "kind", "what it is")
    for row in rows:
        table.add_row(row["name"], row["kind"], row["summary"])
    Console().print(table)
