"""Minesweeper as an OpenSpiel game for one seat: the layouts of mines and the rules, no wording."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import Field

from sparring.core.rng import Stream
from sparring.environments.bank import BANKS
from sparring.environments.openspiel.table import CHANCE, TERMINAL, Rules, Table, register

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
    """Return layout number ``index`` of a bank.

    The cells in the order in which they get mines, the first one revealed passed over.

    All orders are equally likely, so given the first cell that is revealed, all sets of mines among
    the others are.
    """
    generator = Stream.from_seed(bank).child(f"minesweeper {cells}").child(index).generator()
    return tuple(map(int, generator.permutation(cells)))


def mines_of(order: tuple[int, ...], mines: int, first: int) -> frozenset[int]:
    """Return where the mines lie if ``first`` is the first cell that is revealed.

    There is none in it.
    """
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
    """A position: the order of mines, where they lie, the action ids so far.

    The order is empty before it is drawn, the places before the first reveal.

    Action ids are the cells in reading order, then the cells again for flags.
    """

    order: tuple[int, ...] = ()
    mined: frozenset[int] = frozenset()
    moves: tuple[int, ...] = ()
    # the safe cells opened by each action, in the order in which they were opened
    found: tuple[tuple[int, ...], ...] = ()
    opened: frozenset[int] = frozenset()
    flagged: frozenset[int] = frozenset()
    lost: bool = False

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
        """What was drawn from the bank.

        The cells that get mines, and the one that gets one if the first revealed is among them.
        """
        return (
            self.rows,
            self.columns,
            frozenset(self.order[: self.mines]),
            self.order[self.mines :][:1],
        )

    @property
    def player(self) -> int:
        """The sweeper, chance at the start, the end after a mistake or with all safe cells open."""
        if not self.order:
            return CHANCE
        return TERMINAL if self.lost or len(self.opened) == self.cells - self.mines else 0

    def legal(self) -> list[int]:
        """Return the closed cells without a flag, to reveal and to flag.

        They are flagged after the first reveal and while mines are unflagged.
        """
        closed = [
            cell
            for cell in range(self.cells)
            if cell not in self.opened and cell not in self.flagged
        ]
        may_flag = self.flags and self.opened and len(self.flagged) < self.mines
        return closed + [self.cells + cell for cell in closed] if may_flag else closed

    def draws(self) -> range:
        """Return the numbers of the layouts."""
        return range(self.layouts)

    def after(self, index: int) -> Minefield:
        """Return the field with its layout, or after an action."""
        if not self.order:
            drawn = replace(self, order=order_of(self.cells, self.bank, index))
            return drawn.after(drawn.middle) if self.centre else drawn
        moves, cell = (*self.moves, index), index % self.cells
        if index >= self.cells:
            wrong = cell not in self.mined
            return replace(
                self,
                moves=moves,
                found=(*self.found, ()),
                flagged=self.flagged | {cell},
                lost=wrong,
            )
        mined = self.mined or mines_of(self.order, self.mines, cell)
        if cell in mined:
            return replace(self, moves=moves, found=(*self.found, ()), lost=True)
        found = self._cascade(cell, mined)
        return replace(
            self,
            mined=mined,
            moves=moves,
            found=(*self.found, found),
            opened=self.opened | set(found),
        )

    def _cascade(self, start: int, mined: frozenset[int]) -> tuple[int, ...]:
        """Return the cells that a reveal opens: around a cell with no mine next to it, all open.

        A flag that stands is on a mine.
        """
        around, found, at = neighbours(self.rows, self.columns), [start], 0
        seen = {start, *self.opened}
        while at < len(found):
            near = around[found[at]]
            at += 1
            if mined.isdisjoint(near):
                new = [cell for cell in near if cell not in seen]
                seen.update(new)
                found += new
        return tuple(found)

    def number(self, cell: int) -> int:
        """Return how many mines lie next to a cell."""
        return len(self.mined.intersection(neighbours(self.rows, self.columns)[cell]))

    def returns(self) -> list[float]:
        """Return at the end 1 for a cleared field, else 0 or a share.

        The share is that of the safe cells that are open.
        """
        if self.player != TERMINAL:
            return [0.0]
        return [
            len(self.opened) / (self.cells - self.mines)
            if self.pay == "share"
            else float(not self.lost)
        ]

    def name_of(self, player: int, index: int) -> str:
        """Return the name of an action or of a layout."""
        return f"layout {index}" if player < 0 else word_of(self.rows, self.columns, index)

    def told(self, number: int) -> tuple[str, ...]:
        """Return what action ``number`` showed, as words.

        Counts, each but the first after the name of its cell, and how the game ended.
        """
        words = []
        for place, cell in enumerate(self.found[number]):
            words += ([self.name_of(0, cell)] if place else []) + [str(self.number(cell))]
        if self.player == TERMINAL and number == len(self.moves) - 1:
            words.append(
                "cleared"
                if not self.lost
                else "wrong"
                if self.moves[number] >= self.cells
                else "mine"
            )
        return tuple(words)

    def key(self, seat: int) -> str:
        """Return all actions and what each showed."""
        steps = [
            " ".join([self.name_of(seat, move), *self.told(number)])
            for number, move in enumerate(self.moves)
        ]
        return f"field: {'; '.join(steps)}"

    def sign(self, cell: int) -> str:
        """Return what can be seen of a cell: its count, "F" for a flag, "." for a closed one."""
        return (
            str(self.number(cell)) if cell in self.opened else "F" if cell in self.flagged else "."
        )

    def view(self, seat: int) -> str:
        """Return the board as the seat sees it, rows parted by "/"."""
        signs = "".join(map(self.sign, range(self.cells)))
        return "/".join(
            signs[start : start + self.columns] for start in range(0, self.cells, self.columns)
        )

    def __str__(self) -> str:
        """Return the board and where the mines lie, or the order in which they will be laid."""
        hidden = sorted(self.mined) if self.mined else self.order
        return f"{self.view(0)} mines {' '.join(map(str, hidden))}"


def word_of(rows: int, columns: int, index: int) -> str:
    """Return the word of an action id: "r2c3" reveals row 2, column 3, and "f2c3" flags it."""
    flag, cell = divmod(index, rows * columns)
    row, column = divmod(cell, columns)
    return f"{'f' if flag else 'r'}{row + 1}c{column + 1}"


def rules(options: MinesweeperOptions) -> Rules:
    """Return the facts of the game."""
    opening = Minefield(**asdict(options))
    cells, mines = opening.cells, opening.mines
    return Rules(
        opening=opening,
        actions=cells * (1 + opening.flags),
        outcomes=opening.layouts,
        length=cells - mines - opening.centre + (mines if opening.flags else 0),
        least=0.0,
        most=1.0,
        utility="identical",
        seats=1,
        views=True,
    )


register(NAME, MinesweeperOptions, rules)
