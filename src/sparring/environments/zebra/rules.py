"""Logic-grid puzzles as an OpenSpiel game for one seat: the puzzles and the rules, no wording."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from sparring.environments.bank import BANKS
from sparring.environments.openspiel.fill_in import FillInTable
from sparring.environments.openspiel.table import Rules, register
from sparring.environments.zebra.deduction import Clue
from sparring.environments.zebra.puzzles import clues_text, puzzle_of, read_puzzle, word_of

NAME = "zebra"  # the name registered with OpenSpiel


@dataclass(frozen=True, kw_only=True)
class ZebraOptions:
    """Options of ``zebra``."""

    houses: Annotated[int, Field(ge=2, le=5)] = 3
    attributes: Annotated[int, Field(ge=2, le=4)] = 3
    kinds: Literal["places", "links", "order"] = "order"
    level: Literal["any", "deduced", "search"] = "any"
    puzzles: Annotated[int, Field(ge=1, le=100_000)] = 64
    bank: Annotated[int, Field(ge=0, lt=BANKS)] = 0
    wrong: Literal["ends", "continues"] = "ends"
    pay: Literal["solved", "share"] = "solved"
    puzzle: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ZebraTable(ZebraOptions, FillInTable):
    """A position: the puzzle, the board now, and the action ids so far."""

    clues: tuple[Clue, ...] = ()

    @property
    def values(self) -> int:
        """The number of values of an attribute."""
        return self.houses

    @property
    def blanks(self) -> int:
        """Cells that are empty at the start: all."""
        return self.houses * self.attributes

    @property
    def start(self) -> Hashable:
        """What was drawn from the bank: the clues, in any order."""
        return (self.houses, self.attributes, frozenset(self.clues))

    def drawn(self, index: int) -> ZebraTable:
        """Return the table with its puzzle."""
        clues, solution = self.only or puzzle_of(
            self.houses, self.attributes, self.kinds, self.level, self.bank, index
        )
        return replace(self, clues=clues, solution=solution, cells=(0,) * self.blanks)

    def word(self, index: int) -> str:
        """Return the word of a value in a cell."""
        return word_of(self.houses, self.attributes, index)

    def text(self, moves: tuple[int, ...]) -> str:
        """Return the clues, and the words of moves."""
        return f"{clues_text(self.houses, self.clues)} | {' '.join(map(self.word, moves))}"


def rules(options: ZebraOptions) -> Rules:
    """Return the facts of the game."""
    opening = ZebraTable(**asdict(options))
    if options.puzzle:
        only = read_puzzle(options.houses, options.attributes, options.puzzle)
        opening = replace(opening, only=only)
    return opening.rules(actions=options.houses * opening.blanks, length=opening.blanks)


register(NAME, ZebraOptions, rules)
