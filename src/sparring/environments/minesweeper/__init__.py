"""Minesweeper: one seat opens all cells without a mine."""

from __future__ import annotations

from dataclasses import asdict
from math import comb

from sparring.core.errors import ConfigError
from sparring.environments.drawing.boards import Cell, grid
from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import paragraph
from sparring.environments.minesweeper.rules import NAME, Minefield, MinesweeperOptions, word_of
from sparring.environments.openspiel.banks import Banked
from sparring.environments.openspiel.base import CHANCE, Game, State, Style
from sparring.environments.openspiel.load import load
from sparring.environments.options import with_options

COUNTS = ("dim", "blue", "green", "red", "pink", "orange", "sky", "ink", "ink")


class Minesweeper(Banked):
    """One seat reveals cells, and flags mines where flags are in the game."""

    title = "minesweeper"
    counted = "layouts"

    def every_start(self) -> int:
        """Return the number of sets of mines.

        Each set has the cell that gets a mine if the first revealed is among them.
        """
        table = self.first_table
        return int(comb(table.cells, table.mines) * (table.cells - table.mines))

    def __init__(self, options: MinesweeperOptions, style: Style) -> None:
        rows, columns = options.rows, options.columns
        words = tuple(
            word_of(rows, columns, index) for index in range(rows * columns * (1 + options.flags))
        )
        super().__init__(
            load(NAME, asdict(options)),
            name=NAME,
            roles=("sweeper",),
            words=words,
            style=style,
        )
        self.columns = columns
        self.rules = _rules(self.first_table)

    def private_words(self) -> tuple[str, ...]:
        """Return the counts that can be seen, and how a game can end."""
        table = self.first_table
        counts = [str(count) for count in range(min(8, table.mines) + 1)]
        return (*counts, "cleared", "mine", *(["wrong"] if table.flags else []))

    def events(self, state: State, seat: int, since: int) -> list[str]:
        """Return what every action from ply ``since`` - 1 on showed.

        In the opening the actions are returned too.
        """
        table, out = state.table, []
        given = int(table.centre)  # the middle was revealed before the first action
        if given and not since:
            out += self._told(table, 0, since)
        for event in state.trail:
            if event.player != CHANCE and event.ply + 1 >= since:
                out += self._told(table, event.ply + given, since)
        return out

    def _told(self, table: Minefield, number: int, since: int) -> list[str]:
        """Return what one action showed.

        In brief style the name of the action comes first in the opening only.
        """
        word, told = table.name_of(0, table.moves[number]), table.told(number)
        if self.brief:
            return [*([] if since else [word]), *told]
        flag = table.moves[number] >= table.cells
        if told[-1:] == ("mine",):
            return [f"You revealed {word}: there is a mine."]
        if flag:
            return [f"You flagged {word}{': there is no mine.' if told else '.'}"]
        found = table.found[number]
        shown = (
            f"You revealed {word}: it has {told[0]} mine(s) next to "
            f"it{f', and {len(found) - 1} more cell(s) opened' if found[1:] else ''}."
        )
        return [shown, *(["All safe cells are open."] if told[-1] == "cleared" else [])]

    def position(self, state: State, seat: int) -> str:
        """Return the board as the seat sees it."""
        table = state.table
        signs = [table.sign(cell) for cell in range(table.cells)]
        lines = [
            " ".join(signs[start : start + self.columns])
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
        """Return the board with its coordinates.

        Hidden mines are shown as ``mine``, "" for as they are seen.
        """
        head = "    " + " ".join(f"c{column + 1}" for column in range(self.columns))
        lines = [head]
        for start in range(0, table.cells, self.columns):
            cells = range(start, start + self.columns)
            signs = (mine if mine and cell in table.mined else table.sign(cell) for cell in cells)
            lines.append(f"r{start // self.columns + 1}  " + "  ".join(signs))
        flag = ", 'F' flagged" if table.flags else ""
        return "\n".join(
            [f"The board ('.' closed{flag}; a digit counts the mines next to it):", *lines]
        )

    def revealed(self, state: State) -> str:
        """Return the board with its mines."""
        table = state.table
        return f"With the mines as '*'. {self._board(table, '*')}" if table.mined else ""

    def paint_table(self, canvas: Canvas, table: Minefield, seat: int | None) -> None:
        """Draw a field: closed cells are grey, open ones say how many mines are around."""
        last = table.moves[-1] % table.cells if table.moves else -1
        cells = [_cell(table, cell, seat, cell == last) for cell in range(table.cells)]
        board = [
            cells[start : start + table.columns] for start in range(0, table.cells, table.columns)
        ]
        rows = [f"r{row + 1}" for row in range(table.rows)]
        columns = [f"c{column + 1}" for column in range(table.columns)]
        grid(canvas, board, rows=rows, columns=columns)
        paragraph(canvas, _news(table), colour="dim")

    def describe_table(self, table: Minefield, seat: int | None) -> str:
        """Return the last move, how many cells are closed, and the rows as they are seen."""
        mines = ""
        if seat is None and table.mined:
            words = (word_of(table.rows, table.columns, cell) for cell in sorted(table.mined))
            mines = f" The mines are in {', '.join(words)}."
        return f"{_news(table)} The rows: {table.view(0).replace('/', ' ')}.{mines}"


def _cell(table: Minefield, cell: int, seat: int | None, last: bool) -> Cell:
    """Return a cell of the picture."""
    mine = cell in table.mined and (seat is None or (last and table.lost))
    if cell in table.opened:
        count = table.number(cell)
        return Cell(str(count) if count else "", colour=COUNTS[count], marked=last, bold=True)
    if cell in table.flagged:
        wrong = last and table.lost
        return Cell("F", fill="panel", colour="red" if wrong else "orange", marked=last, bold=True)
    if mine:
        struck = last and table.lost
        return Cell("*", fill="panel", shape="disc", colour="red" if struck else "sky", marked=last)
    return Cell(fill="panel")


def _news(table: Minefield) -> str:
    """Return the last move and how many cells are closed."""
    closed = table.cells - len(table.opened)
    left = f"{closed} cells are closed, {table.mines} of them with a mine."
    if not table.moves:
        return left
    word = word_of(table.rows, table.columns, table.moves[-1])
    if table.lost:
        return f"{word} lost the game; {left}"
    return f"The last move is {word}; {left}"


def _rules(table: Minefield) -> str:
    """Return the rules in full style."""
    safe = table.cells - table.mines
    flag = (
        " Instead you may flag a closed cell after the first reveal; f2c3 flags row 2, column 3. "
        "A flag says that there is a mine and stays; flagging a cell without a mine ends the "
        "game. You need not flag any mine."
        if table.flags
        else ""
    )
    first = (
        "cell in the middle holds no mine and is open at the start"
        if table.centre
        else "first cell that you reveal never holds a mine"
    )
    lost = f"1/{safe} point for every open cell" if table.pay == "share" else "0"
    return (
        f"You play Minesweeper on {table.rows} rows and {table.columns} columns; {table.mines} "
        "cell(s) hold a mine. On your turn you reveal a closed cell; r2c3 reveals row 2, column 3 "
        "(rows from the top, columns from the left). An open cell shows how many of the up to 8 "
        "cells around it hold mines; if it is 0, all of these are opened too, and so on. The "
        f"{first}. Revealing a mine ends the game.{flag} "
        f"You get 1 point if you open all {safe} cells without a mine, and {lost} if the game "
        "ends before."
    )


@with_options(MinesweeperOptions)
def minesweeper(options: MinesweeperOptions, *, style: Style = "brief") -> Game:
    """Minesweeper for 1 seat: reveal every cell without a mine, a cell a turn.

    What lies hidden is inferred from counts.

    Chance draws one of ``layouts`` layouts, all equally likely, at the start; nothing else is
    random. A layout is an order of the cells: the first ``mines`` of them get mines, the cell that
    is revealed first passed over, so the first reveal is safe and no cell is likelier than another.
    A reveal with no mine around opens its surroundings. Open cells and flagged ones are illegal. In
    brief style a turn is answered by the counts of the cells that it opened, each after the name of
    its cell but the one revealed: "0 r1c2 1".

    Args:
        rows: 1 to 8.
        columns: 1 to 8.
        mines: at least 1; at least one cell holds none.
        layouts: number of layouts in the bank, 1 to 100,000.
        bank: seed of the bank: layout number i depends on ``rows`` * ``columns``, ``bank`` and i
            alone.
        flags: whether "f2c3" may flag a closed cell, after the first reveal, at most ``mines``
            times. A flag stays, and flagging a cell without a mine loses as revealing a mine does:
            it is a claim that can be judged, never needed to win.
        pay: 1 for a cleared field; a lost one pays 0, or with "share" the share of the safe cells
            that are open.
        centre: whether the cell in the middle is revealed before the first turn, for nothing.
        style: wording, "brief" for tiny models, "full" for language models.

    Raises:
        ConfigError: a number out of range.

    Reference: Kaye, "Minesweeper is NP-complete", 2000; the task: arXiv 2605.10325.
    """
    cells, mines = options.rows * options.columns, options.mines
    if mines >= cells - options.centre:
        raise ConfigError(
            f"minesweeper: mines={mines} leaves no safe cell among {cells}; write fewer mines or a "
            "larger board."
        )
    return Minesweeper(options, style)
