"""Tables as a lead writes them: read, and made up for warm-up."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sparring.core.rng import Stream
from sparring.environments.wide_search.scoring import plain
from sparring.environments.wide_search.world import World

if TYPE_CHECKING:
    from sparring.environments.wide_search.play import Search

NEXT, EMPTY, NONE = ";", "-", "none"  # in brief style: between rows, an empty cell, no rows at all
_RULE = re.compile(r":?-+:?")
Table = dict[str, dict[str, str]]


def read(text: str, world: World, *, brief: bool) -> Table | None:
    """Return the table in a text by name; None where it is malformed.

    In full style it is the first markdown table: a header with the name's column and all others,
    each once and in any order, a line of dashes, and as many cells in every row. In brief style it
    is ``name value value ; name value value`` in order of the columns, or ``none``. The first of
    two rows of one name stays; an empty cell, in brief style ``-``, says nothing.
    """
    found = _brief(text, world) if brief else _markdown(text, world)
    if found is None:
        return None
    answer: Table = {}
    known: set[str] = set()
    for name, row in found:
        if plain(name) not in known:
            known.add(plain(name))
            answer[name] = {column: value for column, value in row.items() if value}
    return answer


def _brief(text: str, world: World) -> list[tuple[str, dict[str, str]]] | None:
    """Return the rows of a brief table."""
    if text.split() == [NONE]:
        return []
    rows = []
    for part in text.split(NEXT):
        name, *values = part.split() or [""]
        if not name or name == EMPTY or len(values) != len(world.columns):
            return None
        said = ("" if value == EMPTY else value for value in values)
        rows.append((name, dict(zip(world.columns, said, strict=True))))
    return rows


def _markdown(text: str, world: World) -> list[tuple[str, dict[str, str]]] | None:
    """Return the rows of the first markdown table."""
    lines: list[list[str]] = []
    for line in map(str.strip, text.splitlines()):
        if line.startswith("|"):
            lines.append([cell.strip() for cell in line[1:].removesuffix("|").split("|")])
        elif lines:
            break
    if len(lines) < 2 or len({len(line) for line in lines}) != 1:
        return None
    header, rule, *rows = lines
    names = [plain(cell) for cell in header]
    wanted = {plain(column): column for column in (world.key, *world.columns)}
    if any(names.count(one) != 1 for one in wanted) or not all(map(_RULE.fullmatch, rule)):
        return None
    found = []
    for row in rows:
        cells = {wanted[one]: cell for one, cell in zip(names, row, strict=True) if one in wanted}
        name = cells.pop(world.key)
        if not name:
            return None
        found.append((name, cells))
    return found


def written(rows: Table, world: World, *, brief: bool) -> str:
    """Return a table as it is written; what a row does not have is left empty."""
    if brief:
        said = (
            " ".join((name, *(row.get(column, EMPTY) for column in world.columns)))
            for name, row in rows.items()
        )
        return f" {NEXT} ".join(said) or NONE
    header = (world.key, *world.columns)
    lines = [header, ("---",) * len(header)]
    lines += [(name, *(row.get(one, "") for one in world.columns)) for name, row in rows.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def sample(play: Search, stream: Stream) -> str:
    """Return a table of the rows that were noted, with values that were, each in a row by chance.

    What is imitated in warm-up is the form; which value belongs where is left to be learnt.
    """
    noted = play.noted()
    values = {
        column: [row[column] for row in noted.values() if column in row]
        for column in play.start.columns
    }
    rows: Table = {}
    for number, (name, row) in enumerate(noted.items()):
        own = stream.child(number)
        rows[name] = {
            column: values[column][own.integer(place, len(values[column]))]
            for place, column in enumerate(row)
        }
    return written(rows, play.start, brief=play.rules.brief)
