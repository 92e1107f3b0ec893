"""The pages of a world: one on each thing, lists, and pages that lead nowhere; and their search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from sparring.core.rng import Stream
from sparring.environments.toolbox import search
from sparring.environments.wide_search.world import INVENTED, World, table

RESULTS = 3  # pages that a search gives at most
LISTED = "of all there are these have it on a page of their own"  # said on a list


@dataclass(frozen=True, slots=True)
class Page:
    """A page.

    Args:
        title: by which a search shows it.
        text: what is read when it is opened, and the words by which it is found.
        item: number of the row that it is on, -1 for none.
        longer: words that a search counts as the page's, too: of two pages that have what is asked
            for the shorter one is better.
    """

    title: str
    text: str
    item: int = -1
    longer: str = ""


@lru_cache(maxsize=256)
def library(world: World, distractors: int, brief: bool) -> tuple[Page, ...]:
    """Return the pages of a world, a function of these alone, in an order of no meaning.

    Args:
        world: what is searched for.
        distractors: pages beside those on its rows and the lists: of invented things news that
            names two of them, of real tables the pages on other rows.
        brief: whether they are worded for a tiny model.
    """
    stream = Stream.from_seed(0).child("library").child(repr(world)).child(distractors)
    drawn = stream.child("distractors")
    if world.kind == INVENTED:
        pages = [
            *(_thing(name, world.row(item), item, brief) for item, name in enumerate(world.names)),
            *_lists(world, brief),
            *(_news(world, number, drawn, brief) for number in range(distractors)),
        ]
    else:
        pages = _real(world, distractors, drawn)
    order = stream.child("order")
    return tuple(pages[place] for place in sorted(range(len(pages)), key=order.uniform))


def find(pages: Sequence[Page], words: str) -> tuple[int, ...]:
    """Return the numbers of the pages that have any of some words, the best first.

    Raises:
        GameError: Python's SQLite was built without FTS5.
    """
    texts = tuple(f"{page.text} {page.longer}" for page in pages)
    numbers = {text: number for number, text in enumerate(texts)}
    return tuple(numbers[text] for text in search(texts, words, limit=RESULTS))


def _thing(name: str, row: dict[str, str], item: int, brief: bool) -> Page:
    if brief:
        words = (word for pair in row.items() for word in pair)
        return Page(name, f"{name} {' '.join(words)}", item)
    facts = "\n".join(f"- {column}: {value}" for column, value in row.items())
    return Page(name, f"# {name}\n\n{facts}", item)


def _list(title: str, names: Sequence[str]) -> Page:
    listed = "\n".join(f"- {name}" for name in names)
    return Page(title, f"# {title}\n\n{LISTED.capitalize()}:\n\n{listed}")


def _lists(world: World, brief: bool) -> list[Page]:
    """Return a page for each value that a row has, with the names of those that have it.

    It does not say of which column, and is longer than the pages on rows, so that a search for a
    name and a column finds the row's own page.
    """
    names: dict[str, list[str]] = {}
    for name, values in zip(world.names, world.values, strict=True):
        for value in values:
            names.setdefault(value, []).append(name)
    if not brief:
        return [_list(f"List: {value}", own) for value, own in names.items()]
    return [
        Page(f"list {value}", f"list {value} of {' '.join(own)}", longer=LISTED)
        for value, own in names.items()
    ]


def _news(world: World, number: int, stream: Stream, brief: bool) -> Page:
    """Return a page that names two rows, and says nothing of their cells."""
    one, two = (
        world.names[stream.integer(2 * number + place, len(world.names))] for place in range(2)
    )
    if brief:
        return Page(f"news {one} {two}", f"news {number + 1} {one} {two}")
    title = f"News {number + 1}: {one} and {two}"
    return Page(title, f"# {title}\n\nSomebody saw {one} together with {two}.")


def _real(world: World, distractors: int, stream: Stream) -> list[Page]:
    whole = table(world.kind)
    items = {name: item for item, name in enumerate(world.names)}
    pages: list[tuple[str, dict[str, str]]] = []
    others: list[tuple[str, dict[str, str]]] = []
    for name, values in whole.rows:
        row = dict(zip(whole.columns, values, strict=True))
        (pages if name in items else others).append((name, row))
    for place in range(min(distractors, len(others))):
        pages.append(others.pop(stream.integer(place, len(others))))
    title = f"{world.kind.capitalize()} {world.asked}"
    found = [_thing(name, row, items.get(name, -1), False) for name, row in pages]
    return [*found, _list(title, world.names)]
