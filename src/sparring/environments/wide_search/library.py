"""The pages of a world (one for each thing, lists, distractors) and their search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from sparring.core.rng import Stream
from sparring.environments.toolbox import search
from sparring.environments.wide_search.world import INVENTED, World, table

RESULTS = 3  # most pages of a search
LISTED = "of all there are these have it on a page of their own"  # the text of a list


@dataclass(frozen=True, slots=True)
class Page:
    """A page.

    Args:
        title: the title in search results.
        text: the content, which a search matches.
        item: number of the row that the page is about, -1 for none.
        longer: further words that count in a search: of two matching pages the shorter ranks first.
    """

    title: str
    text: str
    item: int = -1
    longer: str = ""


@lru_cache(maxsize=256)
def library(world: World, distractors: int, brief: bool) -> tuple[Page, ...]:
    """Return the pages of a world in random order, a function of the arguments only.

    Args:
        world: the world; its ``repr`` seeds the draws, so its field names must not change.
        distractors: number of further pages: for invented things news about two of them, for real
            tables the pages of other rows.
        brief: whether the style is brief.
    """
    stream = Stream.from_seed(0).child("library").child(repr(world)).child(distractors)
    draws = stream.child("distractors")
    if world.kind == INVENTED:
        pages = [
            *(
                _row_page(name, world.row(item), item, brief)
                for item, name in enumerate(world.names)
            ),
            *_lists(world, brief),
            *(_news(world, number, draws, brief) for number in range(distractors)),
        ]
    else:
        pages = _real(world, distractors, draws)
    order = stream.child("order")
    return tuple(pages[place] for place in sorted(range(len(pages)), key=order.uniform))


def find(pages: Sequence[Page], words: str) -> tuple[int, ...]:
    """Return the numbers of the pages with any of the words, the best first.

    Raises:
        GameError: Python's SQLite was built without FTS5.
    """
    texts = tuple(f"{page.text} {page.longer}" for page in pages)
    numbers = {text: number for number, text in enumerate(texts)}
    return tuple(numbers[text] for text in search(texts, words, limit=RESULTS))


def _row_page(name: str, row: dict[str, str], item: int, brief: bool) -> Page:
    if brief:
        words = (word for pair in row.items() for word in pair)
        return Page(name, f"{name} {' '.join(words)}", item)
    facts = "\n".join(f"- {column}: {value}" for column, value in row.items())
    return Page(name, f"# {name}\n\n{facts}", item)


def _list_page(title: str, names: Sequence[str]) -> Page:
    lines = "\n".join(f"- {name}" for name in names)
    return Page(title, f"# {title}\n\n{LISTED.capitalize()}:\n\n{lines}")


def _lists(world: World, brief: bool) -> list[Page]:
    """Return a page for each value, with the names of the rows that have the value.

    The page does not name the column, and is longer than the pages of rows, so a search for a name
    and a column finds the page of the row.
    """
    names: dict[str, list[str]] = {}
    for name, values in zip(world.names, world.values, strict=True):
        for value in values:
            names.setdefault(value, []).append(name)
    if not brief:
        return [_list_page(f"List: {value}", holders) for value, holders in names.items()]
    return [
        Page(f"list {value}", f"list {value} of {' '.join(holders)}", longer=LISTED)
        for value, holders in names.items()
    ]


def _news(world: World, number: int, stream: Stream, brief: bool) -> Page:
    """Return a page that names two rows without any cell."""
    first, second = (
        world.names[stream.integer(2 * number + place, len(world.names))] for place in range(2)
    )
    if brief:
        return Page(f"news {first} {second}", f"news {number + 1} {first} {second}")
    title = f"News {number + 1}: {first} and {second}"
    return Page(title, f"# {title}\n\nSomebody saw {first} together with {second}.")


def _real(world: World, distractors: int, stream: Stream) -> list[Page]:
    source = table(world.kind)
    items = {name: item for item, name in enumerate(world.names)}
    pages: list[tuple[str, dict[str, str]]] = []
    others: list[tuple[str, dict[str, str]]] = []
    for name, values in source.rows:
        row = dict(zip(source.columns, values, strict=True))
        (pages if name in items else others).append((name, row))
    for place in range(min(distractors, len(others))):
        pages.append(others.pop(stream.integer(place, len(others))))
    title = f"{world.kind.capitalize()} {world.asked}"
    row_pages = [_row_page(name, row, items.get(name, -1), False) for name, row in pages]
    return [*row_pages, _list_page(title, world.names)]
