"""Worlds of ``wide_search``: tables of things with invented names, or of real facts."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sparring.core.errors import ConfigError
from sparring.core.rng import Stream

MIN_ROWS = 50  # smallest number of complete rows of a package's table
HELD_OUT_STEP = 5  # every fifth filter is held out for evaluation banks
Row = tuple[str, tuple[str, ...]]  # key, and values in order of the columns


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition that selects the rows of a question, such as "whose region is Europe".

    Args:
        text: the condition in words.
        column: the column that the condition reveals, "" for none.
        rows: numbers of the rows that fulfil the condition, ascending.
    """

    text: str
    column: str
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PackageTable:
    """The rows of a package's table that have a value in every column.

    Args:
        kind: the kind of its rows, such as "countries".
        key: name of the column that names a row.
        columns: the other columns.
        rows: rows in order of their keys.
        filter_columns: columns of which each value makes a filter.
        range_column: the column of whole numbers whose ranges make filters, "" for none.
    """

    kind: str
    key: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    filter_columns: tuple[str, ...]
    range_column: str = ""

    def filters(self, max_rows: int) -> tuple[Filter, ...]:
        """Return the filters that 2 to ``max_rows`` rows pass, in order of their texts."""
        filters: dict[Filter, None] = {}
        for column in self.filter_columns:
            index = self.columns.index(column)
            values = [cells[index] for _, cells in self.rows]
            filters |= _value_filters(column, f"whose {column} is", values)
        letters = [name[0] for name, _ in self.rows]
        filters |= _value_filters("", f"whose {self.key} begins with", letters)
        if self.range_column:
            filters |= dict.fromkeys(self._ranges(max_rows))
        small_filters = (f for f in filters if 2 <= len(f.rows) <= max_rows)
        return tuple(sorted(small_filters, key=lambda f: f.text))

    def _ranges(self, max_rows: int) -> Iterable[Filter]:
        """Return the ranges of ``range_column`` that exactly ``max_rows`` rows pass."""
        index = self.columns.index(self.range_column)
        order = sorted(range(len(self.rows)), key=lambda row: int(self.rows[row][1][index]))
        for start in range(len(order) - max_rows + 1):
            rows = order[start : start + max_rows]
            first, last = (self.rows[row][1][index] for row in (rows[0], rows[-1]))
            text = f"whose {self.range_column} is from {first} to {last}"
            yield Filter(text, self.range_column, tuple(sorted(rows)))


def _value_filters(column: str, words: str, values: Sequence[str]) -> dict[Filter, None]:
    """Return a filter for each value of a column, given the values of all rows in order."""
    rows: dict[str, list[int]] = {}
    for number, value in enumerate(values):
        rows.setdefault(value, []).append(number)
    return {Filter(f"{words} {value}", column, tuple(group)): None for value, group in rows.items()}


def countries(package: Any) -> PackageTable:
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
        rows.append((facts["name"], [_one_line(facts.get(field)) for field in names.values()]))
    filter_columns = ("region", "subregion", "currency")
    return _full_table("countries", "name", tuple(names), rows, filter_columns)


def elements(package: Any) -> PackageTable:
    """Return the chemical elements of the package periodictable."""
    columns = ("symbol", "atomic number", "atomic mass", "density", "covalent radius", "period")
    period_ends = (2, 10, 18, 36, 54, 86, 118)
    rows = []
    for atom in package.elements:
        if atom.number:
            period = 1 + sum(end < atom.number for end in period_ends)
            facts = (atom.symbol, atom.number, atom.mass, atom.density, atom.covalent_radius)
            rows.append((atom.name, [_one_line(fact) for fact in (*facts, period)]))
    return _full_table("elements", "name", columns, rows, ("period",), "atomic number")


def airports(package: Any) -> PackageTable:
    """Return the airports of the package airportsdata, by their codes of three letters."""
    columns = ("airport", "city", "country", "elevation", "time zone", "ICAO code", "region")
    rows = []
    for code, row in package.load("IATA").items():
        region = f"{row['subd']}, {row['country']}" if row["subd"] else ""
        facts = (row["name"], row["city"], row["country"], row["elevation"], row["tz"], row["icao"])
        rows.append((code, [_one_line(fact) for fact in (*facts, region)]))
    return _full_table("airports", "code", columns, rows, ("region", "country"))


READERS = {
    "countries": (countries, "countryinfo"),
    "elements": (elements, "periodictable"),
    "airports": (airports, "airportsdata"),
}


@lru_cache(maxsize=len(READERS))
def table(kind: str) -> PackageTable:
    """Return a table of a package, from a cache.

    Args:
        kind: "countries", "elements" or "airports".

    Raises:
        ConfigError: the package is not installed, or has no such table.
    """
    reader, name = READERS[kind]
    try:
        package = importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(
            f"wide_search: tables={kind} needs the package {name}, which cannot be imported "
            f"({error}); run pip install 'sparring[tables]', or write tables=invented."
        ) from None
    try:
        full_table = reader(package)
    except Exception as error:  # another version of the package may raise anything
        raise ConfigError(
            f"wide_search: the package {name} has no readable table of {kind} "
            f"({type(error).__name__}: {error}); run pip install --force-reinstall "
            "'sparring[tables]'."
        ) from None
    if len(full_table.rows) < MIN_ROWS:
        raise ConfigError(
            f"wide_search: the package {name} gives {len(full_table.rows)} complete {kind}, but at "
            f"least {MIN_ROWS} are required; run pip install --force-reinstall 'sparring[tables]'."
        )
    return full_table


@lru_cache(maxsize=64)
def questions(kind: str, max_rows: int, is_held_out: bool) -> tuple[Filter, ...]:
    """Return the filters with 2 to ``max_rows`` rows for evaluation (held out) or for training.

    One filter in five is held out for evaluation banks, so training never uses this filter.

    Raises:
        ConfigError: ``table`` fails, or no filter has so few rows.
    """
    filters = table(kind).filters(max_rows)
    last = HELD_OUT_STEP - 1
    subset = tuple(f for n, f in enumerate(filters) if (n % HELD_OUT_STEP == last) == is_held_out)
    if not subset:
        raise ConfigError(
            f"wide_search: only {len(filters)} filters of tables={kind} have 2 to {max_rows} rows; "
            "write items=8."
        )
    return subset


def _full_table(
    kind: str,
    key: str,
    columns: tuple[str, ...],
    rows: Iterable[tuple[Any, Sequence[str]]],
    filter_columns: tuple[str, ...],
    range_column: str = "",
) -> PackageTable:
    values_of = {_one_line(name): tuple(values) for name, values in rows if all(values)}
    values_of.pop("", None)
    sorted_rows = tuple(sorted(values_of.items()))
    return PackageTable(kind, key, columns, sorted_rows, filter_columns, range_column)


def _one_line(fact: Any) -> str:
    """Return a fact on one line, "" for None; "/" replaces "|", which would end a cell."""
    if isinstance(fact, list | tuple):
        return ", ".join(map(_one_line, fact))
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
    """A table of rows and columns.

    Args:
        names: names of the rows.
        columns: the columns besides the name.
        values: values of each row, in order of the columns.
        kind: the kind of the rows: things, countries, elements or airports.
        key: name of the column of names.
        asked: the condition on the rows of a real table, in words; "" for all rows.
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
    """Draw an invented world from a stream."""
    names = stream.child("names").shuffled(NAMES, items)
    value_stream, all_names = stream.child("values"), COLUMNS[:columns]
    return World(
        names=tuple(names),
        columns=all_names,
        values=tuple(
            tuple(
                VALUES[name][value_stream.integer(row * len(COLUMNS) + index, len(VALUES[name]))]
                for index, name in enumerate(all_names)
            )
            for row in range(items)
        ),
    )


@lru_cache(maxsize=4096)
def real_world(stream: Stream, kind: str, items: int, columns: int, is_held_out: bool) -> World:
    """Draw a question about a real table from a stream.

    Args:
        stream: source of random numbers for the filter and the columns.
        kind: "countries", "elements" or "airports".
        items: largest number of rows.
        columns: number of columns.
        is_held_out: whether to draw a filter that is held out for evaluation banks.

    Raises:
        ConfigError: the table's package is missing or broken, or no filter has so few rows.
    """
    source, filters = table(kind), questions(kind, items, is_held_out)
    row_filter = filters[stream.child("filter").integer(0, len(filters))]
    all_names = [name for name in source.columns if name != row_filter.column]
    column_stream = stream.child("columns")
    names = [
        all_names.pop(column_stream.integer(index, len(all_names))) for index in range(columns)
    ]
    indices = [source.columns.index(name) for name in names]
    rows = [source.rows[number] for number in row_filter.rows]
    return World(
        names=tuple(name for name, _ in rows),
        columns=tuple(names),
        values=tuple(tuple(values[index] for index in indices) for _, values in rows),
        kind=kind,
        key=source.key,
        asked=row_filter.text,
    )
