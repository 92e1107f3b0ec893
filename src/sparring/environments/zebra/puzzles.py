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
    deduce_board,
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
CLUE_KINDS = {"places": PLACES, "links": (*PLACES, *LINKS), "order": KINDS}
MAX_BOARDS = 300  # largest number of full boards to try for a puzzle
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
    for _ in range(MAX_BOARDS):
        rows = [generator.permutation(houses) for _ in range(attributes)]
        board = tuple(
            int(rows[attribute][house]) + 1
            for house in range(houses)
            for attribute in range(attributes)
        )
        all_clues = _shuffled_clues(houses, attributes, board, kinds, generator)
        clues = _minimal_clues(houses, attributes, all_clues, kinds, level)
        if level != "search" or 0 in (deduce_board(houses, attributes, clues) or ()):
            return clues, board
    raise ConfigError(
        f"zebra: level={level!r} with houses={houses}, attributes={attributes} and "
        f"kinds={kinds!r}: no such puzzle was found from {MAX_BOARDS} full boards; write "
        "kinds='order' and houses=3 or more, or level='any'."
    )


def _shuffled_clues(
    houses: int, attributes: int, board: Board, kinds: str, generator: np.random.Generator
) -> list[Clue]:
    """Return all true clues; the kinds alternate, and clues of one kind are in random order."""
    clues_by_kind = [true_clues(houses, attributes, board, kind) for kind in CLUE_KINDS[kinds]]
    ranked_clues = [
        (position, kind_number, clues[index])
        for kind_number, clues in enumerate(clues_by_kind)
        for position, index in enumerate(generator.permutation(len(clues)))
    ]
    return [clue for _, _, clue in sorted(ranked_clues)]


def _minimal_clues(
    houses: int, attributes: int, clues: list[Clue], kinds: str, level: str
) -> tuple[Clue, ...]:
    """Return the shortest prefix of clues that makes a puzzle of a level, minus redundant clues.

    More clues never make a puzzle invalid, so one pass removes every redundant clue. The pass tries
    clues "is" first, unless the kinds are "places", because these clues make most others redundant.
    """
    num_needed = bisect_left(
        range(len(clues)),
        True,
        key=lambda number: _is_valid(houses, attributes, clues[:number], level),
    )
    needed_clues = clues[:num_needed]
    for clue in sorted(needed_clues, key=lambda clue: kinds == "places" or clue[0] != "is"):
        fewer_clues = [other for other in needed_clues if other != clue]
        if _is_valid(houses, attributes, fewer_clues, level):
            needed_clues = fewer_clues
    return tuple(needed_clues)


def _is_valid(houses: int, attributes: int, clues: list[Clue], level: str) -> bool:
    """Return whether clues have one solution; at level "deduced", unit propagation must find it."""
    if level == "deduced":
        return 0 not in (deduce_board(houses, attributes, clues) or (0,))
    return len(solutions(houses, attributes, clues)) == 1


def normal_form(puzzle: str) -> str:
    """Return clues without OpenSpiel's special characters: "h1:red not h2:red"."""
    return " ".join(puzzle.replace(";", " ").replace(",", " ").split()).replace("=", ":")


def read_puzzle(houses: int, attributes: int, text: str) -> Puzzle:
    """Return (clues, only solution) of a text in brief style.

    ";" and "," are ignored, and ":" means "=".

    Raises:
        ConfigError: some words are not clues, or there is not exactly one solution.
    """
    text = normal_form(text).replace(":", "=")
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
        next_words, later_words = words[:3], words[1:]
        if words[0] in place_of:
            clues.append(("is", *place_of[words[0]]))
        elif words[0] == "not" and later_words and later_words[0] in place_of:
            clues.append(("not", *place_of[later_words[0]]))
            later_words = later_words[1:]
        elif (
            len(next_words) == 3
            and next_words[0] in item_of
            and next_words[1] in KINDS[2:]
            and next_words[2] in item_of
            and next_words[0] != next_words[2]
        ):
            clues.append((next_words[1], item_of[next_words[0]], item_of[next_words[2]]))
            later_words = words[3:]
        else:
            raise ConfigError(
                f"zebra: puzzle has no clue at {' '.join(next_words)!r}; write clues as 'h1=red', "
                f"'not h1=red' or 'red left tea' (also {', '.join(KINDS[2:])}), of the first "
                f"{houses} values of {', '.join(ATTRIBUTES[:attributes])}."
            )
        words = later_words
    boards = solutions(houses, attributes, clues)
    if len(boards) != 1:
        raise ConfigError(
            f"zebra: puzzle={text!r} has {'several solutions' if boards else 'no solution'}; write "
            "clues that have exactly one solution."
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
