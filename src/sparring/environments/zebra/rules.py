"""Logic-grid puzzles as an OpenSpiel game for one seat: the puzzles and the rules, no wording."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

from sparring.environments.openspiel.table import CHANCE, TERMINAL, Rules, Table, register
from sparring.environments.zebra.deduction import Board, Clue
from sparring.environments.zebra.puzzles import Puzzle, clues_text, puzzle_of, read_puzzle, word_of

NAME = "zebra"  # the name registered with OpenSpiel


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
