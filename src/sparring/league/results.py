"""How plays of one player against another have ended: counted, or computed exactly."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sparring.ops.statistics import student_half, student_quantile, wilson_ends

GROUPED = ("return_groups", "win_groups")  # fields that are sums over groups
TIE = 1e-9  # numbers that differ by less, relative to their size or absolutely, are equal


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupSums:
    """Sums over groups of plays that share a deal, for the error of a mean over all plays.

    With S the sum of a figure over the plays of a group, and n the number of these plays.

    Args:
        count: groups.
        sizes: sum of n^2.
        products: sum of n S.
        squares: sum of S^2.
    """

    count: float = 0
    sizes: float = 0
    products: float = 0.0
    squares: float = 0.0

    def plus(self, other: GroupSums, share: float = 1.0) -> GroupSums:
        """Return the sums over the groups of both, of which the other's count a share."""
        return GroupSums(
            count=self.count + share * other.count,
            sizes=self.sizes + share * other.sizes,
            products=self.products + share * other.products,
            squares=self.squares + share * other.squares,
        )

    def spread(self, mean: float) -> float:
        """Return the sum over groups of (S - mean n)^2, where ``mean`` is that of all plays."""
        return max(self.squares - 2 * mean * self.products + mean * mean * self.sizes, 0.0)


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
        return_groups: of its returns, by groups of plays that share a deal; None: each play is a
            group, or ``squares`` is not known.
        win_groups: of its wins in the same groups, a draw being half of one; plays in which nobody
            wins are left out. None: each play is a group.
    """

    games: float = 0
    wins: float = 0
    draws: float = 0
    losses: float = 0
    returns: float = 0.0
    squares: float | None = 0.0
    exact: bool = False
    return_groups: GroupSums | None = None
    win_groups: GroupSums | None = None

    def __add__(self, other: Results) -> Results:
        """Return the results of both."""
        if self.exact != other.exact:
            return self if self.exact else other
        unknown = self.squares is None or other.squares is None
        wins = returns = None
        if self.win_groups or other.win_groups:
            wins = self.sums_of_wins().plus(other.sums_of_wins())
        if (self.return_groups or other.return_groups) and not unknown:
            returns = self.sums_of_returns().plus(other.sums_of_returns())
        return Results(
            games=self.games + other.games,
            wins=self.wins + other.wins,
            draws=self.draws + other.draws,
            losses=self.losses + other.losses,
            returns=self.returns + other.returns,
            squares=None if unknown else (self.squares or 0.0) + (other.squares or 0.0),
            exact=self.exact,
            return_groups=returns,
            win_groups=wins,
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
            return_groups=self.return_groups and GroupSums().plus(self.return_groups, left),
            win_groups=self.win_groups and GroupSums().plus(self.win_groups, left),
        )

    def sums_of_returns(self) -> GroupSums:
        """Return the sums of returns by groups; each play is one where nothing else is known."""
        if self.return_groups is not None:
            return self.return_groups
        plain = {"sizes": self.games, "products": self.returns, "squares": self.squares or 0.0}
        return GroupSums(count=self.games, **plain)

    def sums_of_wins(self) -> GroupSums:
        """Return the sums of wins by groups; each play is one where nothing else is known."""
        if self.win_groups is not None:
            return self.win_groups
        wins, squares = self.wins + self.draws / 2, self.wins + self.draws / 4
        return GroupSums(count=self.decided, sizes=self.decided, products=wins, squares=squares)

    @property
    def decided(self) -> float:
        """Plays that were won, drawn or lost."""
        return self.wins + self.draws + self.losses

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

        Plays of a group share a deal, so that the groups are what is independent (Cochran, 1977).
        With G groups of n plays each, whose returns sum to S, and mean r,

            standard error^2 = G / (G - 1) * sum of (S - r n)^2 / (sum of n)^2

        with G - 1 degrees of freedom. There is no interval where the deviation is not known, and of
        fewer than two groups. Of exact results both ends are the return. Where old results count
        less it is rather too wide than too narrow.
        """
        if self.exact:
            return self.mean_return, self.mean_return
        if self.deviation is None:
            return None
        groups = self.return_groups
        if groups is None:
            half = student_half(self.deviation, self.games, level)
        elif groups.count <= 1:
            return None
        else:
            spread = groups.spread(self.mean_return) * groups.count / (groups.count - 1)
            half = student_quantile(groups.count - 1, level) * math.sqrt(spread) / self.games
        return self.mean_return - half, self.mean_return + half

    def rate_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the ends of Wilson's interval of the win rate; [0, 1] where nothing was decided.

        A draw is half a win, and the interval is that of as many games that are won or lost: it is
        rather too wide than too narrow where there are draws, or where old results count less.
        Plays of a group share a deal, and count as fewer (``_independent_plays``). Of exact results
        both ends are the rate.
        """
        if self.exact and self.decided:
            return self.win_rate(), self.win_rate()
        count = self._independent_plays(level)
        return wilson_ends(self.win_rate(), count, level) if count > TIE else (0.0, 1.0)

    def _independent_plays(self, level: float) -> float:
        """Return how many independent plays say as much of the win rate as those of the groups.

        With n plays in G groups, of win rate p, each play w in {0, 1/2, 1} and each group W,

            design effect = [G / (G - 1) sum over groups of (W - p n_g)^2]
                            / [n / (n - 1) sum over plays of (w - p)^2], at least 1
            plays = n / design effect * (t_{n - 1} / t_{G - 1})^2

        (Korn and Graubard, 1998). Where all plays ended alike they do not tell how alike those of a
        group are, and each group counts as one play. Groups of one play are as many as there are
        plays, and one group alone is none.
        """
        groups, plays, rate = self.win_groups, self.decided, self.win_rate()
        if groups is None or not plays:
            return plays
        if groups.count <= 1 or plays <= 1:
            return 0.0
        effect = plays / groups.count
        if 0 < rate < 1:
            each = self.wins + self.draws / 4 - plays * rate * rate
            by_group = groups.spread(rate) * groups.count / (groups.count - 1)
            effect = max(by_group / (each * plays / (plays - 1)), 1.0) if each > 0 else 1.0
        fewer = student_quantile(plays - 1, level) / student_quantile(groups.count - 1, level)
        return plays / effect * fewer**2

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
        for name in GROUPED:
            if found[name] is None:
                del found[name]
        return found

    @classmethod
    def from_json(cls, numbers: Mapping[str, Any]) -> Results:
        """Return what ``to_json`` gave.

        Raises:
            TypeError, ValueError: it is something else.
        """
        known = 0.0 if numbers.get("exact") else None
        sums = {name: GroupSums(**numbers[name]) for name in GROUPED if name in numbers}
        results = cls(**{"squares": known, **numbers, **sums})
        counts = (results.wins, results.draws, results.losses)
        squares = 0.0 if results.squares is None else results.squares
        found = [results.games, results.returns, squares, *counts]
        for groups in sums.values():
            found += [groups.count, groups.sizes, groups.products, groups.squares]
        if not all(type(number) in (int, float) and math.isfinite(number) for number in found):
            raise ValueError("it is no number")
        if type(results.exact) is not bool:
            raise TypeError("exact is true or false")
        if min(*counts, squares) < 0 or sum(counts) > results.games * (1 + TIE):
            raise ValueError("more games were decided than played")
        if any(min(own.count, own.sizes, own.squares) < 0 for own in sums.values()):
            raise ValueError("a sum over groups is below 0")
        return results
