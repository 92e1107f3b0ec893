"""Plays of an agent against itself: what they pay, how many differ, how many replies are legal.

An agent whose plays are all alike meets one course of the game, and learns of no other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparring.errors import ConfigError
from sparring.measure.matches import AGENT, illegal_replies, illegal_share
from sparring.measure.starts import Starts
from sparring.ops.statistics import mean_interval
from sparring.players.base import Agent
from sparring.rng import Stream
from sparring.rollout.play import with_results
from sparring.rollout.replay import figures_of
from sparring.rollout.spec import alone
from sparring.rollout.team import play_teams
from sparring.types import Episode, Interval


@dataclass(frozen=True, kw_only=True, slots=True)
class SelfPlays:
    """What plays of an agent against itself came to.

    Args:
        game: the game's name.
        starts: which starts they were played from; see ``Starts.label``.
        plays: how many there are.
        distinct: how many different courses they took.
        commonest: how many took the commonest one.
        turns: replies per play, all seats, the mean.
        illegal: share of replies that are illegal; games are clusters.
        returns: mean return of each role, in the game's units.
        figures: mean of what the environment counts, by name: of each play the mean over its seats
            of which it says something.
    """

    game: str
    starts: str
    plays: int
    distinct: int
    commonest: int
    turns: float
    illegal: Interval
    returns: Mapping[str, Interval]
    figures: Mapping[str, Interval]


def self_plays(
    starts: Starts,
    agent: Agent,
    *,
    plays: int,
    stream: Stream,
    level: float = 0.95,
    in_flight: int | None = None,
) -> SelfPlays:
    """Play an agent against itself, in all seats.

    Every play has its own start and draws, so that a longer series begins with the same plays.

    Args:
        starts: what is played from, with the game.
        agent: who sits in every seat.
        plays: how many; at least 2, for an interval.
        stream: what all draws derive from.
        level: confidence level of the interval.
        in_flight: plays at once; see ``rollout_teams``.

    Raises:
        ConfigError: fewer than 2 plays.
        RolloutError: a play could not begin or go on.
    """
    if plays < 2:
        raise ConfigError(
            f"Whether plays differ needs 2 or more of them, got {plays}; write 64, say."
        )
    game = starts.game
    everyone = (AGENT,) * game.num_seats
    specs = [
        alone(game, number, everyone, own, starts.deal(own, number))
        for number in range(plays)
        for own in [stream.child(number)]
    ]
    played = play_teams(specs, {AGENT: agent}, in_flight=in_flight)
    courses = Counter(course(episode) for episode in played)
    replies = [illegal_replies(episode.turns) for episode in played]
    return SelfPlays(
        game=game.name,
        starts=starts.label,
        plays=len(played),
        distinct=len(courses),
        commonest=max(courses.values()),
        turns=sum(turns for _, turns in replies) / len(played),
        illegal=illegal_share(replies, level=level),
        returns={
            role: mean_interval(
                [episode.returns[seat] for episode in with_results(played)], level=level
            )
            for seat, role in enumerate(game.roles)
        },
        figures=_figures(game, played, level),
    )


def _figures(game: Any, played: Sequence[Episode], level: float) -> dict[str, Interval]:
    """Return the means of what an environment counts; none where it counts nothing."""
    counted = [found for found in (figures_of(game, one) for one in played) if found is not None]
    means = {
        name: [mean for one in counted if (mean := _mean(one[name])) is not None]
        for name in getattr(game, "figures", ())
    }
    return {name: mean_interval(found, level=level) for name, found in means.items() if found}


def _mean(values: Sequence[float]) -> float | None:
    """Return the mean over the seats that have a number; None where none has."""
    own = [value for value in values if not math.isnan(value)]
    return sum(own) / len(own) if own else None


def course(episode: Episode) -> Hashable:
    """Return what was done in a play, by whom and in which order.

    An illegal reply counts as such, whatever its words are: nonsense makes no play different. What
    chance did shows in it where a seat's actions follow it.
    """
    return tuple((turn.moment, turn.seat, turn.action) for turn in episode.decisions)
