"""What an agent gets in each attempt of a trial, against opponents that it is not told of.

An agent that learns about its opponent within a trial gets more in later attempts than in the
first. Where all opponents say exactly how they play, the gain stands beside what there is to be
had: the best policy that knows the opponent, and the best that does not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from sparring.core.errors import ConfigError
from sparring.core.records import Episode, FloatArray, Interval
from sparring.core.rng import Stream
from sparring.environments.base import Environment
from sparring.environments.trial import Trial
from sparring.measure.initial_states import Starts
from sparring.measure.matches import AGENT, OPPONENT, match_spec
from sparring.ops.statistics import mean_interval
from sparring.play.players.base import Agent
from sparring.play.replay import final_play
from sparring.play.rollout import with_results
from sparring.play.team import play_teams

FEWEST = 2  # trials of a seat and an opponent, for an interval


@dataclass(frozen=True, kw_only=True, slots=True)
class Opponent:
    """Who is met.

    Args:
        agent: who sits in all seats that are not the learner's.
        weight: its share of the pool, in proportion to the others'.
        trained: whether training met it.
    """

    agent: Agent
    weight: float
    trained: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class AdaptationRow:
    """Results of a role in each attempt: against one opponent, or against a pool of them.

    Args:
        role: of the agent.
        opponent: its name; "" for a pool.
        trained: whether training met the opponent, or those of the pool.
        returns: mean return in each attempt, in the game's units, over the trials that had one.
        gain: mean over trials of the return in the last attempt less that in the first; of trials
            that had both.
        forfeits: share of trials that an illegal reply of the agent ended.
    """

    role: str
    opponent: str
    trained: bool
    returns: tuple[Interval, ...]
    gain: Interval
    forfeits: float


def adaptation(
    starts: Starts,
    agent: Agent,
    opponents: Mapping[str, Opponent],
    *,
    trials: int,
    stream: Stream,
    level: float = 0.95,
    in_flight: int | None = None,
) -> list[AdaptationRow]:
    """Return what an agent gets in each attempt: per role against each opponent, then per pool.

    A pool is the opponents that training met, or those that it did not. Its means weigh the
    opponents as it says.

    Args:
        starts: what is played from; its game is a ``trial`` of two seats or more.
        agent: who is measured, in each role that remembers.
        opponents: by name.
        trials: of each role against each opponent, at least 2.
        stream: what all draws derive from.
        level: confidence level of the intervals.
        in_flight: plays at once; see ``rollout_teams``.

    Raises:
        ConfigError: the game is no trial, has one seat, or there are too few trials.
        RolloutError: a play could not begin or go on.
    """
    rules = rules_of(starts.game)
    if trials < FEWEST:
        raise ConfigError(f"An interval needs 2 or more trials, got {trials}; write 500, say.")
    found = list[AdaptationRow]()
    for seat in rules.carried:
        role, kept, rows = rules.roles[seat], dict[str, FloatArray](), list[AdaptationRow]()
        for name, one in opponents.items():
            own = stream.child(name)
            specs = [match_spec(starts, seat, number, trials, own) for number in range(trials)]
            agents = {AGENT: agent, OPPONENT: one.agent}
            episodes = with_results(play_teams(specs, agents, in_flight=in_flight))
            kept[name] = _returns(starts.game, episodes, seat, rules.attempts)
            forfeits = sum(episode.forfeited_by == seat for episode in episodes)
            ended = forfeits / max(len(episodes), 1)
            rows.append(
                _row(role, name, one.trained, {name: kept[name]}, {name: 1.0}, ended, level)
            )
        found += rows
        for trained in (True, False):
            some = {name: one.weight for name, one in opponents.items() if one.trained == trained}
            total = math.fsum(some.values())
            if total:
                weights = {name: weight / total for name, weight in some.items()}
                ended = sum(weights.get(row.opponent, 0.0) * row.forfeits for row in rows)
                found.append(_row(role, "", trained, kept, weights, ended, level))
    return found


def rules_of(game: Environment) -> Trial:
    """Return the rules of a trial of two seats or more.

    Raises:
        ConfigError: the game is none, or has one seat.
    """
    if not isinstance(game, Trial):
        raise ConfigError(
            f"{game.name} is no trial, so nothing is remembered from attempt to attempt; measure "
            "the environment 'trial'."
        )
    if game.num_seats < 2:
        raise ConfigError(f"{game.name} has one seat, and nobody to adapt to.")
    return game


def attempt_returns(game: Environment, episode: Episode, seat: int) -> list[float]:
    """Return what a seat got in each attempt; the end of the trial counts in the last."""
    with final_play(game, episode) as end:
        found = [float(one.returns[seat]) for one in (*end.before, end.play)]
    found[-1] += episode.returns[seat] - math.fsum(found)
    return found


def _returns(
    game: Environment, episodes: Sequence[Episode], seat: int, attempts: int
) -> FloatArray:
    """Return the returns [trials, attempts]; not a number where there was no such attempt."""
    found = np.full((len(episodes), attempts), np.nan)
    for row, episode in enumerate(episodes):
        own = attempt_returns(game, episode, seat)
        found[row, : len(own)] = own
    return found


def _row(
    role: str,
    opponent: str,
    trained: bool,
    kept: Mapping[str, FloatArray],
    weights: Mapping[str, float],
    forfeits: float,
    level: float,
) -> AdaptationRow:
    count = next(iter(kept.values())).shape[1]
    parts = [(kept[name], weight) for name, weight in weights.items()]
    return AdaptationRow(
        role=role,
        opponent=opponent,
        trained=trained,
        returns=tuple(
            _weighted([(own[:, at], weight) for own, weight in parts], level) for at in range(count)
        ),
        gain=_weighted([(own[:, -1] - own[:, 0], weight) for own, weight in parts], level),
        forfeits=forfeits,
    )


def _weighted(parts: Sequence[tuple[FloatArray, float]], level: float) -> Interval:
    """Return the mean of the parts' means by their weights, with an interval.

    Mathematics:
        mean = sum over j of w_j m_j,    deviation^2 = sum over j of w_j^2 s_j^2 / n_j

    One part alone has Student's t interval. Several have the normal one; without two values of each
    part it is infinite.
    """
    known = [(values[~np.isnan(values)], weight) for values, weight in parts]
    if len(known) == 1:
        return mean_interval(known[0][0], level=level)
    count = sum(len(values) for values, _ in known)
    if min(len(values) for values, _ in known) == 0:
        return Interval(mean=math.nan, low=-math.inf, high=math.inf, count=count, level=level)
    mean = math.fsum(weight * float(values.mean()) for values, weight in known)
    if min(len(values) for values, _ in known) < FEWEST:
        return Interval(mean=mean, low=-math.inf, high=math.inf, count=count, level=level)
    spread = math.fsum(
        weight**2 * float(values.var(ddof=1)) / len(values) for values, weight in known
    )
    half = NormalDist().inv_cdf((1 + level) / 2) * math.sqrt(spread)
    return Interval(mean=mean, low=mean - half, high=mean + half, count=count, level=level)
