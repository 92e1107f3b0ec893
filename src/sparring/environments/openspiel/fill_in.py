"""Puzzles in which one seat writes a value per turn into an empty cell until the board is full."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from sparring.core.errors import ConfigError
from sparring.core.records import Judgement
from sparring.environments.openspiel.table import CHANCE, TERMINAL, Rules, Table

Cells = tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class FillInTable(Table):
    """A position: the board now, and the action ids so far.

    An id is cell * values + value - 1. Chance draws the puzzle; before that the solution is empty.
    The options of a subclass include ``puzzles``, ``wrong`` and ``pay``.
    """

    puzzles: int
    wrong: str
    pay: str
    only: Any = None  # the only puzzle, if given
    solution: Cells = ()
    cells: Cells = ()  # 0 where nothing is written
    moves: tuple[int, ...] = ()
    mistakes: int = 0

    @property
    @abstractmethod
    def values(self) -> int:
        """Number of possible values of a cell."""

    @abstractmethod
    def with_puzzle(self, index: int) -> Self:
        """Return the table with puzzle ``index`` of the bank, or with the only puzzle."""

    @abstractmethod
    def word(self, index: int) -> str:
        """Return the word of an action id."""

    @abstractmethod
    def text(self, moves: tuple[int, ...]) -> str:
        """Return the puzzle and the words of moves in it."""

    def rules(self, actions: int, length: int) -> Rules:
        """Return the facts of the game that begins here."""
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
        """The solver, chance at the start, or the end (full board, or a wrong value that ends)."""
        if not self.solution:
            return CHANCE
        ended = 0 not in self.cells or (self.wrong == "ends" and self.mistakes)
        return TERMINAL if ended else 0

    def legal(self) -> list[int]:
        """Return every value in every empty cell."""
        return [
            cell * self.values + value
            for cell, filled in enumerate(self.cells)
            if not filled
            for value in range(self.values)
        ]

    def draws(self) -> range:
        """Return the numbers of the puzzles."""
        return range(1 if self.only else self.puzzles)

    def after(self, index: int) -> Self:
        """Return the table with its puzzle, or after a value."""
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
        """Return at the end 1 if solved, else 0 or the share of the blanks with the right value."""
        if self.player != TERMINAL:
            return [0.0]
        if self.pay == "share":
            filled = len(self.moves)
            return [(filled - self.mistakes) / (filled + self.cells.count(0))]
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
        deduced: Mapping[int, int] | None,
        lost: Literal["abstain", "solution"],
    ) -> Judgement | None:
        """Return the judgement on the legal moves of the position.

        Args:
            solution: the only solution.
            deduced: values by cell that count as best moves, if any are right. None: all right
                moves are best.
            lost: the result if no move changes the payoff: None ("abstain"), or the right moves
                with ``bound`` 1 ("solution").
        """
        moves = [divmod(index, self.values) for index in self.legal()]
        right = [solution[cell] == value + 1 for cell, value in moves]
        wrong = sum(
            digit not in (0, solved) for digit, solved in zip(self.cells, solution, strict=True)
        )
        filled = len(self.moves)
        blanks = filled + self.cells.count(0)
        best, worst = 1.0, 0.0
        if self.pay == "share":
            best, worst = (blanks - wrong) / blanks, (blanks - wrong - 1) / blanks
            if self.wrong == "ends":
                best, worst = 1.0, filled / blanks
        elif wrong:  # no move changes the payoff
            if lost == "abstain":
                return None
            return Judgement(values=[float(ok) for ok in right], bound=1.0)
        forced = [
            ok and deduced is not None and deduced.get(cell) == value + 1
            for ok, (cell, value) in zip(right, moves, strict=True)
        ]
        values = [best if ok else worst for ok in right]
        return Judgement(values=values, best=forced if any(forced) else None)


def load_z3() -> Any:
    """Return the optional module z3, the reference for the solvers of such puzzles.

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
