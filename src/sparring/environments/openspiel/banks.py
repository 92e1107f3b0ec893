"""Base class of OpenSpiel games, such as puzzles, that draw initial states from a bank."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from sparring.environments.bank import BANKS, OTHER_BANK_SIZE
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
"""Options for the number and the size of the bank, in games with an option ``bank``."""


class BankGame(Game):
    """A game whose initial state is drawn from a bank, a numbered list of initial states.

    The attribute ``start`` of its table identifies the initial state. Subclasses define
    ``size_option`` and the methods that draw and describe a table.
    """

    size_option: str  # name of the option with the number of initial states in the bank
    other_size: int = OTHER_BANK_SIZE  # number of initial states in the other bank
    # whether prompts leave out the only initial state of a bank of one, so that a model learns it
    omits_only_start: bool = False

    def paint_table(self, canvas: Canvas, table: Any, seat: int | None) -> None:
        """Draw a table.

        Args:
            canvas: the canvas.
            table: the position.
            seat: the seat that looks; None: nothing is hidden.
        """
        raise NotImplementedError

    def describe_table(self, table: Any, seat: int | None) -> str:
        """Return a table in one or two sentences, for a seat; None: nothing is hidden."""
        raise NotImplementedError

    def paint(self, canvas: Canvas, state: State, seat: int | None) -> None:
        """Draw the seats and the table; seat None: nothing is hidden."""
        self.paint_seats(canvas, state, seat)
        self.paint_table(canvas, state.table, seat)

    def describe(self, state: State, seat: int | None) -> str:
        """Return the seats that are due and the table; seat None: nothing is hidden."""
        text = self.describe_table(state.table, seat)
        return f"{self.due_text(state)} {text} {self.payoff_line(state, seat)}".strip()

    def start_of(self, state: State) -> Hashable:
        """Return the identity of the initial state."""
        start: Hashable = state.spiel.table.start
        return start

    def starts(self) -> frozenset[Hashable]:
        """Return all initial states of the bank; computing one takes up to a few milliseconds."""
        initial_table, num_possible = self.opening.spiel.table, self.num_possible_starts()
        starts: set[Hashable] = set()
        for index in initial_table.draws():
            starts.add(initial_table.after(index).start)
            if len(starts) == num_possible:
                break  # the remaining initial states are repeats
        return frozenset(starts)

    def num_possible_starts(self) -> int | None:
        """Return the number of initial states that the rules allow; None: very many."""
        return None

    def other_bank(self) -> dict[str, Any] | None:
        """Return options that make the same game with another bank; None: one initial state."""
        options = self.made_by["options"] if self.made_by is not None else {}
        initial_table = self.opening.spiel.table
        hides_start = self.omits_only_start and len(initial_table.draws()) == 1
        if hides_start or getattr(initial_table, "fixed_puzzle", None):
            return None
        bank = BANKS - 1 - int(options.get("bank", 0))
        return {**options, "bank": bank, self.size_option: self.other_size}
