"""The payoff book of a run: how plays between each two players have ended.

A row is of one environment and one ordered pair of players: the results of ``player``, whose side
begins at ``seat``, against a side of ``opponent``. What counts:

- A finished play counts once for every ordered pair of its teams. The team with the larger return
  wins (the mean over its seats); equal returns are a draw. Of a team of several players each one
  has the team's result.
- A play that was forfeited counts for the pairs that the offending team is in: it lost, whatever
  the forfeit pays. How the others would have done against each other is not known.
- A play that was cut (``rollout.max_turns``) has no result, and counts for nobody.
- Where all seats are one team nobody wins or loses: each pair of seats has its games and returns.

The learner's rows are those of all its weights so far. With ``league.payoff_decay`` what is older
counts less: the book's numbers are then sums of weights,

    weight of a play of k steps ago = (1 - payoff_decay)^k

Where a run has several policies for several roles, all of them are the learner, and their snapshots
of one step are one: the seat says which of them played. Where several learn in one league
(``league.learners``), each is a player of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from functools import lru_cache
from itertools import permutations
from typing import Any, NamedTuple

from sparring.environments.base import filled_together, sides_of
from sparring.errors import CheckpointError, ConfigError
from sparring.ops.statistics import wilson_ends
from sparring.refs import MAIN, PlayerRef
from sparring.types import Episode

TIE = 1e-9  # returns that differ by less, relative to their size or absolutely, are equal


@dataclass(frozen=True, kw_only=True, slots=True)
class Results:
    """How plays of one player against another have ended. They may be added.

    Args:
        games: plays that count.
        wins: those that the player won.
        draws: those that were drawn.
        losses: those that it lost.
        returns: sum of its returns, in the environment's units.
    """

    games: float = 0
    wins: float = 0
    draws: float = 0
    losses: float = 0
    returns: float = 0.0

    def __add__(self, other: Results) -> Results:
        """Return the results of both."""
        return Results(
            games=self.games + other.games,
            wins=self.wins + other.wins,
            draws=self.draws + other.draws,
            losses=self.losses + other.losses,
            returns=self.returns + other.returns,
        )

    def faded(self, decay: float) -> Results:
        """Return the results with the weights of one step later.

        Args:
            decay: share that is lost, in [0, 1); at 0 they are the same.
        """
        left = 1.0 - decay
        return Results(**{name: left * value for name, value in asdict(self).items()})

    @property
    def mean_return(self) -> float:
        """Mean of its returns, in the environment's units; 0 without games."""
        return self.returns / self.games if self.games else 0.0

    def rate_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the ends of Wilson's interval of the win rate; [0, 1] where nothing was decided.

        A draw is half a win, and the interval is that of as many games that are won or lost: it is
        rather too wide than too narrow where there are draws, or where old results count less.
        """
        decided = self.wins + self.draws + self.losses
        return wilson_ends(self.win_rate(), decided, level) if decided else (0.0, 1.0)

    def win_rate(self, prior: float = 0.0) -> float:
        """Return the share of wins, a draw being half of one; 0.5 where nothing was decided.

        Args:
            prior: how many drawn games are added, so that few games say little.
        """
        decided = self.wins + self.draws + self.losses + prior
        return (self.wins + (self.draws + prior) / 2) / decided if decided else 0.5


class Row(NamedTuple):
    """What the results of a row are of."""

    environment: str  # its label, as in metrics
    seat: int  # the first one of the player's side
    player: PlayerRef
    opponent: PlayerRef


@dataclass(frozen=True, slots=True)
class Payoffs:
    """The payoff book: a value, which never changes. ``Payoffs()`` is empty."""

    rows: Mapping[Row, Results] = field(default_factory=dict)
    _of: dict[tuple[PlayerRef, PlayerRef], list[Row]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )  # the rows of each pair, as soon as they are asked for

    def results(
        self,
        player: PlayerRef,
        opponent: PlayerRef,
        *,
        environment: str | None = None,
        seat: int | None = None,
    ) -> Results:
        """Return how a player has done against an opponent; no games where they never met.

        Args:
            player: whose results are asked for.
            opponent: against whom.
            environment: the label of one; None: of all.
            seat: the first one of the player's side; None: any.
        """
        if not self._of:
            for row in self.rows:
                self._of.setdefault((row.player, row.opponent), []).append(row)
        found = Results()
        for row in self._of.get((player, opponent), ()):
            if environment in (None, row.environment) and seat in (None, row.seat):
                found += self.rows[row]
        return found

    def after(
        self,
        episodes: Iterable[Episode],
        teams: Mapping[str, Sequence[int]] | None = None,
        *,
        decay: float = 0.0,
        apart: bool = False,
    ) -> Payoffs:
        """Return the book of a step later, with the results of these plays added, in their order.

        Args:
            episodes: finished plays.
            teams: the team of each seat, by the environment's label; every seat is one of its own
                in an environment that is not named.
            decay: share of their weight that the results so far lose, in [0, 1).
            apart: whether each policy of the run is a player of its own, as where several learn in
                one league; else they are one player, whose seats they share.
        """
        old = self.rows.items()
        rows = {row: results.faded(decay) for row, results in old} if decay else dict(old)
        sums: dict[Row, list[float]] = {}  # of the rows that change, as there are very many plays
        for episode in episodes:
            own = (teams or {}).get(episode.game) or range(len(episode.returns))
            for row, won, returns in _results(episode, tuple(own), apart):
                if row not in sums:
                    sums[row] = list(astuple(rows.get(row, Results())))
                found = sums[row]
                found[0] += 1
                if won is not None:
                    found[2 - won] += 1
                found[4] += returns
        for row, (games, wins, draws, losses, returns) in sums.items():
            rows[row] = Results(games=games, wins=wins, draws=draws, losses=losses, returns=returns)
        return Payoffs(rows)

    def among(self, members: Iterable[PlayerRef]) -> Payoffs:
        """Return the book without the rows of snapshots other than these."""
        there = set(members)

        def stays(player: PlayerRef) -> bool:
            return player.kind != "snapshot" or player in there

        kept = {row: r for row, r in self.rows.items() if stays(row.player) and stays(row.opponent)}
        return Payoffs(kept)

    def to_json(self) -> dict[str, Any]:
        """Return the book as values of JSON: the rows of each environment."""
        found: dict[str, Any] = {}
        for row, results in self.rows.items():
            players = {"player": row.player.to_json(), "opponent": row.opponent.to_json()}
            found.setdefault(row.environment, []).append(
                {"seat": row.seat, **players, **asdict(results)}
            )
        return found

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Payoffs:
        """Return what ``to_json`` gave.

        Raises:
            CheckpointError: it is something else.
        """
        rows: dict[Row, Results] = {}
        try:
            for environment, given in value.items():
                for entry in given:
                    numbers = dict(entry)
                    seat = numbers.pop("seat")
                    player = PlayerRef.from_json(numbers.pop("player"))
                    opponent = PlayerRef.from_json(numbers.pop("opponent"))
                    rows[Row(environment, seat, player, opponent)] = _read(numbers)
        except (TypeError, KeyError, ValueError, AttributeError, ConfigError):
            raise CheckpointError(
                "The checkpoint's payoff book cannot be read; take another checkpoint, or start "
                "anew with --overwrite."
            ) from None
        return cls(rows)


def _read(numbers: Mapping[str, Any]) -> Results:
    """Return results from JSON.

    Raises:
        TypeError, ValueError: they are none.
    """
    results = Results(**numbers)
    counts = (results.wins, results.draws, results.losses)
    found = (results.games, results.returns, *counts)
    if not all(type(number) in (int, float) and math.isfinite(number) for number in found):
        raise ValueError("it is no number")
    if min(counts) < 0 or sum(counts) > results.games * (1 + TIE):
        raise ValueError("more games were decided than played")
    return results


def _results(
    episode: Episode, teams: tuple[int, ...], apart: bool
) -> Iterator[tuple[Row, int | None, float]]:
    """Yield what a play says of each ordered pair of players that met in it.

    It is the row, whether the player won (1), drew (0) or lost (-1), None where that is not asked,
    and its return.
    """
    if episode.cut:
        return
    sides, returns = sides_of(teams), episode.returns
    meetings = _meetings(episode.game, episode.players, teams, apart)
    if len(sides) == 1:
        for row, own, _ in meetings:
            yield row, None, returns[own]
        return
    means = returns
    if len(sides) < len(teams):
        means = tuple(math.fsum(returns[seat] for seat in side) / len(side) for side in sides)
    loser = None if episode.forfeited_by is None else _side(episode.forfeited_by, sides)
    for row, own, other in meetings:
        if loser is None:
            yield row, _compared(means[own], means[other]), means[own]
        elif loser in (own, other):
            yield row, 1 if loser == other else -1, means[own]


@lru_cache(maxsize=4096)
def _meetings(
    game: str, players: tuple[PlayerRef, ...], teams: tuple[int, ...], apart: bool
) -> tuple[tuple[Row, int, int], ...]:
    """Return the rows of a play's ordered pairs, with the numbers of their sides.

    Where all seats are one team, each seat counts as a side.
    """
    who = players if apart else tuple(player.of(MAIN) for player in players)
    sides = filled_together(teams)
    return tuple(
        (Row(game, sides[own][0], player, opponent), own, other)
        for own, other in permutations(range(len(sides)), 2)
        for player in dict.fromkeys(who[seat] for seat in sides[own])
        for opponent in dict.fromkeys(who[seat] for seat in sides[other])
    )


def _side(seat: int, sides: Sequence[Sequence[int]]) -> int:
    """Return the number of a seat's side."""
    return next(number for number, side in enumerate(sides) if seat in side)


def _compared(own: float, other: float) -> int:
    """Return 1 where one's own return is the larger, -1 where it is the smaller, else 0."""
    if math.isclose(own, other, rel_tol=TIE, abs_tol=TIE):
        return 0
    return 1 if own > other else -1
