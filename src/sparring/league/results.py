"""How plays of one player against another have ended: counted, or computed exactly."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sparring.ops.statistics import student_half, wilson_ends

TIE = 1e-9  # numbers that differ by less, relative to their size or absolutely, are equal


@dataclass(frozen=True, kw_only=True, slots=True)
class Results:
    """How plays of one player against another have ended. They may be added.

    Exact ones are no plays: wins, draws and losses are probabilities, ``returns`` is the expected
    return, and ``games`` is 1. With plays added they stay exact, and the plays are left out.
    ``squares`` says nothing of them.

    Args:
        games: plays that count.
        wins: those that the player won.
        draws: those that were drawn.
        losses: those that it lost.
        returns: sum of its returns, in the environment's units.
        squares: sum of the squares of its returns; None: not known, in a checkpoint of before
            they were summed.
        exact: whether they were computed from the players' policies.
    """

    games: float = 0
    wins: float = 0
    draws: float = 0
    losses: float = 0
    returns: float = 0.0
    squares: float | None = 0.0
    exact: bool = False

    def __add__(self, other: Results) -> Results:
        """Return the results of both."""
        if self.exact != other.exact:
            return self if self.exact else other
        unknown = self.squares is None or other.squares is None
        return Results(
            games=self.games + other.games,
            wins=self.wins + other.wins,
            draws=self.draws + other.draws,
            losses=self.losses + other.losses,
            returns=self.returns + other.returns,
            squares=None if unknown else (self.squares or 0.0) + (other.squares or 0.0),
            exact=self.exact,
        )

    def faded(self, decay: float) -> Results:
        """Return the results with the weights of one step later; exact ones stay as they are.

        Args:
            decay: share that is lost, in [0, 1); at 0 they are the same.
        """
        if self.exact:
            return self
        left = 1.0 - decay
        return Results(
            games=left * self.games,
            wins=left * self.wins,
            draws=left * self.draws,
            losses=left * self.losses,
            returns=left * self.returns,
            squares=None if self.squares is None else left * self.squares,
        )

    @property
    def mean_return(self) -> float:
        """Mean of its returns, in the environment's units; 0 without games."""
        return self.returns / self.games if self.games else 0.0

    @property
    def deviation(self) -> float | None:
        """Standard deviation of its returns; None where fewer than two games say nothing of it."""
        if self.exact or self.squares is None or self.games <= 1:
            return None
        spread = self.squares - self.games * self.mean_return**2
        return math.sqrt(max(spread, 0.0) / (self.games - 1))

    def return_interval(self, level: float = 0.95) -> tuple[float, float] | None:
        """Return the ends of Student's interval of the mean return; None where there is none.

        That is where the deviation is not known. Of exact results both ends are the return. Where
        old results count less it is rather too wide than too narrow.
        """
        if self.exact:
            return self.mean_return, self.mean_return
        if self.deviation is None:
            return None
        half = student_half(self.deviation, self.games, level)
        return self.mean_return - half, self.mean_return + half

    def rate_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the ends of Wilson's interval of the win rate; [0, 1] where nothing was decided.

        A draw is half a win, and the interval is that of as many games that are won or lost: it is
        rather too wide than too narrow where there are draws, or where old results count less. Of
        exact results both ends are the rate.
        """
        decided = self.wins + self.draws + self.losses
        if self.exact and decided:
            return self.win_rate(), self.win_rate()
        return wilson_ends(self.win_rate(), decided, level) if decided else (0.0, 1.0)

    def win_rate(self, prior: float = 0.0) -> float:
        """Return the share of wins, a draw being half of one; 0.5 where nothing was decided.

        Args:
            prior: how many drawn games are added, so that few games say little; none to exact ones.
        """
        added = 0.0 if self.exact else prior
        decided = self.wins + self.draws + self.losses + added
        return (self.wins + (self.draws + added) / 2) / decided if decided else 0.5

    def to_json(self) -> dict[str, Any]:
        """Return them as values of JSON."""
        found = asdict(self)
        if self.exact or self.squares is None:
            del found["squares"]
        if not self.exact:
            del found["exact"]
        return found

    @classmethod
    def from_json(cls, numbers: Mapping[str, Any]) -> Results:
        """Return what ``to_json`` gave.

        Raises:
            TypeError, ValueError: it is something else.
        """
        known = 0.0 if numbers.get("exact") else None
        results = cls(**{"squares": known, **numbers})
        counts = (results.wins, results.draws, results.losses)
        squares = 0.0 if results.squares is None else results.squares
        found = (results.games, results.returns, squares, *counts)
        if not all(type(number) in (int, float) and math.isfinite(number) for number in found):
            raise ValueError("it is no number")
        if type(results.exact) is not bool:
            raise TypeError("exact is true or false")
        if min(*counts, squares) < 0 or sum(counts) > results.games * (1 + TIE):
            raise ValueError("more games were decided than played")
        return results
