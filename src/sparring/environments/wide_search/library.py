"""The pages of a world (one for each row, lists, distractors) and the search for pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from sparring.core.rng import Stream
from sparring.environments.toolbox import search
from sparring.environments.wide_search.world import INVENTED, World, table

MAX_RESULTS = 3  # largest number of pages that a search returns
LIST_INTRO = "of all there are these have it on a page of their own"  # first words of a list


@dataclass(frozen=True, slots=True)
class Page:
    """A page that a worker can find and open.

    Args:
        title: the title in search results.
        text: the content, which a search matches.
        item: number of the row that the page describes; -1 if the page describes no row.
        padding: hidden words that lower the page's rank, because a search prefers short pages.
    """

    title: str
    text: str
    item: int = -1
    padding: str = ""


@lru_cache(maxsize=256)
def library(world: World, distractors: int, brief: bool) -> tuple[Page, ...]:
    """Return the pages of a world, in a random order that depends only on the arguments.

    Args:
        world: the world; its ``repr`` seeds the draws, so its field names must not change.
        distractors: number of irrelevant pages: news about two invented things, or pages of other
            rows of a real table.
        brief: whether the style is brief.
    """
    stream = Stream.from_seed(0).child("library").child(repr(world)).child(distractors)
    news_stream = stream.child("distractors")
    if world.kind == INVENTED:
        pages = [
            *(
                _row_page(name, world.row(item), item, brief)
                for item, name in enumerate(world.names)
            ),
            *_list_pages(world, brief),
            *(_news_page(world, number, news_stream, brief) for number in range(distractors)),
        ]
    else:
        pages = _real_pages(world, distractors, news_stream)
    order_stream = stream.child("order")
    return tuple(pages[index] for index in sorted(range(len(pages)), key=order_stream.uniform))


def find_pages(pages: Sequence[Page], words: str) -> tuple[int, ...]:
    """Return the indices of the best pages that contain any of the words, best first.

    Raises:
        GameError: Python's SQLite was built without FTS5.
    """
    texts = tuple(f"{page.text} {page.padding}" for page in pages)
    index_of = {text: index for index, text in enumerate(texts)}
    return tuple(index_of[text] for text in search(texts, words, limit=MAX_RESULTS))


def _row_page(name: str, row: dict[str, str], item: int, brief: bool) -> Page:
    if brief:
        words = (word for pair in row.items() for word in pair)
        return Page(name, f"{name} {' '.join(words)}", item)
    facts = "\n".join(f"- {column}: {value}" for column, value in row.items())
    return Page(name, f"# {name}\n\n{facts}", item)


def _list_page(title: str, names: Sequence[str]) -> Page:
    lines = "\n".join(f"- {name}" for name in names)
    return Page(title, f"# {title}\n\n{LIST_INTRO.capitalize()}:\n\n{lines}")


def _list_pages(world: World, brief: bool) -> list[Page]:
    """Return a page for each value, with the names of the rows that have the value.

    The page does not name the column and is longer than the page of a row. So a search for a name
    and a column finds the page of the row.
    """
    names_by_value: dict[str, list[str]] = {}
    for name, values in zip(world.names, world.values, strict=True):
        for value in values:
            names_by_value.setdefault(value, []).append(name)
    if not brief:
        return [_list_page(f"List: {value}", names) for value, names in names_by_value.items()]
    return [
        Page(f"list {value}", f"list {value} of {' '.join(names)}", padding=LIST_INTRO)
        for value, names in names_by_value.items()
    ]


def _news_page(world: World, number: int, stream: Stream, brief: bool) -> Page:
    """Return a distractor: a page that names two rows without any of their values."""
    first, second = (
        world.names[stream.integer(2 * number + index, len(world.names))] for index in range(2)
    )
    if brief:
        return Page(f"news {first} {second}", f"news {number + 1} {first} {second}")
    title = f"News {number + 1}: {first} and {second}"
    return Page(title, f"# {title}\n\nSomebody saw {first} together with {second}.")


def _real_pages(world: World, distractors: int, stream: Stream) -> list[Page]:
    source = table(world.kind)
    item_of = {name: item for item, name in enumerate(world.names)}
    page_rows: list[tuple[str, dict[str, str]]] = []
    other_rows: list[tuple[str, dict[str, str]]] = []
    for name, values in source.rows:
        row = dict(zip(source.columns, values, strict=True))
        (page_rows if name in item_of else other_rows).append((name, row))
    for index in range(min(distractors, len(other_rows))):
        page_rows.append(other_rows.pop(stream.integer(index, len(other_rows))))
    title = f"{world.kind.capitalize()} {world.asked}"
    row_pages = [_row_page(name, row, item_of.get(name, -1), False) for name, row in page_rows]
    return [*row_pages, _list_page(title, world.names)]
