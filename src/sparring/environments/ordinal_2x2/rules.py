"""Positions of an ordinal 2x2 game, for OpenSpiel: which game is drawn, then both choices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from sparring.environments.openspiel.table import CHANCE, TERMINAL, Rules, Table, register
from sparring.environments.ordinal_2x2.games import (
    CELLS,
    Ordinal,
    all_games,
    chosen,
    is_equilibrium,
    is_joint_maximum,
    is_response,
    rank,
    swapped,
)

NAME = "ordinal_2x2"  # the name registered with OpenSpiel
ACTIONS = ("one", "two")
Pay = Literal["own", "response", "equilibrium", "joint"]


@dataclass(frozen=True, kw_only=True)
class OrdinalOptions:
    """Options of ``ordinal_2x2``."""

    game: int | str = "all"
    drawn: bool = True
    pay: Pay = "own"


@dataclass(frozen=True, slots=True)
class Cells(Table):
    """A position.

    Args:
        games: that chance draws from, in the order of choices in which they are shown.
        pay: what a play returns.
        drawn: which one it is, -1 before.
        moves: the choices of seats 0 and 1 so far.
    """

    games: tuple[Ordinal, ...]
    pay: Pay
    drawn: int = -1
    moves: tuple[int, ...] = ()

    @property
    def game(self) -> Ordinal:
        """The game that was drawn."""
        return self.games[self.drawn]

    @property
    def player(self) -> int:
        """Chance, seat 0, seat 1, the end."""
        if self.drawn < 0:
            return CHANCE
        return TERMINAL if len(self.moves) == 2 else len(self.moves)

    def legal(self) -> list[int]:
        """Return both choices."""
        return [0, 1]

    def draws(self) -> range:
        """Return the numbers of all games."""
        return range(len(self.games))

    def after(self, index: int) -> Cells:
        """Return the table with its game, or after a choice."""
        if self.drawn < 0:
            return replace(self, drawn=index)
        return replace(self, moves=(*self.moves, index))

    def returns(self) -> list[float]:
        """Return what both seats get; 0 before both have chosen."""
        if len(self.moves) < 2:
            return [0.0, 0.0]
        return [float(paid(self.game, seat, self.moves, self.pay)) for seat in (0, 1)]

    def name_of(self, player: int, index: int) -> str:
        """Return the name of a choice, or of a drawn game."""
        return f"game {index}" if player < 0 else ACTIONS[index]

    def key(self, seat: int) -> str:
        """Return both seats' ranks as the seat sees them, its own choice, at the end the other's.

        Two games that a seat sees alike are one.
        """
        known = self.moves if len(self.moves) == 2 else self.moves[: 1 - seat]
        shown = known if seat == 0 else known[::-1]
        return f"{seat}: {' '.join([*self.seen(seat), *map(self._word, shown)])}"

    @staticmethod
    def _word(choice: int) -> str:
        """Return the word of a choice."""
        return ACTIONS[choice]

    def seen(self, seat: int) -> list[str]:
        """Return the seat's own four ranks and then the other's, by own and other's choice."""
        if self.drawn < 0:
            return []
        own, other = self.game[seat], self.game[1 - seat]
        theirs = [other[2 * two + one] for one, two in CELLS]
        return [str(value) for value in (*own, *theirs)]

    def __str__(self) -> str:
        """Return the ranks as seat 0 sees them, and all choices."""
        return " ".join([*self.seen(0), *map(self._word, self.moves)])


def paid(game: Ordinal, seat: int, choices: tuple[int, ...], pay: Pay) -> float:
    """Return what a play returns to a seat.

    Args:
        game: that was played.
        seat: whose return it is.
        choices: of seats 0 and 1.
        pay: "own": the seat's rank of the outcome; else 1 or 0, whether the seat's choice is the
            best "response" to the other's, whether the outcome is a pure "equilibrium", whether it
            has the largest sum of ranks ("joint").
    """
    if pay == "own":
        return rank(game, seat, choices)
    if pay == "response":
        return is_response(game, seat, choices)
    return (is_equilibrium if pay == "equilibrium" else is_joint_maximum)(game, choices)


@cache
def shown(which: str, drawn: bool) -> tuple[Ordinal, ...]:
    """Return the games that chance draws from.

    Args:
        which: see ``games.chosen``.
        drawn: whether each is there in all four orders of the choices; else in its canonical one.
    """
    games = [all_games()[number - 1] for number in chosen(which)]
    return tuple(swapped(game, cell) for game in games for cell in (CELLS if drawn else CELLS[:1]))


def rules(options: OrdinalOptions) -> Rules:
    """Return the facts of the game."""
    games, pay = shown(str(options.game), options.drawn), options.pay
    return Rules(
        opening=Cells(games, pay),
        actions=len(ACTIONS),
        length=2,
        least=1.0 if pay == "own" else 0.0,
        most=4.0 if pay == "own" else 1.0,
        utility="identical" if pay in ("equilibrium", "joint") else "general_sum",
        outcomes=len(games),
    )


register(NAME, OrdinalOptions, rules)
