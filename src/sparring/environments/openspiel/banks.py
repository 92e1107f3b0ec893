"""Banks: the numbered starts from which chance draws one.

They are for games whose puzzles or hidden things are made beforehand.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from sparring.environments.bank import BANKS, OTHERS
from sparring.environments.drawing.canvas import Canvas
from sparring.environments.openspiel.base import Game, State

BANK_OPTIONS = (
    "bank",
    "puzzles",
    "rooms",
    "layouts",
    "codes",
    "tables",
    "sets",
    "deals",
    "scenarios",
    "libraries",
)
"""Options that say which bank and how much of it, in the games that have an option ``bank``."""


class BankGame(Game):
    """A game whose start is drawn from a bank.

    Its table has ``start``: what was drawn, equal where two starts are.

    Subclasses say which option counts the starts of the bank, and draw and describe a table.
    """

    counted: str
    others: int = OTHERS  # how many starts the other bank holds
    # whether a seat is not told a start that is the only one, and can only learn it by heart
    untold: bool = False

    def paint_table(self, canvas: Canvas, table: Any, seat: int | None) -> None:
        """Draw a table.

        Args:
            canvas: to draw on.
            table: the position.
            seat: who looks; None: nothing is hidden.
        """
        raise NotImplementedError

    def describe_table(self, table: Any, seat: int | None) -> str:
        """Return a table in a sentence or two, as a seat knows it; None: nothing is hidden."""
        raise NotImplementedError

    def paint(self, canvas: Canvas, state: State, seat: int | None) -> None:
        """Draw who is due and the table; None: nothing is hidden."""
        self.paint_seats(canvas, state, seat)
        self.paint_table(canvas, state.table, seat)

    def describe(self, state: State, seat: int | None) -> str:
        """Return who is due and the table; None: nothing is hidden."""
        text = self.describe_table(state.table, seat)
        return f"{self.whose(state)} {text} {self.payoff_line(state, seat)}".strip()

    def start_of(self, state: State) -> Hashable:
        """Return what was drawn from the bank."""
        start: Hashable = state.spiel.table.start
        return start

    def starts(self) -> frozenset[Hashable]:
        """Return all starts of the bank.

        Each is made once, a fraction of a millisecond to some milliseconds each.
        """
        opening, every = self.opening.spiel.table, self.every_start()
        starts: set[Hashable] = set()
        for index in opening.draws():
            starts.add(opening.after(index).start)
            if len(starts) == every:
                break  # the bank is longer than there are starts
        return frozenset(starts)

    def every_start(self) -> int | None:
        """Return how many different starts there are in all banks.

        None where they are too many to matter.
        """
        return None

    def other_bank(self) -> dict[str, Any] | None:
        """Return options that make the same game with another bank.

        None for a game of one start, given or not told.
        """
        options = self.made_by["options"] if self.made_by is not None else {}
        opening = self.opening.spiel.table
        if getattr(opening, "only", None) or (self.untold and len(opening.draws()) == 1):
            return None
        return {
            **options,
            "bank": BANKS - 1 - int(options.get("bank", 0)),
            self.counted: self.others,
        }
