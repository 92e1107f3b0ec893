"""Sudoku: one seat writes one digit a turn."""

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
from sparring.environments.drawing.boards import BoardCell, grid
from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import paragraph
from sparring.environments.openspiel.banks import BankGame
from sparring.environments.openspiel.base import State, Style
from sparring.environments.openspiel.fill_in import FillInTable
from sparring.environments.openspiel.load import load
from sparring.environments.openspiel.table import Rules, register
from sparring.environments.options import check_range, entry_of
from sparring.environments.sudoku.deduction import BOXES, Board, fill_singles, layout_of, solutions

NAME = "sudoku"  # the name registered with OpenSpiel
# size -> largest number of blanks; puzzles with more blanks do not exist or are too rare
MOST_BLANKS = {4: 12, 6: 28, 9: 60}
MAX_BOARDS = 2000  # largest number of full boards to try for a puzzle


@lru_cache(maxsize=16384)
def puzzle_of(size: int, blanks: int, level: str, bank: int, index: int) -> tuple[Board, Board]:
    """Return puzzle number ``index`` of a bank, and its only solution.

    Raises:
        ConfigError: no such puzzle was found.
    """
    generator = (
        Stream.from_seed(bank).child(f"sudoku {size} {blanks} {level}").child(index).generator()
    )
    for _ in range(MAX_BOARDS):
        solution = _random_full_board(size, generator)
        givens = _remove_digits(size, solution, blanks, level, generator)
        if givens is not None:
            return givens, solution
    remedy = "more blanks, a larger size" if level == "search" else "fewer blanks"
    raise ConfigError(
        f"sudoku: blanks={blanks} with level={level!r} and size={size}: no such puzzle was found "
        f"from {MAX_BOARDS} full boards; write {remedy}, or level='any'."
    )


def _random_full_board(size: int, generator: np.random.Generator) -> Board:
    bits = layout_of(size).bits
    return solutions(
        size,
        (0,) * (size * size),
        1,
        lambda _: [bits[digit] for digit in generator.permutation(size)],
    )[0]


def _remove_digits(
    size: int, solution: Board, blanks: int, level: str, generator: np.random.Generator
) -> Board | None:
    """Empty ``blanks`` cells in random order so that the puzzle is valid; None if this fails."""
    cells, blanks_left = list(solution), blanks
    for cell in generator.permutation(size * size):
        digit, cells[cell] = cells[cell], 0
        if _is_valid(size, cells, level):
            blanks_left -= 1
            if not blanks_left:
                return tuple(cells) if level != "search" or 0 in fill_singles(size, cells) else None
        else:
            cells[cell] = digit
    return None


def _is_valid(size: int, cells: list[int], level: str) -> bool:
    if level in ("naked", "singles"):
        return 0 not in fill_singles(size, cells, level == "singles")
    return len(solutions(size, cells)) == 1


def read_puzzle(size: int, text: str) -> Board:
    """Return the board of a text in reading order, "." or "0" for an empty cell.

    Spaces and "/" are ignored.

    Raises:
        ConfigError: the text is not a board of this size with empty cells and exactly one solution.
    """
    characters = [character for character in text if not character.isspace() and character != "/"]
    allowed = ".0123456789"[: size + 2]
    bad_character = next((character for character in characters if character not in allowed), None)
    if len(characters) != size * size or bad_character is not None:
        problem = f"has {len(characters)} cells"
        if bad_character is not None:
            problem = f"holds {bad_character!r}"
        raise ConfigError(
            f"sudoku: puzzle={text!r} {problem}; write {size * size} characters: a digit from "
            f"1 to {size}, or '.' for an empty cell, row by row."
        )
    board = tuple(0 if character == "." else int(character) for character in characters)
    num_solutions = len(solutions(size, board))
    if num_solutions != 1 or 0 not in board:
        problem = "several solutions" if num_solutions else "no solution"
        if 0 not in board:
            problem = "no empty cell"
        raise ConfigError(
            f"sudoku: puzzle={text!r} has {problem}; write a puzzle with empty cells and exactly "
            "one solution."
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
    """A position: the puzzle, the current board, and the action ids so far."""

    givens: Board = ()

    @property
    def values(self) -> int:
        """The number of digits."""
        return self.size

    @property
    def start(self) -> Hashable:
        """The puzzle that was drawn from the bank."""
        return (self.size, self.givens)

    def with_puzzle(self, index: int) -> SudokuTable:
        """Return the table with its puzzle."""
        if self.fixed_puzzle:
            givens, solution = self.fixed_puzzle, solutions(self.size, self.fixed_puzzle)[0]
        else:
            givens, solution = puzzle_of(self.size, self.blanks, self.level, self.bank, index)
        return replace(self, givens=givens, solution=solution, cells=givens)

    def word(self, index: int) -> str:
        """Return the word of a digit in a cell."""
        return word_of(self.size, index)

    def text(self, moves: tuple[int, ...]) -> str:
        """Return the puzzle and the words of moves in it."""
        return " ".join([board_text(self.size, self.givens), *map(self.word, moves)])


def word_of(size: int, index: int) -> str:
    """Return the word of an action id: "r1c2=3" writes a 3 into row 1, column 2."""
    row, column = divmod(index // size, size)
    return f"r{row + 1}c{column + 1}={index % size + 1}"


def board_text(size: int, board: Board) -> str:
    """Return a board as one word, rows separated by "/", "." for an empty cell."""
    return "/".join(
        "".join(str(digit or ".") for digit in board[start : start + size])
        for start in range(0, len(board), size)
    )


def rules(options: SudokuOptions) -> Rules:
    """Return the numbers of actions and turns of the game, and its first table."""
    initial_table = SudokuTable(**asdict(options))
    if options.puzzle:
        puzzle = read_puzzle(options.size, options.puzzle)
        initial_table = replace(initial_table, fixed_puzzle=puzzle, blanks=puzzle.count(0))
    return initial_table.rules(actions=options.size**3, length=initial_table.blanks)


register(NAME, SudokuOptions, rules)


class Sudoku(BankGame):
    """Sudoku for 1 seat: write one digit a turn into a puzzle with one solution.

    Chance draws one of ``puzzles`` puzzles, all equally likely, at the start; nothing else is
    random and nothing is hidden. A digit in a filled cell is illegal. Every digit in an empty cell
    is legal, so most legal moves are wrong. In brief style the puzzle is a list of words
    of actions ("r1c2=3"), 68 words in all for size 4, 220 for 6 and 733 for 9. Full style lists all
    legal actions at every turn, which is long for size 9.

    Args:
        size: number of rows, of columns and of digits: 4 (boxes of 2 rows and 2 columns), 6 (2
            rows and 3 columns) or 9 (3 rows and 3 columns).
        blanks: number of empty cells at the start, 1 to 12 (size 4), 28 (size 6) or 60 (size 9).
            Puzzles near the largest number are rare and slow to find.
        puzzles: number of puzzles in the bank, 1 to 100,000, built on first use.
        bank: seed of the bank: puzzle number i of a bank depends only on ``size``,
            ``blanks``, ``level``, ``bank`` and i. Two banks are practically disjoint for sizes 6
            and 9, but not for size 4, which has 288 full boards.
        level: the deduction that the puzzle needs: "naked" (at every step some cell has only one
            possible digit), "singles" (or some digit has only one possible cell of a row, column
            or box), "search" (these two rules are not enough), "any" (no condition).
        wrong: the effect of a digit that is not in the solution: "ends" the game, or the game
            "continues" to a full board.
        pay: at the end 1 for a solved puzzle and else 0, or with "share" the share of the blanks
            with the solution's digit.
        puzzle: a puzzle that replaces the bank, row by row with "." for an empty cell, such as
            "12.4 3.1. .14. 4..1".
        style: wording, "brief" for tiny models, "full" for language models.

    Raises:
        ConfigError: a number out of range, a puzzle without exactly one solution, or blanks and a
            level without a puzzle.

    Reference: McGuire, Tugemann and Civario, "There is no 16-clue Sudoku", 2012 (size 9); the task:
    arXiv 2605.10325.
    """

    title = "sudoku"
    size_option = "puzzles"

    def __init__(self, options: SudokuOptions, *, style: Style = "brief") -> None:
        check_range("sudoku: blanks", options.blanks, 1, MOST_BLANKS[options.size])
        size = options.size
        words = tuple(word_of(size, index) for index in range(size**3))
        super().__init__(
            load(NAME, asdict(options)), name=NAME, roles=("solver",), words=words, style=style
        )
        self.size, self.table = size, self.first_table
        self.rules = _rules(self.table)
        self.first_node().child(0)  # raises ConfigError if the bank has no puzzle

    def private(self, state: State, seat: int) -> str:
        """Return the puzzle in brief style: its digits as the words of actions."""
        if not self.brief:
            return ""
        size, givens = self.size, state.table.givens
        return " ".join(
            word_of(size, cell * size + digit - 1) for cell, digit in enumerate(givens) if digit
        )

    def position(self, state: State, seat: int) -> str:
        return "\n".join(["The board ('.' is an empty cell):", *self._lines(state.table.cells)])

    def _lines(self, cells: Board) -> list[str]:
        """Return a board, one line per row, with a line of dashes between the rows of boxes."""
        size = self.size
        height, width = BOXES[size]
        lines = []
        for row in range(size):
            digits = [str(digit or ".") for digit in cells[row * size : (row + 1) * size]]
            parts = (" ".join(digits[start : start + width]) for start in range(0, size, width))
            lines.append(" | ".join(parts))
            if row % height == height - 1 and row < size - 1:
                lines.append("-" * len(lines[-1]))
        return lines

    def picture(self, state: State, seat: int) -> str:
        """Return the board with the numbers of its rows and columns."""
        width, rows = BOXES[self.size][1], iter(range(1, self.size + 1))
        numbers = [str(column + 1) for column in range(self.size)]
        groups = (" ".join(numbers[start : start + width]) for start in range(0, self.size, width))
        lines = self._lines(state.table.cells)
        lines = [("   " if line[0] == "-" else f"r{next(rows)} ") + line for line in lines]
        return "\n".join(["The board ('.' is an empty cell):", f" c {'   '.join(groups)}", *lines])

    def revealed(self, state: State) -> str:
        return "\n".join(["The solution:", *self._lines(state.table.solution)])

    def paint_table(self, canvas: Canvas, table: SudokuTable, seat: int | None) -> None:
        size, last_cell = table.size, table.moves[-1] // table.size if table.moves else -1
        cells = [_cell(table, index, seat, index == last_cell) for index in range(size * size)]
        board = [cells[start : start + size] for start in range(0, size * size, size)]
        names = [str(number + 1) for number in range(size)]
        rows = [f"r{name}" for name in names]
        grid(canvas, board, rows=rows, columns=[f"c{name}" for name in names], boxes=BOXES[size])
        paragraph(canvas, _status(table, seat), colour="dim")

    def describe_table(self, table: SudokuTable, seat: int | None) -> str:
        size = table.size
        lines = (
            "".join(str(digit or ".") for digit in table.cells[start : start + size])
            for start in range(0, size * size, size)
        )
        return f"{_status(table, seat)} The rows: {' '.join(lines)}."


def _cell(table: SudokuTable, index: int, seat: int | None, is_last: bool) -> BoardCell:
    digit, is_given = table.cells[index], table.givens[index]
    if is_given:
        return BoardCell(str(digit), fill="panel")
    if not digit:
        return BoardCell(str(table.solution[index]), colour="rule") if seat is None else BoardCell()
    is_wrong = digit != table.solution[index] and _shows_error(table, seat)
    return BoardCell(str(digit), colour="red" if is_wrong else "blue", marked=is_last, bold=True)


def _shows_error(table: SudokuTable, seat: int | None) -> bool:
    return seat is None or table.wrong == "ends"


def _status(table: SudokuTable, seat: int | None) -> str:
    empty_text = f"{table.cells.count(0)} of {len(table.cells)} cells are empty."
    if not table.moves:
        return f"Nothing is written yet; {empty_text}"
    move = table.moves[-1]
    is_wrong = table.solution[move // table.size] != move % table.size + 1
    verdict = f", which is {'wrong' if is_wrong else 'right'}" if _shows_error(table, seat) else ""
    return f"The last digit is {word_of(table.size, move)}{verdict}; {empty_text}"


def _rules(table: SudokuTable) -> str:
    size = table.size
    height, width = BOXES[size]
    wrong_text = (
        "A wrong digit, one that is not in the solution, ends the game."
        if table.wrong == "ends"
        else (
            "A digit stays where it is written, right or wrong, and you are not told which it is; "
            "the game ends when the board is full."
        )
    )
    pay_text = (
        f"You get 1/{table.blanks} point for every digit you wrote that is in the solution."
        if table.pay == "share"
        else "You get 1 point if you solve the puzzle, and 0 otherwise."
    )
    return (
        f"You solve a Sudoku of {size} rows and {size} columns. Every row, every column and every "
        f"box of {height} rows and {width} columns must hold each digit from 1 to {size} once. The "
        "puzzle has exactly one solution. On your turn you write one digit into an empty cell; "
        "r1c2=3 writes a 3 into row 1, column 2 (rows from the top, columns from the "
        f"left). {wrong_text} {pay_text}"
    )


sudoku = entry_of(Sudoku, SudokuOptions)
