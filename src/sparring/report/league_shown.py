"""The payoff book as a table: how each player of a run has done against each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sparring.league.payoffs import Payoffs

INTERVAL = "95 % interval"
PLAYERS = ("environment", "player", "against")
HEAD = (*PLAYERS, "plays", "mean return", INTERVAL, "win rate", INTERVAL)


class Standing(NamedTuple):
    """How a player has done against another, from all seats.

    Attributes:
        environment: its label, as in metrics.
        player: whose results these are, in the text form.
        opponent: against whom.
        games: plays that count; sums of weights where ``league.payoff_decay`` is set; 0 where the
            results are exact.
        mean_return: mean of the player's returns, in the environment's units.
        win_rate: share of wins, a draw being half of one; None where nothing was decided.
        low: lower end of the win rate's interval of 95 %.
        high: upper end.
        exact: whether these are no results of plays, but computed from the players' policies.
        return_low: lower end of the mean return's interval of 95 %; None where fewer than two
            plays, or groups that share a deal, leave none, and in checkpoints of before it was
            counted.
        return_high: upper end.
    """

    environment: str
    player: str
    opponent: str
    games: float
    mean_return: float
    win_rate: float | None
    low: float
    high: float
    exact: bool = False
    return_low: float | None = None
    return_high: float | None = None


def standings_of(payoffs: Payoffs) -> list[Standing]:
    """Return the standings of each environment, sorted by names: the learner before snapshots."""
    found = []
    pairs = {(row.environment, row.player, row.opponent) for row in payoffs.rows}
    for environment, player, opponent in sorted(pairs, key=lambda pair: tuple(map(str, pair))):
        results = payoffs.results(player, opponent, environment=environment)
        decided = results.wins + results.draws + results.losses > 0
        found.append(
            Standing(
                environment,
                str(player),
                str(opponent),
                0 if results.exact else results.games,
                results.mean_return,
                results.win_rate() if decided else None,
                *results.rate_interval(),
                results.exact,
                *(results.return_interval() or (None, None)),
            )
        )
    return found


def league_rows(standings: Sequence[Standing]) -> list[tuple[str, ...]]:
    """Return standings as rows of text, under a head."""
    return [HEAD, *map(_row, standings)]


def _row(one: Standing) -> tuple[str, ...]:
    """Return a standing as text; nothing is said of wins where nothing was decided."""
    mean = (f"{one.mean_return:+.3f}", "-")
    if one.return_low is not None:
        ends = "exact" if one.exact else f"[{one.return_low:+.3f}, {one.return_high:+.3f}]"
        mean = (mean[0], ends)
    rate = ("-", "-")
    if one.win_rate is not None:
        ends = "exact" if one.exact else f"[{one.low:.3f}, {one.high:.3f}]"
        rate = (f"{one.win_rate:.3f}", ends)
    games = f"{one.games:.1f}" if one.games % 1 else f"{one.games:.0f}"
    if one.exact:
        games = "exact"
    return (one.environment, one.player, one.opponent, games, *mean, *rate)
