"""A world that no model has seen: things with invented names, and a page on each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from sparring.rng import Stream

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
    """A table: names of its rows, and the values of each by column."""

    names: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]

    def row(self, item: int) -> dict[str, str]:
        """Return the values of a row by column."""
        return dict(zip(self.columns, self.values[item], strict=True))

    def rows(self) -> dict[str, dict[str, str]]:
        """Return the whole table by name."""
        return {name: self.row(item) for item, name in enumerate(self.names)}


@lru_cache(maxsize=4096)
def world(stream: Stream, items: int, columns: int) -> World:
    """Return the world of a stream, of so many rows and columns."""
    names, drawn = list(NAMES), stream.child("names")
    for place in range(items):  # as many draws as there are rows: banks have many worlds
        other = place + drawn.integer(place, len(names) - place)
        names[place], names[other] = names[other], names[place]
    drawn, named = stream.child("values"), COLUMNS[:columns]
    return World(
        names=tuple(names[:items]),
        columns=named,
        values=tuple(
            tuple(
                VALUES[name][drawn.integer(row * len(COLUMNS) + place, len(VALUES[name]))]
                for place, name in enumerate(named)
            )
            for row in range(items)
        ),
    )
