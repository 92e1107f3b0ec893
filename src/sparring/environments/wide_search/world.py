"""Worlds: things with invented names, which no model has seen, or rows of a real table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from sparring.core.rng import Stream
from sparring.environments.wide_search.tables import questions, table

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
