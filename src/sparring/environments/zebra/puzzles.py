"""Puzzles of zebra: clues with exactly one solution, drawn or read from text."""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache

import numpy as np

from sparring.core.errors import ConfigError
from sparring.core.rng import Stream
from sparring.environments.zebra.deduction import (
    KINDS,
    LINKS,
    PLACES,
    Board,
    Clue,
    deduced,
    solutions,
    true_clues,
)

ATTRIBUTES = ("colour", "drink", "pet", "food")
VALUES = (
    ("red", "green", "blue", "white", "yellow"),
    ("tea", "milk", "juice", "water", "coffee"),
    ("cat", "dog", "fish", "bird", "horse"),
    ("rice", "bread", "soup", "cake", "plum"),
)
# option ``kinds`` -> kinds of clues
OF_KIND = {"places": PLACES, "links": (*PLACES, *LINKS), "order": KINDS}
TRIES = 300  # most full boards to try for a puzzle
Puzzle = tuple[tuple[Clue, ...], Board]


@lru_cache(maxsize=16384)
def puzzle_of(
    houses: int, attributes: int, kinds: str, level: str, bank: int, index: int
) -> Puzzle:
    """Return (clues, only solution) of puzzle number ``index`` of a bank.

    Raises:
        ConfigError: no such puzzle was found.
    """
    generator = (
        Stream.from_seed(bank)
        .child(f"zebra {houses} {attributes} {kinds} {level}")
        .child(index)
        .generator()
    )
    for _ in range(TRIES):
        rows = [generator.permutation(houses) for _ in range(attributes)]
        full = tuple(
            int(rows[attribute][house]) + 1
            for house in range(houses)
            for attribute in range(attributes)
        )
        clues = _pruned(
            houses, attributes, _mixed(houses, attributes, full, kinds, generator), kinds, level
        )
        if level != "search" or 0 in (deduced(houses, attributes, clues) or ()):
            return clues, full
    raise ConfigError(
        f"zebra: level={level!r} with houses={houses}, attributes={attributes} and "
        f"kinds={kinds!r}: no such puzzle was found from {TRIES} full boards; write kinds='order' "
        "and houses=3 or more, or level='any'."
    )


def _mixed(
    houses: int, attributes: int, full: Board, kinds: str, generator: np.random.Generator
) -> list[Clue]:
    """Return all true clues of these kinds, the kinds in turn, each kind in random order."""
    clues_by_kind = [true_clues(houses, attributes, full, kind) for kind in OF_KIND[kinds]]
    turns = [
        (place, number, row[index])
        for number, row in enumerate(clues_by_kind)
        for place, index in enumerate(generator.permutation(len(row)))
    ]
    return [clue for _, _, clue in sorted(turns)]


def _pruned(
    houses: int, attributes: int, clues: list[Clue], kinds: str, level: str
) -> tuple[Clue, ...]:
    """Return the fewest first clues that make a puzzle of a level, without redundant clues.

    More clues never spoil a puzzle, so no clue of the result is redundant. Clues "is" are dropped
    first unless the kinds are "places": they say the most, and would replace most other clues.
    """
    enough = bisect_left(
        range(len(clues)),
        True,
        key=lambda number: _is_valid(houses, attributes, clues[:number], level),
    )
    few = clues[:enough]
    for clue in sorted(few, key=lambda clue: clue[0] != "is") if kinds != "places" else list(few):
        fewer = [other for other in few if other != clue]
        if _is_valid(houses, attributes, fewer, level):
            few = fewer
    return tuple(few)


def _is_valid(houses: int, attributes: int, clues: list[Clue], level: str) -> bool:
    """Return whether clues leave one solution, by unit propagation at level "deduced"."""
    if level == "deduced":
        return 0 not in (deduced(houses, attributes, clues) or (0,))
    return len(solutions(houses, attributes, clues)) == 1


def plain(puzzle: str) -> str:
    """Return clues without OpenSpiel's special characters: "h1:red not h2:red"."""
    return " ".join(puzzle.replace(";", " ").replace(",", " ").split()).replace("=", ":")


def read_puzzle(houses: int, attributes: int, text: str) -> Puzzle:
    """Return (clues, only solution) of a text in brief style.

    ";" and "," are ignored, and ":" means "=".

    Raises:
        ConfigError: not clues, or not exactly one solution.
    """
    text = plain(text).replace(":", "=")
    words = text.split()
    item_of = {
        word: item for item in range(houses * attributes) for word in [item_word(houses, item)]
    }
    place_of = {
        place_word(houses, item, house): (item, house)
        for item in item_of.values()
        for house in range(houses)
    }
    clues: list[Clue] = []
    while words:
        start, remaining = words[:3], words[1:]
        if words[0] in place_of:
            clues.append(("is", *place_of[words[0]]))
        elif words[0] == "not" and remaining and remaining[0] in place_of:
            clues.append(("not", *place_of[remaining[0]]))
            remaining = remaining[1:]
        elif (
            len(start) == 3
            and start[0] in item_of
            and start[1] in KINDS[2:]
            and start[2] in item_of
            and start[0] != start[2]
        ):
            clues.append((start[1], item_of[start[0]], item_of[start[2]]))
            remaining = words[3:]
        else:
            raise ConfigError(
                f"zebra: puzzle has no clue at {' '.join(start)!r}; write clues as 'h1=red', 'not "
                f"h1=red' or 'red left tea' (also {', '.join(KINDS[2:])}), of the first {houses} "
                f"values of {', '.join(ATTRIBUTES[:attributes])}."
            )
        words = remaining
    boards = solutions(houses, attributes, clues)
    if len(boards) != 1:
        raise ConfigError(
            f"zebra: puzzle={text!r} has {'several solutions' if boards else 'no solution'}; write "
            "clues that leave exactly one."
        )
    return tuple(clues), boards[0]


def item_word(houses: int, item: int) -> str:
    """Return the word of an item: "red"."""
    return VALUES[item // houses][item % houses]


def place_word(houses: int, item: int, house: int) -> str:
    """Return the word of an item in a house: "h2=red" puts red into house 2."""
    return f"h{house + 1}={item_word(houses, item)}"


def word_of(houses: int, attributes: int, index: int) -> str:
    """Return the word of an action id."""
    cell, value = divmod(index, houses)
    return place_word(houses, cell % attributes * houses + value, cell // attributes)


def clue_words(houses: int, clue: Clue) -> str:
    """Return a clue as words: "h1=red", "not h1=red", "red left tea"."""
    kind, first, second = clue
    if kind in PLACES:
        word = place_word(houses, first, second)
        return word if kind == "is" else f"not {word}"
    return f"{item_word(houses, first)} {kind} {item_word(houses, second)}"


def clues_text(houses: int, clues: tuple[Clue, ...]) -> str:
    """Return the words of all clues."""
    return " ".join(clue_words(houses, clue) for clue in clues)
