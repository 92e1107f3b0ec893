"""Worlds: things with invented names, which no model has seen, or rows of a real table."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sparring.core.errors import ConfigError
from sparring.core.rng import Stream

LEAST = 50  # rows without a gap that a package must give
HELD = 5  # of so many filters one is kept for the other banks
Row = tuple[str, tuple[str, ...]]  # key, and values in order of the columns


@dataclass(frozen=True, slots=True)
class Filter:
    """Which rows a question asks for.

    Args:
        text: in words, after "countries".
        column: that it gives away, "" for none.
        rows: numbers of the rows that pass, ascending.
    """

    text: str
    column: str
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a package, without rows that have a gap.

    Args:
        kind: what its rows are, "countries".
        key: name of the column that names a row.
        columns: the others.
        rows: in order of their keys.
        grouped: columns of which one value is a filter.
        ranged: the column of whole numbers of which a range is a filter, "" for none.
    """

    kind: str
    key: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    grouped: tuple[str, ...]
    ranged: str = ""

    def filters(self, most: int) -> tuple[Filter, ...]:
        """Return the filters that 2 to ``most`` rows pass, in order of their words."""
        found: dict[Filter, None] = {}
        for column in self.grouped:
            place = self.columns.index(column)
            values = [cells[place] for _, cells in self.rows]
            found |= _alike(column, f"whose {column} is", values)
        letters = [name[0] for name, _ in self.rows]
        found |= _alike("", f"whose {self.key} begins with", letters)
        if self.ranged:
            found |= dict.fromkeys(self._ranges(most))
        kept = (one for one in found if 2 <= len(one.rows) <= most)
        return tuple(sorted(kept, key=lambda one: one.text))

    def _ranges(self, most: int) -> Iterable[Filter]:
        """Return the ranges of a column that as many rows pass as may."""
        place = self.columns.index(self.ranged)
        order = sorted(range(len(self.rows)), key=lambda row: int(self.rows[row][1][place]))
        for begin in range(len(order) - most + 1):
            own = order[begin : begin + most]
            first, last = (self.rows[row][1][place] for row in (own[0], own[-1]))
            text = f"whose {self.ranged} is from {first} to {last}"
            yield Filter(text, self.ranged, tuple(sorted(own)))


def _alike(column: str, words: str, values: Sequence[str]) -> dict[Filter, None]:
    """Return a filter for each value that some rows share, of the values of all rows in order."""
    rows: dict[str, list[int]] = {}
    for number, value in enumerate(values):
        rows.setdefault(value, []).append(number)
    return {Filter(f"{words} {value}", column, tuple(own)): None for value, own in rows.items()}


def countries(package: Any) -> Table:
    """Return the countries of the package countryinfo."""
    names = {
        "capital": "capital",
        "population": "population",
        "area": "area",
        "currency": "currencies",
        "calling code": "callingCodes",
        "demonym": "demonym",
        "internet domain": "tld",
        "region": "region",
        "subregion": "subregion",
    }
    rows = []
    for country in package.all_countries():
        facts = country.info()
        rows.append((facts["name"], [_text(facts.get(field)) for field in names.values()]))
    grouped = ("region", "subregion", "currency")
    return _table("countries", "name", tuple(names), rows, grouped)


def elements(package: Any) -> Table:
    """Return the chemical elements of the package periodictable."""
    columns = ("symbol", "atomic number", "atomic mass", "density", "covalent radius", "period")
    ends = (2, 10, 18, 36, 54, 86, 118)
    rows = []
    for one in package.elements:
        if one.number:
            period = 1 + sum(end < one.number for end in ends)
            facts = (one.symbol, one.number, one.mass, one.density, one.covalent_radius, period)
            rows.append((one.name, [_text(fact) for fact in facts]))
    return _table("elements", "name", columns, rows, ("period",), "atomic number")


def airports(package: Any) -> Table:
    """Return the airports of the package airportsdata, by their codes of three letters."""
    columns = ("airport", "city", "country", "elevation", "time zone", "ICAO code", "region")
    rows = []
    for code, one in package.load("IATA").items():
        region = f"{one['subd']}, {one['country']}" if one["subd"] else ""
        facts = (one["name"], one["city"], one["country"], one["elevation"], one["tz"], one["icao"])
        rows.append((code, [_text(fact) for fact in (*facts, region)]))
    return _table("airports", "code", columns, rows, ("region", "country"))


READ = {
    "countries": (countries, "countryinfo"),
    "elements": (elements, "periodictable"),
    "airports": (airports, "airportsdata"),
}


@lru_cache(maxsize=len(READ))
def table(kind: str) -> Table:
    """Return a table, read from its package once.

    Args:
        kind: "countries", "elements" or "airports".

    Raises:
        ConfigError: the package is not installed, or what it holds is no such table.
    """
    read, name = READ[kind]
    try:
        package = importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(
            f"wide_search: tables={kind} needs the package {name}, which cannot be imported "
            f"({error}); run pip install 'sparring[tables]', or write tables=invented."
        ) from None
    try:
        found = read(package)
    except Exception as error:  # whatever another version of the package, or a broken one, raises
        raise ConfigError(
            f"wide_search: the package {name} holds no table of {kind} that can be read "
            f"({type(error).__name__}: {error}); run pip install --force-reinstall "
            "'sparring[tables]'."
        ) from None
    if len(found.rows) < LEAST:
        raise ConfigError(
            f"wide_search: the package {name} gives {len(found.rows)} {kind} without a gap, and at "
            f"least {LEAST} are asked for; run pip install --force-reinstall 'sparring[tables]'."
        )
    return found


@lru_cache(maxsize=64)
def questions(kind: str, most: int, other: bool) -> tuple[Filter, ...]:
    """Return the filters of a table that questions are made of, of 2 to ``most`` rows.

    One of five is kept for the other banks, so that what is measured was not trained on.

    Raises:
        ConfigError: as ``table``, or too few filters have so few rows.
    """
    found = table(kind).filters(most)
    kept = tuple(one for number, one in enumerate(found) if (number % HELD == HELD - 1) == other)
    if not kept:
        raise ConfigError(
            f"wide_search: of tables={kind} only {len(found)} filters have 2 to {most} rows; "
            "write items=8."
        )
    return kept


def _table(
    kind: str,
    key: str,
    columns: tuple[str, ...],
    rows: Iterable[tuple[Any, Sequence[str]]],
    grouped: tuple[str, ...],
    ranged: str = "",
) -> Table:
    """Return a table of the rows that have a key of their own, and no gap."""
    whole = {_text(name): tuple(values) for name, values in rows if all(values)}
    whole.pop("", None)
    return Table(kind, key, columns, tuple(sorted(whole.items())), grouped, ranged)


def _text(fact: Any) -> str:
    """Return a fact in words on one line; "" where there is none. A bar would end a cell."""
    if isinstance(fact, list | tuple):
        return ", ".join(_text(part) for part in fact)
    if isinstance(fact, float):
        fact = f"{fact:.6g}"
    return "" if fact is None else " ".join(str(fact).replace("|", "/").split())


INVENTED = "things"
NAMES = tuple(
    f"{first}{last}"
    for first in ("ar", "be", "co", "du", "el", "fi", "go", "hu")
    for last in ("dan", "mir", "sol", "tek", "vor", "zin")
)
VALUES = {
    "colour": ("red", "blue", "green", "black", "white", "pink", "grey", "gold"),
    "size": ("tiny", "small", "short", "medium", "tall", "large", "huge", "giant"),
    "food": ("bread", "rice", "fish", "fruit", "nuts", "milk", "honey", "soup"),
    "place": ("north", "south", "east", "west", "coast", "forest", "desert", "island"),
}
COLUMNS = tuple(VALUES)


@dataclass(frozen=True, slots=True)
class World:
    """A table: names of its rows, and the values of each by column.

    Args:
        names: of its rows.
        columns: beside the name.
        values: of each row, in order of the columns.
        kind: what the rows are: things, countries, elements or airports.
        key: what the column of names is called.
        asked: which rows of a real table these are, in words; "" for all there are.
    """

    names: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    kind: str = INVENTED
    key: str = "name"
    asked: str = ""

    def row(self, item: int) -> dict[str, str]:
        """Return the values of a row by column."""
        return dict(zip(self.columns, self.values[item], strict=True))

    def rows(self) -> dict[str, dict[str, str]]:
        """Return the whole table by name."""
        return {name: self.row(item) for item, name in enumerate(self.names)}


@lru_cache(maxsize=4096)
def world(stream: Stream, items: int, columns: int) -> World:
    """Return the world of a stream, of so many rows and columns."""
    names = stream.child("names").shuffled(NAMES, items)
    drawn, named = stream.child("values"), COLUMNS[:columns]
    return World(
        names=tuple(names),
        columns=named,
        values=tuple(
            tuple(
                VALUES[name][drawn.integer(row * len(COLUMNS) + place, len(VALUES[name]))]
                for place, name in enumerate(named)
            )
            for row in range(items)
        ),
    )


@lru_cache(maxsize=4096)
def real_world(stream: Stream, kind: str, items: int, columns: int, other: bool) -> World:
    """Return what the question of a stream asks of a real table: kind, filter and columns.

    Args:
        stream: that draws the filter and the columns.
        kind: "countries", "elements" or "airports".
        items: most rows.
        columns: how many.
        other: whether the filter is one of those that are kept for the other banks.

    Raises:
        ConfigError: the table's package is missing or broken, or no filter has so few rows.
    """
    whole, filters = table(kind), questions(kind, items, other)
    asked = filters[stream.child("filter").integer(0, len(filters))]
    left, drawn = [name for name in whole.columns if name != asked.column], stream.child("columns")
    named = [left.pop(drawn.integer(place, len(left))) for place in range(columns)]
    places = [whole.columns.index(name) for name in named]
    rows = [whole.rows[number] for number in asked.rows]
    return World(
        names=tuple(name for name, _ in rows),
        columns=tuple(named),
        values=tuple(tuple(values[place] for place in places) for _, values in rows),
        kind=kind,
        key=whole.key,
        asked=asked.text,
    )
