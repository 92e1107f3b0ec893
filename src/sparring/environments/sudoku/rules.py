"""Sudoku as an OpenSpiel game for one seat: the puzzles and the rules, no wording."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from sparring.core.errors import ConfigError
from sparring.core.rng import Stream
from sparring.environments.bank import BANKS
from sparring.environments.openspiel.fill_in import FillInTable
from sparring.environments.openspiel.table import Rules, register
from sparring.environments.sudoku.deduction import Board, deduced, frame, solutions

NAME = "sudoku"  # the name registered with OpenSpiel
# by size; a puzzle with more has no unique solution, or is too rare to find
MOST_BLANKS = {4: 12, 6: 28, 9: 60}
TRIES = 2000  # full boards from which a puzzle is sought


@lru_cache(maxsize=16384)
def puzzle_of(size: int, blanks: int, level: str, bank: int, index: int) -> tuple[Board, Board]:
    """Return puzzle number ``index`` of a bank, and its only solution.

    Raises:
        ConfigError: no such puzzle was found.
    """
    generator = (
        Stream.from_seed(bank).child(f"sudoku {size} {blanks} {level}").child(index).generator()
    )
    for _ in range(TRIES):
        full = _full_board(size, generator)
        givens = _dig(size, full, blanks, level, generator)
        if givens is not None:
            return givens, full
    other = "more blanks, a larger size" if level == "search" else "fewer blanks"
    raise ConfigError(
        f"sudoku: blanks={blanks} with level={level!r} and size={size}: no such puzzle was found "
        f"from {TRIES} full boards; write {other}, or level='any'."
    )


def _full_board(size: int, generator: np.random.Generator) -> Board:
    """Return a full board, found by a search in random order."""
    bits = frame(size).bits
    return solutions(
        size,
        (0,) * (size * size),
        1,
        lambda choice: [bits[digit] for digit in generator.permutation(size)],
    )[0]


def _dig(
    size: int, full: Board, blanks: int, level: str, generator: np.random.Generator
) -> Board | None:
    """Return the board with cells emptied in random order; None if too few can be.

    A cell is emptied only if the puzzle stays in order.
    """
    cells, left = list(full), blanks
    for cell in generator.permutation(size * size):
        digit, cells[cell] = cells[cell], 0
        if _in_order(size, cells, level):
            left -= 1
            if not left:
                return tuple(cells) if level != "search" or 0 in deduced(size, cells) else None
        else:
            cells[cell] = digit
    return None


def _in_order(size: int, cells: list[int], level: str) -> bool:
    """Return whether a puzzle has one solution, and is deduced as its level asks.

    Digging further never mends a puzzle.
    """
    if level in ("naked", "singles"):
        return 0 not in deduced(size, cells, level == "singles")
    return len(solutions(size, cells)) == 1


def read_puzzle(size: int, text: str) -> Board:
    """Return the board of a puzzle written in reading order, "." or "0" for an empty cell.

    Spaces and "/" are passed over.

    Raises:
        ConfigError: not a board of this size with blanks and exactly one solution.
    """
    signs = [sign for sign in text if not sign.isspace() and sign != "/"]
    allowed = ".0123456789"[: size + 2]
    wrong = next((sign for sign in signs if sign not in allowed), None)
    if len(signs) != size * size or wrong is not None:
        what = f"holds {wrong!r}" if wrong is not None else f"has {len(signs)} cells"
        raise ConfigError(
            f"sudoku: puzzle={text!r} {what}; write {size * size} of 1 to {size} and '.' for an "
            "empty cell, row by row."
        )
    board = tuple(0 if sign == "." else int(sign) for sign in signs)
    number = len(solutions(size, board))
    if number != 1 or 0 not in board:
        what = (
            "no empty cell"
            if 0 not in board
            else "no solution"
            if number == 0
            else "several solutions"
        )
        raise ConfigError(
            f"sudoku: puzzle={text!r} has {what}; write a puzzle with empty cells and exactly one "
            "solution."
        )
    return board


@dataclass(frozen=True, kw_only=True)
class SudokuOptions:
    """Options of ``sudoku``."""

    size: Literal[4, 6, 9] = 4
    blanks: int = 6
    puzzles: Annotated[int, Field(ge=1, le=100_000)] = 64
    bank: Annotated[int, Field(ge=0, lt=BANKS)] = 0
    level: Literal["any", "naked", "singles", "search"] = "any"
    wrong: Literal["ends", "continues"] = "ends"
    pay: Literal["solved", "share"] = "solved"
    puzzle: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class SudokuTable(SudokuOptions, FillInTable):
    """A position: the puzzle, the board now, and the action ids so far."""

    givens: Board = ()

    @property
    def values(self) -> int:
        """The number of digits."""
        return self.size

    @property
    def start(self) -> Hashable:
        """What was drawn from the bank: the puzzle."""
        return (self.size, self.givens)

    def drawn(self, index: int) -> SudokuTable:
        """Return the table with its puzzle."""
        if self.only:
            givens, solution = self.only, solutions(self.size, self.only)[0]
        else:
            givens, solution = puzzle_of(self.size, self.blanks, self.level, self.bank, index)
        return replace(self, givens=givens, solution=solution, cells=givens)

    def word(self, index: int) -> str:
        """Return the word of a digit in a cell."""
        return word_of(self.size, index)

    def text(self, moves: tuple[int, ...]) -> str:
        """Return the puzzle, and the words of moves in it."""
        return " ".join([board_text(self.size, self.givens), *map(self.word, moves)])


def word_of(size: int, index: int) -> str:
    """Return the word of an action id: "r1c2=3" writes a 3 into row 1, column 2."""
    row, column = divmod(index // size, size)
    return f"r{row + 1}c{column + 1}={index % size + 1}"


def board_text(size: int, board: Board) -> str:
    """Return a board as one word, rows parted by "/", "." for an empty cell."""
    return "/".join(
        "".join(str(digit or ".") for digit in board[start : start + size])
        for start in range(0, len(board), size)
    )


def rules(options: SudokuOptions) -> Rules:
    """Return the facts of the game."""
    opening = SudokuTable(**asdict(options))
    if options.puzzle:
        only = read_puzzle(options.size, options.puzzle)
        opening = replace(opening, only=only, blanks=only.count(0))
    return opening.rules(actions=options.size**3, length=opening.blanks)


register(NAME, SudokuOptions, rules)
