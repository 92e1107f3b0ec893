"""The cells behind a meta-strategy: plays, intervals, and which pairs of members have not met."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sparring.league.payoffs import Payoffs, Results
from sparring.refs import PlayerRef

Row = list[Any]


def two_seats(book: Payoffs, labels: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Return the first seats of two sides in each environment, as the book's rows have them.

    Args:
        book: the payoff book.
        labels: of environments of two sides; one that nobody has played has seats 0 and 1.
    """
    found = {}
    for label in labels:
        other = [row.seat for row in book.rows if row.environment == label and row.seat]
        found[label] = (0, min(other, default=1))
    return found


def cells_of(
    book: Payoffs,
    members: Sequence[PlayerRef],
    weights: Mapping[str, float],
    seats: Mapping[str, tuple[int, int]] | None = None,
) -> dict[str, Any]:
    """Return the plays of each two members, their win rates, and how many have not met.

    Where results are exact (``exact``) there are no plays, and no need of any. The interval of a
    win rate is that of one environment; of several there is none.

    Args:
        book: the payoff book.
        members: oldest first.
        weights: of the environments, by their labels.
        seats: the first seat of each of two sides in each, where the row's member sits in the first
            side and the column's in the second; None: members sit in any side.
    """
    place = {member: number for number, member in enumerate(members)}
    found: dict[tuple[str, int, int], Results] = {}
    for row, results in book.rows.items():
        here = row.environment in weights and row.player in place and row.opponent in place
        if here and (seats is None or row.seat == seats[row.environment][0]):
            cell = (row.environment, place[row.player], place[row.opponent])
            found[cell] = found.get(cell, Results()) + results
    size = range(len(members))
    plays = [[_plays(found, weights, i, j) for j in size] for i in size]
    rates = None
    if len(weights) == 1:
        (label,) = weights
        rates = [[_rate(found.get((label, i, j))) for j in size] for i in size]
    if seats is None:
        met = [min(plays[i][j][1], plays[j][i][1]) for i in size for j in size if i < j]
    else:
        met = [plays[i][j][1] for i in size for j in size]
    exact = [[_exact(found, weights, i, j) for j in size] for i in size]
    counts = [
        [0 if known else games for (games, _), known in zip(row, own, strict=True)]
        for row, own in zip(plays, exact, strict=True)
    ]
    told = {"counts": counts, "exact": exact, "rates": rates}
    return {**told, "pairs": len(met), "empty": met.count(0)}


def _plays(
    found: Mapping[tuple[str, int, int], Results], labels: Mapping[str, float], i: int, j: int
) -> tuple[float, float]:
    """Return the plays of two members: of all environments, and of the one that has least."""
    games = [found.get((label, i, j), Results()).games for label in labels]
    return sum(games), min(games)


def _exact(
    found: Mapping[tuple[str, int, int], Results], labels: Mapping[str, float], i: int, j: int
) -> bool:
    """Return whether the results of two members are exact, in all environments."""
    return all(found.get((label, i, j), Results()).exact for label in labels)


def _rate(results: Results | None) -> Row | None:
    """Return a win rate and the ends of its interval; None where nothing was decided."""
    if results is None or not results.wins + results.draws + results.losses:
        return None
    return [results.win_rate(), *results.rate_interval()]
