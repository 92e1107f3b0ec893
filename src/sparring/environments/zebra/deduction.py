"""Logic-grid puzzles: what clues allow, by unit propagation and exact search over bit masks.

A puzzle has ``houses`` houses in a row and ``attributes`` attributes, each with as many values as
there are houses; every house has one value of each, and no two houses share one. An item is a value
of an attribute, number attribute * houses + value. A board is a tuple of value + 1 per cell house *
attributes + attribute, 0 for an empty cell. Where an item can be is an int: bit h stands for house
h.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Board = tuple[int, ...]
Clue = tuple[str, int, int]  # a kind; an item; a house for kinds in PLACES, else another item

PLACES = ("is", "not")  # the item is in the house, or is not
LINKS = ("with", "without")  # the two are in one house, or are not
# the first is directly left of the second, anywhere left of it, or beside it
ORDER = ("left", "before", "next")
KINDS = (*PLACES, *LINKS, *ORDER)
SYMMETRIC = (*LINKS, "next")

Narrow = Callable[[int, int], tuple[int, int]]


def holds(kind: str, one: int, two: int) -> bool:
    """Return whether a clue is true of the item in house ``one``, and of house or item ``two``."""
    if kind in ("is", "with"):
        return one == two
    if kind in ("not", "without"):
        return one != two
    return {"left": two - one == 1, "before": one < two, "next": abs(one - two) == 1}[kind]


def _without(one: int, two: int) -> tuple[int, int]:
    """Return where two items can be that share no house."""
    if one & (one - 1) == 0:
        two &= ~one
    return (one & ~two if two & (two - 1) == 0 else one), two


def _left(one: int, two: int) -> tuple[int, int]:
    """Return where two items can be, the first directly left of the second."""
    one &= two >> 1
    return one, two & one << 1


def _before(one: int, two: int) -> tuple[int, int]:
    """Return where two items can be, the first anywhere left of the second."""
    one &= (1 << max(two.bit_length() - 1, 0)) - 1
    return one, two & ~(((one & -one) << 1) - 1) if one else 0


def _next(one: int, two: int) -> tuple[int, int]:
    """Return where two items can be that are neighbours."""
    one &= two << 1 | two >> 1
    return one, two & (one << 1 | one >> 1)


NARROW: dict[str, Narrow] = {
    "with": lambda one, two: (one & two, one & two),
    "without": _without,
    "left": _left,
    "before": _before,
    "next": _next,
}


def items_at(houses: int, attributes: int, board: Sequence[int]) -> list[int | None]:
    """Return the last house of each item on a board, None where it has none yet."""
    out: list[int | None] = [None] * (houses * attributes)
    for cell, value in enumerate(board):
        if value:
            house, attribute = divmod(cell, attributes)
            out[attribute * houses + value - 1] = house
    return out


def true_clues(houses: int, attributes: int, board: Board, kind: str) -> list[Clue]:
    """Return all clues of a kind that are true of a full board and say something."""
    at = items_at(houses, attributes, board)
    items = range(len(at))
    if kind in PLACES:
        return [
            (kind, item, house)
            for item in items
            for house in range(houses)
            if holds(kind, at[item] or 0, house)
        ]
    pairs = [
        (one, two)
        for one in items
        for two in items
        if one < two or (one != two and kind not in SYMMETRIC)
    ]
    if kind in LINKS:
        pairs = [(one, two) for one, two in pairs if one // houses != two // houses]
    return [(kind, one, two) for one, two in pairs if holds(kind, at[one] or 0, at[two] or 0)]


def narrowed(
    houses: int, attributes: int, clues: Sequence[Clue], board: Sequence[int]
) -> list[int] | None:
    """Return where each item can be, by unit propagation from the clues and a board.

    None if it finds a contradiction.

    Propagation is arc consistency on every clue, an item in its only house, and a house's only item
    of an attribute, until nothing changes: what unit propagation derives from the clauses "item a
    in h, so b in one of the houses that the clue then leaves".
    """
    can = [(1 << houses) - 1] * (houses * attributes)
    for cell, value in enumerate(board):
        if value:
            house, attribute = divmod(cell, attributes)
            can[attribute * houses + value - 1] &= 1 << house
    for kind, item, house in clues:
        if kind in PLACES:
            can[item] &= 1 << house if kind == "is" else ~(1 << house)
    return can if _propagate(houses, can, _links(clues)) else None


def _links(clues: Sequence[Clue]) -> list[tuple[Narrow, int, int]]:
    """Return the clues on two items, as what narrows them."""
    return [(NARROW[kind], one, two) for kind, one, two in clues if kind in NARROW]


def _propagate(houses: int, can: list[int], links: Sequence[tuple[Narrow, int, int]]) -> bool:
    """Narrow down in place where items can be; return whether no item was left without a house."""
    before: list[int] = []
    while before != can:
        before = can[:]
        for narrow, one, two in links:
            can[one], can[two] = narrow(can[one], can[two])
        for first in range(0, len(can), houses):
            if not _distinct(can, first, first + houses):
                return False
        if not all(can):
            return False
    return True


def _distinct(can: list[int], first: int, end: int) -> bool:
    """Narrow one attribute, a value and a house each once; return whether that can be."""
    for item in range(first, end):
        only = can[item]
        if only & (only - 1) == 0:
            for other in range(first, end):
                if other != item:
                    can[other] &= ~only
    once = twice = 0
    for item in range(first, end):
        twice |= once & can[item]
        once |= can[item]
    single = once & ~twice
    for item in range(first, end):
        own = can[item] & single
        if own:
            can[item] = own
            if own & (own - 1):
                return False
    return once == (1 << end - first) - 1


def solutions(
    houses: int, attributes: int, clues: Sequence[Clue], board: Sequence[int] = (), limit: int = 2
) -> list[Board]:
    """Return at most ``limit`` full boards that keep to the clues and to what a board holds."""
    can = narrowed(houses, attributes, clues, board)
    found: list[Board] = []
    if can is not None:
        _search(houses, attributes, can, _links(clues), limit, found)
    return found


def _search(
    houses: int,
    attributes: int,
    can: list[int],
    links: Sequence[tuple[Narrow, int, int]],
    limit: int,
    found: list[Board],
) -> None:
    """Put the item with the fewest houses into each of them in turn, and go on."""
    item = min(
        (item for item, choice in enumerate(can) if choice & (choice - 1)),
        key=lambda item: can[item].bit_count(),
        default=-1,
    )
    if item < 0:
        found.append(_board(houses, attributes, can))
        return
    for house in range(houses):
        if can[item] >> house & 1 and len(found) < limit:
            tried = can[:]
            tried[item] = 1 << house
            if _propagate(houses, tried, links):
                _search(houses, attributes, tried, links, limit, found)


def _board(houses: int, attributes: int, can: Sequence[int]) -> Board:
    cells = [0] * (houses * attributes)
    for item, choice in enumerate(can):
        if choice & (choice - 1) == 0:
            attribute, value = divmod(item, houses)
            cells[(choice.bit_length() - 1) * attributes + attribute] = value + 1
    return tuple(cells)


def deduced(
    houses: int, attributes: int, clues: Sequence[Clue], board: Sequence[int] = ()
) -> Board | None:
    """Return the board as far as unit propagation fills it; None if it finds a contradiction."""
    can = narrowed(houses, attributes, clues, board)
    return None if can is None else _board(houses, attributes, can)
