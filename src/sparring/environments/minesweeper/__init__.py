"""Minesweeper: one seat opens all cells without a mine."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from math import comb
from typing import Annotated, Literal

from pydantic import Field

from sparring.core.errors import ConfigError
from sparring.core.rng import Stream
from sparring.environments.bank import BANKS
from sparring.environments.drawing.boards import BoardCell, grid
from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import paragraph
from sparring.environments.openspiel.banks import BankGame
from sparring.environments.openspiel.base import State, Style
from sparring.environments.openspiel.load import load
from sparring.environments.openspiel.table import CHANCE, TERMINAL, Rules, Table, register
from sparring.environments.options import entry_of

NAME = "minesweeper"  # the name registered with OpenSpiel


@lru_cache(maxsize=64)
def neighbours(rows: int, columns: int) -> tuple[tuple[int, ...], ...]:
    """Return the cells around each cell, in reading order."""
    return tuple(
        tuple(
            r * columns + c
            for r in range(max(row - 1, 0), min(row + 2, rows))
            for c in range(max(column - 1, 0), min(column + 2, columns))
            if (r, c) != (row, column)
        )
        for row in range(rows)
        for column in range(columns)
    )


@lru_cache(maxsize=16384)
def order_of(cells: int, bank: int, index: int) -> tuple[int, ...]:
    """Return layout number ``index`` of a bank: cells in the order in which they get mines.

    All orders are equally likely. The first cell revealed is skipped, so all sets of mines among
    the other cells are equally likely too.
    """
    generator = Stream.from_seed(bank).child(f"minesweeper {cells}").child(index).generator()
    return tuple(map(int, generator.permutation(cells)))


def mines_of(order: tuple[int, ...], mines: int, first: int) -> frozenset[int]:
    """Return the cells with mines if ``first``, which has none, is the first cell revealed."""
    return frozenset([cell for cell in order if cell != first][:mines])


@dataclass(frozen=True, kw_only=True)
class MinesweeperOptions:
    """Options of ``minesweeper``."""

    rows: Annotated[int, Field(ge=1, le=8)] = 4
    columns: Annotated[int, Field(ge=1, le=8)] = 4
    mines: Annotated[int, Field(ge=1)] = 3
    layouts: Annotated[int, Field(ge=1, le=100_000)] = 256
    bank: Annotated[int, Field(ge=0, lt=BANKS)] = 0
    flags: bool = False
    pay: Literal["cleared", "share"] = "cleared"
    centre: bool = False  # whether the cell in the middle is open at the start


@dataclass(frozen=True, kw_only=True, slots=True)
class Minefield(MinesweeperOptions, Table):
    """A position: the order in which cells get mines, the mined cells, and the action ids so far.

    Action ids are the cells in reading order, then the cells again for flags.
    """

    order: tuple[int, ...] = ()  # empty before the draw
    mine_cells: frozenset[int] = frozenset()  # empty before the first reveal
    moves: tuple[int, ...] = ()
    # the safe cells opened by each action, in the order in which they were opened
    opened_by_move: tuple[tuple[int, ...], ...] = ()
    open_cells: frozenset[int] = frozenset()
    flag_cells: frozenset[int] = frozenset()
    is_lost: bool = False

    @property
    def cells(self) -> int:
        """The number of cells."""
        return self.rows * self.columns

    @property
    def middle(self) -> int:
        """The cell in the middle, or the first one after it."""
        return self.rows // 2 * self.columns + self.columns // 2

    @property
    def start(self) -> Hashable:
        """The cells with mines, and the cell that gets the mine of the first cell revealed."""
        return (
            self.rows,
            self.columns,
            frozenset(self.order[: self.mines]),
            self.order[self.mines :][:1],
        )

    @property
    def player(self) -> int:
        if not self.order:
            return CHANCE
        return TERMINAL if self.is_lost or len(self.open_cells) == self.cells - self.mines else 0

    def legal(self) -> list[int]:
        """Return reveals of closed cells; after the first also flags, at most one per mine."""
        cells = [
            cell
            for cell in range(self.cells)
            if cell not in self.open_cells and cell not in self.flag_cells
        ]
        may_flag = self.flags and self.open_cells and len(self.flag_cells) < self.mines
        return cells + [self.cells + cell for cell in cells] if may_flag else cells

    def draws(self) -> range:
        return range(self.layouts)

    def after(self, index: int) -> Minefield:
        if not self.order:
            table = replace(self, order=order_of(self.cells, self.bank, index))
            return table.after(table.middle) if self.centre else table
        moves, cell = (*self.moves, index), index % self.cells
        opened_by_move = (*self.opened_by_move, ())
        if index >= self.cells:
            is_wrong = cell not in self.mine_cells
            return replace(
                self,
                moves=moves,
                opened_by_move=opened_by_move,
                flag_cells=self.flag_cells | {cell},
                is_lost=is_wrong,
            )
        mine_cells = self.mine_cells or mines_of(self.order, self.mines, cell)
        if cell in mine_cells:
            return replace(self, moves=moves, opened_by_move=opened_by_move, is_lost=True)
        cascade = self._cascade(cell, mine_cells)
        return replace(
            self,
            mine_cells=mine_cells,
            moves=moves,
            opened_by_move=(*self.opened_by_move, cascade),
            open_cells=self.open_cells | set(cascade),
        )

    def _cascade(self, first_cell: int, mine_cells: frozenset[int]) -> tuple[int, ...]:
        """Return the cells that a reveal opens; a count of 0 opens all cells around it."""
        around, cascade, index = neighbours(self.rows, self.columns), [first_cell], 0
        visited_cells = {first_cell, *self.open_cells}
        while index < len(cascade):
            next_cells = around[cascade[index]]
            index += 1
            if mine_cells.isdisjoint(next_cells):
                new_cells = [cell for cell in next_cells if cell not in visited_cells]
                visited_cells.update(new_cells)
                cascade += new_cells
        return tuple(cascade)

    def count(self, cell: int) -> int:
        """Return the number of mines next to a cell."""
        return len(self.mine_cells.intersection(neighbours(self.rows, self.columns)[cell]))

    def returns(self) -> list[float]:
        """Return 0 before the end; then 1 if cleared, else 0 or the share of safe cells open."""
        if self.player != TERMINAL:
            return [0.0]
        share = len(self.open_cells) / (self.cells - self.mines)
        return [share if self.pay == "share" else float(not self.is_lost)]

    def name_of(self, player: int, index: int) -> str:
        return f"layout {index}" if player < 0 else word_of(self.rows, self.columns, index)

    def feedback(self, number: int) -> tuple[str, ...]:
        """Return the words after action ``number``: cells, their counts, and how the game ended."""
        words = []
        for index, cell in enumerate(self.opened_by_move[number]):
            words += ([self.name_of(0, cell)] if index else []) + [str(self.count(cell))]
        if self.player == TERMINAL and number == len(self.moves) - 1:
            loss_word = "wrong" if self.moves[number] >= self.cells else "mine"
            words.append(loss_word if self.is_lost else "cleared")
        return tuple(words)

    def key(self, seat: int) -> str:
        """Return all actions and the counts that each opened."""
        steps = [
            " ".join([self.name_of(seat, move), *self.feedback(number)])
            for number, move in enumerate(self.moves)
        ]
        return f"field: {'; '.join(steps)}"

    def symbol(self, cell: int) -> str:
        """Return the symbol of a cell: its count, "F" for a flag, "." for a closed cell."""
        return (
            str(self.count(cell))
            if cell in self.open_cells
            else "F"
            if cell in self.flag_cells
            else "."
        )

    def view(self, seat: int) -> str:
        """Return the visible board, rows separated by "/"."""
        symbols = "".join(map(self.symbol, range(self.cells)))
        return "/".join(
            symbols[start : start + self.columns] for start in range(0, self.cells, self.columns)
        )

    def __str__(self) -> str:
        """Return the board and the mined cells, or the order of mines before the first reveal."""
        cells = sorted(self.mine_cells) if self.mine_cells else self.order
        return f"{self.view(0)} mines {' '.join(map(str, cells))}"


def word_of(rows: int, columns: int, index: int) -> str:
    """Return the word of an action id: "r2c3" reveals row 2, column 3, and "f2c3" flags it."""
    flag, cell = divmod(index, rows * columns)
    row, column = divmod(cell, columns)
    return f"{'f' if flag else 'r'}{row + 1}c{column + 1}"


def rules(options: MinesweeperOptions) -> Rules:
    """Return the numbers of actions and turns of the game, and its first table."""
    table = Minefield(**asdict(options))
    cells, mines = table.cells, table.mines
    return Rules(
        opening=table,
        actions=cells * (1 + table.flags),
        outcomes=table.layouts,
        length=cells - mines - table.centre + (mines if table.flags else 0),
        least=0.0,
        most=1.0,
        utility="identical",
        seats=1,
        views=True,
    )


register(NAME, MinesweeperOptions, rules)


COUNT_COLOURS = ("dim", "blue", "green", "red", "pink", "orange", "sky", "ink", "ink")


class Minesweeper(BankGame):
    """Minesweeper for 1 seat: reveal every cell without a mine, one cell a turn.

    Chance draws one of ``layouts`` layouts, all equally likely, at the start; nothing else is
    random. A layout is an order of the cells: the first ``mines`` of them get mines, skipping the
    cell revealed first, so the first reveal is safe and all cells are equally likely. A reveal with
    no mine around it also opens the cells around it. Open cells and cells with a flag are illegal.
    In brief style the result of a turn is the count of the revealed cell, then the names and counts
    of the other cells that the turn opened: "0 r1c2 1".

    Args:
        rows: number of rows, 1 to 8.
        columns: number of columns, 1 to 8.
        mines: number of mines, at least 1; at least one cell has no mine.
        layouts: number of layouts in the bank, 1 to 100,000.
        bank: seed of the bank: layout number i depends only on ``rows`` * ``columns``, ``bank``
            and i.
        flags: whether "f2c3" may flag a closed cell, after the first reveal, at most ``mines``
            times. A flag stays, and flagging a cell without a mine loses the game; a win never
            needs a flag.
        pay: 1 for a cleared field; a lost field pays 0, or with "share" the share of the safe cells
            that are open.
        centre: whether the cell in the middle is open before the first turn, at no cost.
        style: wording, "brief" for tiny models, "full" for language models.

    Raises:
        ConfigError: a number out of range.

    Reference: Kaye, "Minesweeper is NP-complete", 2000; the task: arXiv 2605.10325.
    """

    title = "minesweeper"
    size_option = "layouts"

    def num_possible_starts(self) -> int:
        """Return the number of pairs: a set of mines, and a cell that may get one of them."""
        table = self.first_table
        return int(comb(table.cells, table.mines) * (table.cells - table.mines))

    def __init__(self, options: MinesweeperOptions, *, style: Style = "brief") -> None:
        cells, mines = options.rows * options.columns, options.mines
        if mines >= cells - options.centre:
            raise ConfigError(
                f"minesweeper: mines={mines} leaves no safe cell among {cells}; write fewer mines "
                "or a larger board."
            )
        rows, columns = options.rows, options.columns
        words = tuple(
            word_of(rows, columns, index) for index in range(rows * columns * (1 + options.flags))
        )
        super().__init__(
            load(NAME, asdict(options)), name=NAME, roles=("sweeper",), words=words, style=style
        )
        self.columns = columns
        self.rules = _rules_text(self.first_table)

    def private_words(self) -> tuple[str, ...]:
        table = self.first_table
        counts = [str(count) for count in range(min(8, table.mines) + 1)]
        return (*counts, "cleared", "mine", *(["wrong"] if table.flags else []))

    def events(self, state: State, seat: int, since: int) -> list[str]:
        """Return the results of actions from ply ``since`` - 1 on; ``since`` 0: of all actions."""
        table, texts = state.table, []
        free_moves = int(table.centre)  # the reveal of the middle before the first turn
        if free_moves and not since:
            texts += self._feedback_texts(table, 0, since)
        for event in state.trail:
            if event.player != CHANCE and event.ply + 1 >= since:
                texts += self._feedback_texts(table, event.ply + free_moves, since)
        return texts

    def _feedback_texts(self, table: Minefield, number: int, since: int) -> list[str]:
        word, feedback = table.name_of(0, table.moves[number]), table.feedback(number)
        if self.brief:
            return [*([] if since else [word]), *feedback]
        is_flag = table.moves[number] >= table.cells
        if feedback[-1:] == ("mine",):
            return [f"You revealed {word}: there is a mine."]
        if is_flag:
            return [f"You flagged {word}{': there is no mine.' if feedback else '.'}"]
        cascade = table.opened_by_move[number]
        text = (
            f"You revealed {word}: it has {feedback[0]} mine(s) next to "
            f"it{f', and {len(cascade) - 1} more cell(s) opened' if cascade[1:] else ''}."
        )
        return [text, *(["All safe cells are open."] if feedback[-1] == "cleared" else [])]

    def position(self, state: State, seat: int) -> str:
        table = state.table
        symbols = [table.symbol(cell) for cell in range(table.cells)]
        lines = [
            " ".join(symbols[start : start + self.columns])
            for start in range(0, table.cells, self.columns)
        ]
        flag = ", 'F' a flagged one" if table.flags else ""
        return "\n".join(
            [
                (
                    f"The board ('.' is a closed cell{flag}; a digit is the number of mines next "
                    "to an open one):"
                ),
                *lines,
            ]
        )

    def picture(self, state: State, seat: int) -> str:
        """Return the board with the numbers of its rows and columns."""
        return self._board(state.table, "")

    def _board(self, table: Minefield, mine: str) -> str:
        """Return the board with coordinates; mines have the text ``mine``, or are hidden for ""."""
        header = "    " + " ".join(f"c{column + 1}" for column in range(self.columns))
        lines = [header]
        for start in range(0, table.cells, self.columns):
            cells = range(start, start + self.columns)
            texts = (
                mine if mine and cell in table.mine_cells else table.symbol(cell) for cell in cells
            )
            lines.append(f"r{start // self.columns + 1}  " + "  ".join(texts))
        flag = ", 'F' flagged" if table.flags else ""
        return "\n".join(
            [f"The board ('.' closed{flag}; a digit counts the mines next to it):", *lines]
        )

    def revealed(self, state: State) -> str:
        table = state.table
        return f"With the mines as '*'. {self._board(table, '*')}" if table.mine_cells else ""

    def paint_table(self, canvas: Canvas, table: Minefield, seat: int | None) -> None:
        last_cell = table.moves[-1] % table.cells if table.moves else -1
        cells = [_cell(table, cell, seat, cell == last_cell) for cell in range(table.cells)]
        board = [
            cells[start : start + table.columns] for start in range(0, table.cells, table.columns)
        ]
        rows = [f"r{row + 1}" for row in range(table.rows)]
        columns = [f"c{column + 1}" for column in range(table.columns)]
        grid(canvas, board, rows=rows, columns=columns)
        paragraph(canvas, _status_sentence(table), colour="dim")

    def describe_table(self, table: Minefield, seat: int | None) -> str:
        mines_text = ""
        if seat is None and table.mine_cells:
            words = (word_of(table.rows, table.columns, cell) for cell in sorted(table.mine_cells))
            mines_text = f" The mines are in {', '.join(words)}."
        return f"{_status_sentence(table)} The rows: {table.view(0).replace('/', ' ')}.{mines_text}"


def _cell(table: Minefield, cell: int, seat: int | None, is_last: bool) -> BoardCell:
    shows_mine = cell in table.mine_cells and (seat is None or (is_last and table.is_lost))
    if cell in table.open_cells:
        count = table.count(cell)
        text = str(count) if count else ""
        return BoardCell(text, colour=COUNT_COLOURS[count], marked=is_last, bold=True)
    if cell in table.flag_cells:
        is_wrong = is_last and table.is_lost
        return BoardCell(
            "F", fill="panel", colour="red" if is_wrong else "orange", marked=is_last, bold=True
        )
    if shows_mine:
        is_hit = is_last and table.is_lost
        return BoardCell(
            "*", fill="panel", shape="disc", colour="red" if is_hit else "sky", marked=is_last
        )
    return BoardCell(fill="panel")


def _status_sentence(table: Minefield) -> str:
    num_closed = table.cells - len(table.open_cells)
    closed_text = f"{num_closed} cells are closed, {table.mines} of them with a mine."
    if not table.moves:
        return closed_text
    word = word_of(table.rows, table.columns, table.moves[-1])
    if table.is_lost:
        return f"{word} lost the game; {closed_text}"
    return f"The last move is {word}; {closed_text}"


def _rules_text(table: Minefield) -> str:
    num_safe = table.cells - table.mines
    flag_text = (
        " Instead you may flag a closed cell after the first reveal; f2c3 flags row 2, column 3. "
        "A flag says that there is a mine and stays; flagging a cell without a mine ends the "
        "game. You need not flag any mine."
        if table.flags
        else ""
    )
    first_text = (
        "cell in the middle holds no mine and is open at the start"
        if table.centre
        else "first cell that you reveal never holds a mine"
    )
    loss_pay = f"1/{num_safe} point for every open cell" if table.pay == "share" else "0"
    return (
        f"You play Minesweeper on {table.rows} rows and {table.columns} columns; {table.mines} "
        "cell(s) hold a mine. On your turn you reveal a closed cell; r2c3 reveals row 2, column 3 "
        "(rows from the top, columns from the left). An open cell shows how many of the up to 8 "
        "cells around it hold mines; if it is 0, all of these are opened too, and so on. The "
        f"{first_text}. Revealing a mine ends the game.{flag_text} "
        f"You get 1 point if you open all {num_safe} cells without a mine, and {loss_pay} if the "
        "game ends before."
    )


minesweeper = entry_of(Minesweeper, MinesweeperOptions)
