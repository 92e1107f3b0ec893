"""Logic-grid puzzles: unit propagation and exact search over bit masks.

A puzzle has ``houses`` houses in a row and ``attributes`` attributes with ``houses`` values each;
every house has one value of each attribute, and no two houses have the same value. An item is a
value of an attribute; its number is attribute * houses + value. A board is a tuple with value + 1
at index house * attributes + attribute, or 0 for an empty cell. The possible houses of an item are
an int: bit h stands for house h.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Board = tuple[int, ...]
Clue = tuple[str, int, int]  # kind, item, and a house (kinds in PLACES) or another item

PLACES = ("is", "not")  # the item is in the house, or is not
LINKS = ("with", "without")  # both items are in one house, or are not
# the first item is directly left of the second, anywhere left of it, or beside it
ORDER = ("left", "before", "next")
KINDS = (*PLACES, *LINKS, *ORDER)
SYMMETRIC = (*LINKS, "next")

# possible houses of two items -> fewer houses
NarrowFunction = Callable[[int, int], tuple[int, int]]
Link = tuple[NarrowFunction, int, int]  # function, numbers of both items


def clue_holds(kind: str, a: int, b: int) -> bool:
    """Return whether a clue is true if its item is in house ``a`` and its other item in ``b``."""
    if kind in ("is", "with"):
        return a == b
    if kind in ("not", "without"):
        return a != b
    return {"left": b - a == 1, "before": a < b, "next": abs(a - b) == 1}[kind]


def _narrow_without(a: int, b: int) -> tuple[int, int]:
    """Return the possible houses of two items that share no house."""
    if a & (a - 1) == 0:
        b &= ~a
    return (a & ~b if b & (b - 1) == 0 else a), b


def _narrow_left(a: int, b: int) -> tuple[int, int]:
    """Return the possible houses of two items, the first directly left of the second."""
    a &= b >> 1
    return a, b & a << 1


def _narrow_before(a: int, b: int) -> tuple[int, int]:
    """Return the possible houses of two items, the first anywhere left of the second."""
    a &= (1 << max(b.bit_length() - 1, 0)) - 1
    return a, b & ~(((a & -a) << 1) - 1) if a else 0


def _narrow_next(a: int, b: int) -> tuple[int, int]:
    a &= b << 1 | b >> 1
    return a, b & (a << 1 | a >> 1)


NARROW_FUNCTIONS: dict[str, NarrowFunction] = {
    "with": lambda a, b: (a & b, a & b),
    "without": _narrow_without,
    "left": _narrow_left,
    "before": _narrow_before,
    "next": _narrow_next,
}


def items_at(houses: int, attributes: int, board: Sequence[int]) -> list[int | None]:
    """Return the last house of each item on a board, None for an item without a house."""
    house_of: list[int | None] = [None] * (houses * attributes)
    for cell, value in enumerate(board):
        if value:
            house, attribute = divmod(cell, attributes)
            house_of[attribute * houses + value - 1] = house
    return house_of


def true_clues(houses: int, attributes: int, board: Board, kind: str) -> list[Clue]:
    """Return all clues of a kind that are true of a full board and not trivial."""
    house_of = items_at(houses, attributes, board)
    items = range(len(house_of))
    if kind in PLACES:
        return [
            (kind, item, house)
            for item in items
            for house in range(houses)
            if clue_holds(kind, house_of[item] or 0, house)
        ]
    pairs = [(a, b) for a in items for b in items if a < b or (a != b and kind not in SYMMETRIC)]
    if kind in LINKS:
        pairs = [(a, b) for a, b in pairs if a // houses != b // houses]
    return [(kind, a, b) for a, b in pairs if clue_holds(kind, house_of[a] or 0, house_of[b] or 0)]


def possible_houses(
    houses: int, attributes: int, clues: Sequence[Clue], board: Sequence[int]
) -> list[int] | None:
    """Return the possible houses of each item by unit propagation, None for a contradiction.

    Propagation repeats three rules until nothing changes: arc consistency on every clue, an item's
    only house, and a house's only item of an attribute. The result equals unit propagation on the
    clauses "if item a is in house h, item b is in one of the houses that the clue allows for h".
    """
    houses_of = [(1 << houses) - 1] * (houses * attributes)
    for cell, value in enumerate(board):
        if value:
            house, attribute = divmod(cell, attributes)
            houses_of[attribute * houses + value - 1] &= 1 << house
    for kind, item, house in clues:
        if kind in PLACES:
            houses_of[item] &= 1 << house if kind == "is" else ~(1 << house)
    return houses_of if _propagate(houses, houses_of, _links(clues)) else None


def _links(clues: Sequence[Clue]) -> list[Link]:
    return [(NARROW_FUNCTIONS[kind], a, b) for kind, a, b in clues if kind in NARROW_FUNCTIONS]


def _propagate(houses: int, houses_of: list[int], links: Sequence[Link]) -> bool:
    """Narrow the possible houses in place; return whether every item still has a house."""
    previous: list[int] = []
    while previous != houses_of:
        previous = houses_of[:]
        for narrow, item, other in links:
            houses_of[item], houses_of[other] = narrow(houses_of[item], houses_of[other])
        for first in range(0, len(houses_of), houses):
            if not _narrow_attribute(houses_of, first, first + houses):
                return False
        if not all(houses_of):
            return False
    return True


def _narrow_attribute(houses_of: list[int], first: int, end: int) -> bool:
    """Give the values of one attribute different houses; return whether that is possible."""
    for item in range(first, end):
        houses = houses_of[item]
        if houses & (houses - 1) == 0:
            for other in range(first, end):
                if other != item:
                    houses_of[other] &= ~houses
    seen_once = seen_twice = 0
    for item in range(first, end):
        seen_twice |= seen_once & houses_of[item]
        seen_once |= houses_of[item]
    single_houses = seen_once & ~seen_twice
    for item in range(first, end):
        item_houses = houses_of[item] & single_houses
        if item_houses:
            houses_of[item] = item_houses
            if item_houses & (item_houses - 1):
                return False
    return seen_once == (1 << end - first) - 1


def solutions(
    houses: int, attributes: int, clues: Sequence[Clue], board: Sequence[int] = (), limit: int = 2
) -> list[Board]:
    """Return at most ``limit`` full boards that agree with the clues and with ``board``."""
    houses_of = possible_houses(houses, attributes, clues, board)
    boards: list[Board] = []
    if houses_of is not None:
        _search(houses, attributes, houses_of, _links(clues), limit, boards)
    return boards


def _search(
    houses: int,
    attributes: int,
    houses_of: list[int],
    links: Sequence[Link],
    limit: int,
    boards: list[Board],
) -> None:
    """Try each possible house of the item with the fewest possible houses, and recurse."""
    item = min(
        (item for item, item_houses in enumerate(houses_of) if item_houses & (item_houses - 1)),
        key=lambda item: houses_of[item].bit_count(),
        default=-1,
    )
    if item < 0:
        boards.append(_board(houses, attributes, houses_of))
        return
    for house in range(houses):
        if houses_of[item] >> house & 1 and len(boards) < limit:
            next_houses_of = houses_of[:]
            next_houses_of[item] = 1 << house
            if _propagate(houses, next_houses_of, links):
                _search(houses, attributes, next_houses_of, links, limit, boards)


def _board(houses: int, attributes: int, houses_of: Sequence[int]) -> Board:
    cells = [0] * (houses * attributes)
    for item, item_houses in enumerate(houses_of):
        if item_houses & (item_houses - 1) == 0:
            attribute, value = divmod(item, houses)
            cells[(item_houses.bit_length() - 1) * attributes + attribute] = value + 1
    return tuple(cells)


def deduce_board(
    houses: int, attributes: int, clues: Sequence[Clue], board: Sequence[int] = ()
) -> Board | None:
    """Return the board filled by unit propagation, None for a contradiction."""
    houses_of = possible_houses(houses, attributes, clues, board)
    return None if houses_of is None else _board(houses, attributes, houses_of)
