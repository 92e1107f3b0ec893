"""Logic-grid puzzles as an OpenSpiel game for one seat: the puzzles and the rules, no wording."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from sparring.errors import ConfigError
from sparring.games.table import CHANCE, TERMINAL, Rules, Table, register
from sparring.ops.zebra import KINDS, LINKS, PLACES, Board, Clue, deduced, solutions, true_clues
from sparring.rng import Stream

SUPPORT = True

NAME = "zebra"  # the name registered with OpenSpiel
ATTRIBUTES = ("colour", "drink", "pet", "food")
VALUES = (
    ("red", "green", "blue", "white", "yellow"),
    ("tea", "milk", "juice", "water", "coffee"),
    ("cat", "dog", "fish", "bird", "horse"),
    ("rice", "bread", "soup", "cake", "plum"),
)
# option ``kinds`` -> kinds of clues
OF_KIND = {"places": PLACES, "links": (*PLACES, *LINKS), "order": KINDS}
TRIES = 300  # full boards from which a puzzle is sought

Puzzle = tuple[tuple[Clue, ...], Board]


@lru_cache(maxsize=16384)
def puzzle_of(
    houses: int, attributes: int, kinds: str, level: str, bank: int, index: int
) -> Puzzle:
    """Return puzzle number ``index`` of a bank: its clues, and its only solution.

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
    """Return all true clues of these kinds in random order.

    Each kind comes as often as the others while it lasts.
    """
    every = [true_clues(houses, attributes, full, kind) for kind in OF_KIND[kinds]]
    turns = [
        (place, number, row[at])
        for number, row in enumerate(every)
        for place, at in enumerate(generator.permutation(len(row)))
    ]
    return [clue for _, _, clue in sorted(turns)]


def _pruned(
    houses: int, attributes: int, clues: list[Clue], kinds: str, level: str
) -> tuple[Clue, ...]:
    """Return the fewest first clues that make a puzzle of a level, without those that it can spare.

    More clues never spoil a puzzle, so none that is left at the end could be spared. The kind "is"
    goes first, where there are others but "not": it says more than any other, and few puzzles would
    have other clues.
    """
    enough = bisect_left(
        range(len(clues)),
        True,
        key=lambda number: _in_order(houses, attributes, clues[:number], level),
    )
    kept = clues[:enough]
    for clue in sorted(kept, key=lambda clue: clue[0] != "is") if kinds != "places" else list(kept):
        fewer = [other for other in kept if other != clue]
        if _in_order(houses, attributes, fewer, level):
            kept = fewer
    return tuple(kept)


def _in_order(houses: int, attributes: int, clues: list[Clue], level: str) -> bool:
    """Return whether clues leave one solution.

    If the level asks for that, they must also give it by unit propagation.
    """
    if level == "deduced":
        return 0 not in (deduced(houses, attributes, clues) or (0,))
    return len(solutions(houses, attributes, clues)) == 1


def plain(puzzle: str) -> str:
    """Return clues without the signs that part the parameters of a game of OpenSpiel.

    "h1=red; not h2=red" as "h1:red not h2:red".
    """
    return " ".join(puzzle.replace(";", " ").replace(",", " ").split()).replace("=", ":")


def read_puzzle(houses: int, attributes: int, text: str) -> Puzzle:
    """Return the clues written in brief style, and their only solution.

    ";" and "," are passed over, ":" is read as "=".

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
        start, rest = words[:3], words[1:]
        if words[0] in place_of:
            clues.append(("is", *place_of[words[0]]))
        elif words[0] == "not" and rest and rest[0] in place_of:
            clues.append(("not", *place_of[rest[0]]))
            rest = rest[1:]
        elif (
            len(start) == 3
            and start[0] in item_of
            and start[1] in KINDS[2:]
            and start[2] in item_of
            and start[0] != start[2]
        ):
            clues.append((start[1], item_of[start[0]], item_of[start[2]]))
            rest = words[3:]
        else:
            raise ConfigError(
                f"zebra: puzzle has no clue at {' '.join(start)!r}; write clues as 'h1=red', 'not "
                f"h1=red' or 'red left tea' (also {', '.join(KINDS[2:])}), of the first {houses} "
                f"values of {', '.join(ATTRIBUTES[:attributes])}."
            )
        words = rest
    found = solutions(houses, attributes, clues)
    if len(found) != 1:
        raise ConfigError(
            f"zebra: puzzle={text!r} has {'several solutions' if found else 'no solution'}; write "
            "clues that leave exactly one."
        )
    return tuple(clues), found[0]


@dataclass(frozen=True, slots=True)
class ZebraTable(Table):
    """A position: the puzzle, the board now, and the action ids so far.

    The puzzle has no solution before it is drawn; an id is cell * houses + value.
    """

    houses: int
    attributes: int
    kinds: str
    level: str
    puzzles: int
    bank: int
    ends: bool  # whether a wrong value ends the game
    share: bool  # whether the share of right values is paid
    only: Puzzle | None = None  # the one puzzle, if it is given
    clues: tuple[Clue, ...] = ()
    solution: Board = ()
    cells: Board = ()
    moves: tuple[int, ...] = ()
    mistakes: int = 0

    @property
    def blanks(self) -> int:
        """Cells that are empty at the start: all."""
        return self.houses * self.attributes

    @property
    def start(self) -> Hashable:
        """What was drawn from the bank: the clues, in any order."""
        return (self.houses, self.attributes, frozenset(self.clues))

    @property
    def player(self) -> int:
        """The solver, or chance at the start.

        The end comes at a full board or after a wrong value that ends.
        """
        if not self.solution:
            return CHANCE
        return TERMINAL if len(self.moves) == self.blanks or (self.ends and self.mistakes) else 0

    def legal(self) -> list[int]:
        """Return every value of its attribute in every empty cell."""
        return [
            cell * self.houses + value
            for cell, filled in enumerate(self.cells)
            if not filled
            for value in range(self.houses)
        ]

    def draws(self) -> range:
        """Return the numbers of the puzzles."""
        return range(1 if self.only else self.puzzles)

    def after(self, index: int) -> ZebraTable:
        """Return the table with its puzzle, or after a value."""
        if not self.solution:
            found = self.only or puzzle_of(
                self.houses, self.attributes, self.kinds, self.level, self.bank, index
            )
            return replace(self, clues=found[0], solution=found[1], cells=(0,) * self.blanks)
        cell, value = index // self.houses, index % self.houses + 1
        cells = (*self.cells[:cell], value, *self.cells[cell + 1 :])
        return replace(
            self,
            cells=cells,
            moves=(*self.moves, index),
            mistakes=self.mistakes + (self.solution[cell] != value),
        )

    def returns(self) -> list[float]:
        """Return at the end 1 for a solved puzzle, else 0 or a share.

        The share is that of the cells that were filled rightly.
        """
        if self.player != TERMINAL:
            return [0.0]
        return [
            (len(self.moves) - self.mistakes) / self.blanks
            if self.share
            else float(not self.mistakes)
        ]

    def name_of(self, player: int, index: int) -> str:
        """Return the name of a value in a cell, or of a puzzle."""
        return f"puzzle {index}" if player < 0 else word_of(self.houses, self.attributes, index)

    def key(self, seat: int) -> str:
        """Return the clues and all values in the order in which they were written."""
        return self._text(self.moves)

    def view(self, seat: int) -> str:
        """Return the clues and all values, whenever they were written."""
        return self._text(tuple(sorted(self.moves)))

    def _text(self, moves: tuple[int, ...]) -> str:
        """Return the clues and moves."""
        written = " ".join(word_of(self.houses, self.attributes, move) for move in moves)
        return f"{clues_text(self.houses, self.clues)} | {written}"

    def __str__(self) -> str:
        """Return what the seat sees: nothing is hidden."""
        return self.view(0)


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


def clues_text(houses: int, clues: tuple[Clue, ...]) -> str:
    """Return clues as words: "h1=red", "not h1=red", "red left tea"."""
    said = []
    for kind, one, two in clues:
        if kind in PLACES:
            said.append(
                place_word(houses, one, two)
                if kind == "is"
                else f"not {place_word(houses, one, two)}"
            )
        else:
            said.append(f"{item_word(houses, one)} {kind} {item_word(houses, two)}")
    return " ".join(said)


def rules(
    houses: int,
    attributes: int,
    kinds: str,
    level: str,
    puzzles: int,
    bank: int,
    wrong: str,
    pay: str,
    puzzle: str,
) -> Rules:
    """Return the facts of the game."""
    only = read_puzzle(houses, attributes, puzzle) if puzzle else None
    return Rules(
        opening=ZebraTable(
            houses, attributes, kinds, level, puzzles, bank, wrong == "ends", pay == "share", only
        ),
        actions=houses * houses * attributes,
        outcomes=1 if only else puzzles,
        length=houses * attributes,
        least=0.0,
        most=1.0,
        utility="identical",
        seats=1,
        hidden=False,
        views=True,
    )


DEFAULTS = {
    "houses": 3,
    "attributes": 3,
    "kinds": "order",
    "level": "any",
    "puzzles": 64,
    "bank": 0,
    "wrong": "ends",
    "pay": "solved",
    "puzzle": "",
}


register(NAME, DEFAULTS, rules)
