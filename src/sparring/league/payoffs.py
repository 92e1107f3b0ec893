"""The payoff book of a run: how plays between each two players have ended.

A row is of one environment and one ordered pair of players: the results of ``player``, whose side
begins at ``seat``, against a side of ``opponent``. What counts:

- A finished play counts once for every ordered pair of its teams. The team with the larger return
  wins (the mean over its seats); equal returns are a draw. Of a team of several players each one
  has the team's result.
- A play that was forfeited counts for the pairs that the offending team is in: it lost, whatever
  the forfeit pays. How the others would have done against each other is not known.
- A play that was truncated (by ``rollout.max_turns`` or ``model.context``) has no result, and
  counts for nobody.
- Where all seats are one team nobody wins or loses: each pair of seats has its games and returns.
- Of two members there may be exact results (``run.payoff_plays``). Plays add nothing to these, and
  they do not fade.

The learner's rows are those of all its weights so far. With ``league.payoff_decay`` what is older
counts less: the book's numbers are then sums of weights,

    weight of a play of k steps ago = (1 - payoff_decay)^k

Plays of a group share a deal, and are not independent. A row whose groups have several plays has
sums over groups besides, from which the intervals are computed. Books of before they were counted
have none: their plays count as independent.

Where a run has several policies for several roles, all of them are the learner, and their snapshots
of one step are one: the seat says which of them played. Where several learn in one league
(``league.learners``), each is a player of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import permutations
from typing import Any, NamedTuple

from sparring.core.errors import CheckpointError, ConfigError
from sparring.core.records import Episode
from sparring.core.refs import MAIN, PlayerRef
from sparring.environments.base import filled_together, sides_of
from sparring.league.results import TIE, GroupSums, Results

__all__ = ["Payoffs", "Results", "Row"]


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
        groups: dict[Row, dict[int, list[float]]] = {}  # of each: plays, returns, decided, wins
        for episode in episodes:
            own = (teams or {}).get(episode.game) or range(len(episode.returns))
            for row, won, returns in _results(episode, tuple(own), apart):
                if row not in sums:
                    sums[row] = _numbers(rows.get(row, Results()))
                    groups[row] = {}
                found = sums[row]
                group = groups[row].setdefault(episode.group_id, [0, 0.0, 0, 0.0])
                found[0] += 1
                group[0] += 1
                if won is not None:
                    found[2 - won] += 1
                    group[2] += 1
                    group[3] += (1 + won) / 2
                found[4] += returns
                group[1] += returns
                found[5] += returns * returns
        for row, numbers in sums.items():
            known = rows.get(row, Results())
            if not known.exact:
                rows[row] = _grouped(_results_of(numbers), known, list(groups[row].values()))
        return Payoffs(rows)

    def with_exact(self, found: Mapping[Row, Results]) -> Payoffs:
        """Return the book with exact results in place of what it has of these rows."""
        return Payoffs({**self.rows, **found})

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
                {"seat": row.seat, **players, **results.to_json()}
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
                    row = Row(environment, seat, player, opponent)
                    rows[row] = Results.from_json(numbers)
        except (TypeError, KeyError, ValueError, AttributeError, ConfigError):
            raise CheckpointError(
                "The checkpoint's payoff book cannot be read; take another checkpoint, or start "
                "anew with --overwrite."
            ) from None
        return cls(rows)


def _numbers(results: Results) -> list[float]:
    """Return what plays add to, in the order in which ``Payoffs.after`` does."""
    squares = math.nan if results.squares is None else results.squares
    return [results.games, results.wins, results.draws, results.losses, results.returns, squares]


def _results_of(numbers: Sequence[float]) -> Results:
    """Return the results of which these are the numbers."""
    games, wins, draws, losses, returns, squares = numbers
    return Results(
        games=games,
        wins=wins,
        draws=draws,
        losses=losses,
        returns=returns,
        squares=None if math.isnan(squares) else squares,
    )


def _grouped(results: Results, before: Results, groups: Sequence[Sequence[float]]) -> Results:
    """Return results with their sums over groups; without, where each play is a group.

    Args:
        results: with the plays of all groups.
        before: without these plays.
        groups: of each new one the plays, the sum of their returns, those decided, and the wins.
    """
    if before.win_groups is None and all(group[0] == 1 for group in groups):
        return results
    returns = GroupSums(
        count=len(groups),
        sizes=sum(plays * plays for plays, _, _, _ in groups),
        products=math.fsum(plays * paid for plays, paid, _, _ in groups),
        squares=math.fsum(paid * paid for _, paid, _, _ in groups),
    )
    wins = GroupSums(
        count=sum(decided > 0 for _, _, decided, _ in groups),
        sizes=sum(decided * decided for _, _, decided, _ in groups),
        products=sum(decided * won for _, _, decided, won in groups),
        squares=sum(won * won for _, _, _, won in groups),
    )
    known = results.squares is not None
    return replace(
        results,
        return_groups=before.sums_of_returns().plus(returns) if known else None,
        win_groups=before.sums_of_wins().plus(wins),
    )


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
    meetings = meetings_of(episode.game, episode.players, teams, apart)
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
def meetings_of(
    game: str, players: tuple[PlayerRef, ...], teams: tuple[int, ...], apart: bool
) -> tuple[tuple[Row, int, int], ...]:
    """Return the rows of a play's ordered pairs, with the numbers of their sides.

    Where all seats are one team, each seat counts as a side.

    Args:
        game: the environment's label.
        players: who sits in each seat.
        teams: the team of each seat.
        apart: as for ``Payoffs.after``.
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
