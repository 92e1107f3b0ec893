"""Sudoku as an OpenSpiel game for one seat: the puzzles and the rules, no wording."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from sparring.environments.openspiel.table import CHANCE, TERMINAL, Rules, Table, register
from sparring.environments.sudoku.deduction import Board, deduced, frame, solutions
from sparring.errors import ConfigError
from sparring.rng import Stream

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


@dataclass(frozen=True, slots=True)
class SudokuTable(Table):
    """A position: the puzzle, the board now, and the action ids so far.

    The puzzle is empty before it is drawn; an id is cell * size + digit - 1.
    """

    size: int
    blanks: int
    level: str
    puzzles: int
    bank: int
    ends: bool  # whether a wrong digit ends the game
    share: bool  # whether the share of right digits is paid
    only: Board = ()  # the one puzzle, if it is given
    givens: Board = ()
    solution: Board = ()
    cells: Board = ()
    moves: tuple[int, ...] = ()
    mistakes: int = 0

    @property
    def start(self) -> Hashable:
        """What was drawn from the bank: the puzzle."""
        return (self.size, self.givens)

    @property
    def player(self) -> int:
        """The solver, or chance at the start.

        The end comes at a full board or after a wrong digit that ends.
        """
        if not self.givens:
            return CHANCE
        return TERMINAL if len(self.moves) == self.blanks or (self.ends and self.mistakes) else 0

    def legal(self) -> list[int]:
        """Return every digit in every empty cell."""
        return [
            cell * self.size + digit
            for cell, filled in enumerate(self.cells)
            if not filled
            for digit in range(self.size)
        ]

    def draws(self) -> range:
        """Return the numbers of the puzzles."""
        return range(1 if self.only else self.puzzles)

    def after(self, index: int) -> SudokuTable:
        """Return the table with its puzzle, or after a digit."""
        if not self.givens:
            if self.only:
                givens, solution = self.only, solutions(self.size, self.only)[0]
            else:
                givens, solution = puzzle_of(self.size, self.blanks, self.level, self.bank, index)
            return replace(self, givens=givens, solution=solution, cells=givens)
        cell, digit = index // self.size, index % self.size + 1
        cells = (*self.cells[:cell], digit, *self.cells[cell + 1 :])
        return replace(
            self,
            cells=cells,
            moves=(*self.moves, index),
            mistakes=self.mistakes + (self.solution[cell] != digit),
        )

    def returns(self) -> list[float]:
        """Return at the end 1 for a solved puzzle, else 0 or a share.

        The share is that of the blanks that were filled rightly.
        """
        if self.player != TERMINAL:
            return [0.0]
        return [
            (len(self.moves) - self.mistakes) / self.blanks
            if self.share
            else float(not self.mistakes)
        ]

    def name_of(self, player: int, index: int) -> str:
        """Return the name of a digit in a cell, or of a puzzle."""
        return f"puzzle {index}" if player < 0 else word_of(self.size, index)

    def key(self, seat: int) -> str:
        """Return the puzzle and all digits in the order in which they were written."""
        return " ".join(
            [board_text(self.size, self.givens), *(word_of(self.size, move) for move in self.moves)]
        )

    def view(self, seat: int) -> str:
        """Return the board, and which of its digits were written, whenever that was."""
        return " ".join(
            [
                board_text(self.size, self.givens),
                *(word_of(self.size, move) for move in sorted(self.moves)),
            ]
        )

    def __str__(self) -> str:
        """Return what the seat sees: nothing is hidden."""
        return self.view(0)


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


def rules(
    size: int, blanks: int, puzzles: int, bank: int, level: str, wrong: str, pay: str, puzzle: str
) -> Rules:
    """Return the facts of the game."""
    only = read_puzzle(size, puzzle) if puzzle else ()
    blanks = only.count(0) if only else blanks
    return Rules(
        opening=SudokuTable(
            size, blanks, level, puzzles, bank, wrong == "ends", pay == "share", only
        ),
        actions=size**3,
        outcomes=1 if only else puzzles,
        length=blanks,
        least=0.0,
        most=1.0,
        utility="identical",
        seats=1,
        hidden=False,
        views=True,
    )


DEFAULTS = {
    "size": 4,
    "blanks": 6,
    "puzzles": 64,
    "bank": 0,
    "level": "any",
    "wrong": "ends",
    "pay": "solved",
    "puzzle": "",
}


register(NAME, DEFAULTS, rules)
