"""Puzzles in which one seat writes a value per turn into an empty cell until the board is full."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from sparring.core.errors import ConfigError
from sparring.core.records import SolverResult
from sparring.environments.openspiel.table import CHANCE, TERMINAL, Rules, Table

Cells = tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class FillInTable(Table):
    """A position: the current board, and the action ids so far.

    An action id is cell * values + value - 1. Chance draws the puzzle; before the draw the solution
    is empty. The options of a subclass include ``puzzles``, ``wrong`` and ``pay``.
    """

    puzzles: int
    wrong: str
    pay: str
    fixed_puzzle: Any = None  # the puzzle that the options give in place of a bank
    solution: Cells = ()
    cells: Cells = ()  # the value of each cell, 0 for a blank
    moves: tuple[int, ...] = ()
    mistakes: int = 0  # number of values that are not in the solution

    @property
    @abstractmethod
    def values(self) -> int:
        """Number of possible values of a cell."""

    @abstractmethod
    def with_puzzle(self, index: int) -> Self:
        """Return the table with puzzle ``index`` of the bank, or with the fixed puzzle."""

    @abstractmethod
    def word(self, index: int) -> str:
        """Return the word of an action id."""

    @abstractmethod
    def text(self, moves: tuple[int, ...]) -> str:
        """Return the puzzle and the words of moves in it."""

    def rules(self, actions: int, length: int) -> Rules:
        """Return the rules of the game whose initial state is this table."""
        return Rules(
            opening=self,
            actions=actions,
            outcomes=len(self.draws()),
            length=length,
            least=0.0,
            most=1.0,
            utility="identical",
            seats=1,
            hidden=False,
            views=True,
        )

    @property
    def player(self) -> int:
        """Seat 0, CHANCE before the draw, or TERMINAL: the board is full, or a mistake ended it."""
        if not self.solution:
            return CHANCE
        is_over = 0 not in self.cells or (self.wrong == "ends" and self.mistakes)
        return TERMINAL if is_over else 0

    def legal(self) -> list[int]:
        """Return every value in every empty cell."""
        return [
            cell * self.values + value
            for cell, old_value in enumerate(self.cells)
            if not old_value
            for value in range(self.values)
        ]

    def draws(self) -> range:
        """Return the numbers of the puzzles."""
        return range(1 if self.fixed_puzzle else self.puzzles)

    def after(self, index: int) -> Self:
        """Return the table after the draw of its puzzle, or after a value is written."""
        if not self.solution:
            return self.with_puzzle(index)
        cell, value = index // self.values, index % self.values + 1
        return replace(
            self,
            cells=(*self.cells[:cell], value, *self.cells[cell + 1 :]),
            moves=(*self.moves, index),
            mistakes=self.mistakes + (self.solution[cell] != value),
        )

    def returns(self) -> list[float]:
        """Return 0 before the end; then 1 if solved, or the share of blanks filled correctly."""
        if self.player != TERMINAL:
            return [0.0]
        if self.pay == "share":
            num_filled = len(self.moves)
            return [(num_filled - self.mistakes) / (num_filled + self.cells.count(0))]
        return [float(not self.mistakes)]

    def name_of(self, player: int, index: int) -> str:
        """Return the name of a value in a cell, or of a puzzle."""
        return f"puzzle {index}" if player < 0 else self.word(index)

    def key(self, seat: int) -> str:
        """Return the puzzle and all values in the order in which they were written."""
        return self.text(self.moves)

    def view(self, seat: int) -> str:
        """Return the puzzle and the written values in any order."""
        return self.text(tuple(sorted(self.moves)))

    def __str__(self) -> str:
        """Return the position with nothing hidden."""
        return self.view(0)

    def judgement(
        self,
        solution: Cells,
        forced_values: Mapping[int, int] | None,
        lost: Literal["abstain", "solution"],
    ) -> SolverResult | None:
        """Return an oracle's judgement of the legal moves in the position.

        Args:
            solution: the only solution.
            forced_values: cell -> the value that deduction gives; if right, these moves are best.
                If no such move is right, all right moves are best.
            lost: the result if a mistake already costs the whole payoff: None ("abstain"), or the
                right moves with ``bound`` 1 ("solution").
        """
        moves = [divmod(index, self.values) for index in self.legal()]
        is_right = [solution[cell] == value + 1 for cell, value in moves]
        num_wrong = sum(
            value not in (0, right_value)
            for value, right_value in zip(self.cells, solution, strict=True)
        )
        num_filled = len(self.moves)
        num_blanks = num_filled + self.cells.count(0)
        value_if_right, value_if_wrong = 1.0, 0.0
        if self.pay == "share":
            value_if_right = (num_blanks - num_wrong) / num_blanks
            value_if_wrong = (num_blanks - num_wrong - 1) / num_blanks
            if self.wrong == "ends":
                value_if_right, value_if_wrong = 1.0, num_filled / num_blanks
        elif num_wrong:  # no move changes the payoff
            if lost == "abstain":
                return None
            return SolverResult(values=[float(flag) for flag in is_right], bound=1.0)
        is_best = [
            flag and forced_values is not None and forced_values.get(cell) == value + 1
            for flag, (cell, value) in zip(is_right, moves, strict=True)
        ]
        values = [value_if_right if flag else value_if_wrong for flag in is_right]
        return SolverResult(values=values, best=is_best if any(is_best) else None)


def load_z3() -> Any:
    """Return the optional module z3, which checks the solvers of these puzzles.

    Raises:
        ConfigError: the package is not installed.
    """
    try:
        import z3
    except ImportError:
        raise ConfigError(
            "Oracle 'constraint' with solver='z3' needs the package z3-solver, which is not "
            "installed; run pip install 'sparring[oracles]', or write solver='backtracking'."
        ) from None
    return z3
