"""Schedule: a snapshot as soon as the learner beats all of its opponents."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sparring.core.records import PlayerRef
from sparring.league.schedules.base import ScheduleRequest


def gate(
    request: ScheduleRequest,
    *,
    rate: Annotated[float, Field(gt=0, lt=1)] = 0.7,
    against: Literal["members", "newest", "learners"] = "members",
    tags: list[str] | None = None,
    least: Annotated[float, Field(ge=0)] = 20.0,
    longest: Annotated[float, Field(ge=1)] = 2.0,
    earned: float | None = None,
) -> bool:
    """Take a snapshot once the learner's win rate against all of its opponents is high enough.

    What: from ``league.every`` steps after the last snapshot on, a snapshot is due when the lowest
    win rate against the opponents is above ``rate``, and in any case when the last snapshot is
    ``longest`` times ``league.every`` steps old. With ``earned`` the learner's lowest mean return
    replaces the win rate.
    When to use: a league with exploiters, whose members must each beat the earlier ones.
    Mathematics: with a the steps since the last snapshot, and p_j the rate of wins against opponent
    j in the payoff book, a draw being half a win,

        due = a >= every  and  (min over j of p_j > rate  or  a >= longest * every)

    With ``earned``, and r_j the learner's mean return in episodes against j, r_j > earned replaces
    p_j > rate.

    Pitfalls: if the size of wins differs, as in poker, a best response may not win more often than
    other policies; then choose ``earned``. In Kuhn poker a learner that earned 0.33 per game
    won 51 % of the games. The rates count all training episodes in the book, also those of earlier
    weights; with ``league.payoff_decay`` above 0 old episodes count less. Without any opponent, or
    with an opponent that the matchmaker never seats, no snapshot is due until ``longest``. If all
    seats are one team, nobody wins.
    Reference: Vinyals et al., 2019 (AlphaStar, Nature 575): 0.7 against all members, exploiters of
    the main agent 0.7 against the learner itself, at the latest after twice the steps. Silver et
    al., 2017 (AlphaGo Zero, Nature 550) has 0.55 against the newest.
    Verified by: tests/league/schedules/test_gate.py.

    Args:
        rate: win rate that must be exceeded, in (0, 1). Default 0.7.
        against: the opponents: "members" (default), all snapshots; "newest", the newest snapshot of
            each learner; "learners", the other learners with their current weights.
        tags: tags of the opponents that count. null (default): all.
        least: smallest number of decided episodes against each opponent. Default 20.
        longest: multiple of ``league.every`` after which a snapshot is due in any case, at least 1.
            Default 2.
        earned: mean return, in the environment's units, that must be exceeded instead of ``rate``.
            null (default): the rate counts. With payoffs of 1 or -1, 0.1 is a rate of 0.55.
    """
    if request.age < request.every:
        return False
    if request.age >= longest * request.every:
        return True
    opponents = [
        player
        for player in _opponents(request, against)
        if tags is None or request.tag(player) in tags
    ]
    limits = (rate, least, earned)
    return bool(opponents) and all(_is_beaten(request, player, *limits) for player in opponents)


def _opponents(request: ScheduleRequest, against: str) -> list[PlayerRef]:
    if against == "learners":
        return list(request.other_learners)
    if against == "newest":
        return list({member.name: member for member in request.members}.values())
    return list(request.members)


def _is_beaten(
    request: ScheduleRequest, opponent: PlayerRef, rate: float, least: float, earned: float | None
) -> bool:
    results, min_games = request.results(opponent), max(least, 1.0)
    if earned is not None:
        return results.games >= min_games and results.mean_return > earned
    return results.wins + results.draws + results.losses >= min_games and results.win_rate() > rate
