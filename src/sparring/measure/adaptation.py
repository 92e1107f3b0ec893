"""Measures an agent in each attempt of a trial, against opponents whose identity is hidden.

An agent that learns about its opponent within a trial earns more in later attempts than in the
first. If all opponents report their exact policies, the gain is compared with two bounds: the best
policy that knows the opponent, and the best policy that does not.
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
from sparring.play.rollout import within_context
from sparring.play.team import play_teams

MIN_TRIALS = 2  # smallest number of trials per seat and opponent; an interval needs it


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolOpponent:
    """An opponent of a pool.

    Args:
        agent: the player in all seats except the learner's.
        weight: weight of the opponent in the pool, relative to the other weights.
        trained: whether the learner met this opponent in training.
    """

    agent: Agent
    weight: float
    trained: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class AdaptationRow:
    """Results of a role in each attempt: against one opponent, or against a pool of them.

    Args:
        role: role of the agent.
        opponent: name of the opponent; "" for a pool.
        trained: whether the opponent, or the whole pool, was used in training.
        returns: mean return in each attempt, in the game's units, over the trials that reached it.
        gain: return of the last attempt minus return of the first, mean over trials with both.
        forfeits: share of trials that ended by an illegal reply of the agent.
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
    opponents: Mapping[str, PoolOpponent],
    *,
    trials: int,
    stream: Stream,
    level: float = 0.95,
    in_flight: int | None = None,
) -> list[AdaptationRow]:
    """Measure an agent in each attempt: per role against each opponent, then per pool.

    The opponents of training form one pool, all other opponents a second pool. Means over a pool
    are weighted by ``PoolOpponent.weight``.

    Args:
        starts: initial states; their game is a ``trial`` of two seats or more.
        agent: the agent, which is measured in each role that remembers earlier attempts.
        opponents: the opponents by name.
        trials: number of trials of each role against each opponent, at least 2.
        stream: source of all random draws.
        level: confidence level of the intervals.
        in_flight: concurrent episodes; see ``rollout_teams``.

    Raises:
        ConfigError: the game is not a trial, has one seat, or there are too few trials.
        RolloutError: an episode failed.
    """
    trial = rules_of(starts.game)
    if trials < MIN_TRIALS:
        raise ConfigError(f"An interval needs 2 or more trials, got {trials}; write 500.")
    results = list[AdaptationRow]()
    for seat in trial.carriers:
        role, all_returns, rows = trial.roles[seat], dict[str, FloatArray](), list[AdaptationRow]()
        for name, opponent in opponents.items():
            trial_stream = stream.child(name)
            specs = [
                match_spec(starts, seat, number, trials, trial_stream) for number in range(trials)
            ]
            agents = {AGENT: agent, OPPONENT: opponent.agent}
            episodes = within_context(play_teams(specs, agents, in_flight=in_flight))
            all_returns[name] = _trial_returns(starts.game, episodes, seat, trial.attempts)
            num_forfeits = sum(episode.forfeited_by == seat for episode in episodes)
            forfeit_share = num_forfeits / max(len(episodes), 1)
            rows.append(
                _row(
                    role,
                    name,
                    opponent.trained,
                    {name: all_returns[name]},
                    {name: 1.0},
                    forfeit_share,
                    level,
                )
            )
        results += rows
        for trained in (True, False):
            pool_weights = {
                name: opponent.weight
                for name, opponent in opponents.items()
                if opponent.trained == trained
            }
            total_weight = math.fsum(pool_weights.values())
            if total_weight:
                weights = {name: weight / total_weight for name, weight in pool_weights.items()}
                forfeit_share = sum(weights.get(row.opponent, 0.0) * row.forfeits for row in rows)
                results.append(_row(role, "", trained, all_returns, weights, forfeit_share, level))
    return results


def rules_of(game: Environment) -> Trial:
    """Return the rules of a trial of two seats or more.

    Raises:
        ConfigError: the game is not a trial, or has one seat.
    """
    if not isinstance(game, Trial):
        raise ConfigError(
            f"{game.name} is not a trial, so it has no attempts to compare; measure "
            "the environment 'trial'."
        )
    if game.num_seats < 2:
        raise ConfigError(f"{game.name} has one seat, but adaptation needs an opponent.")
    return game


def attempt_returns(game: Environment, episode: Episode, seat: int) -> list[float]:
    """Return a seat's return in each attempt; the last one includes payoffs at the trial's end."""
    with final_play(game, episode) as trial:
        returns = [float(attempt.returns[seat]) for attempt in (*trial.earlier_plays, trial.play)]
    returns[-1] += episode.returns[seat] - math.fsum(returns)
    return returns


def _trial_returns(
    game: Environment, episodes: Sequence[Episode], seat: int, attempts: int
) -> FloatArray:
    returns = np.full((len(episodes), attempts), np.nan)
    for row, episode in enumerate(episodes):
        row_returns = attempt_returns(game, episode, seat)
        returns[row, : len(row_returns)] = row_returns
    return returns


def _row(
    role: str,
    opponent: str,
    trained: bool,
    returns_by_opponent: Mapping[str, FloatArray],
    weights: Mapping[str, float],
    forfeits: float,
    level: float,
) -> AdaptationRow:
    num_attempts = next(iter(returns_by_opponent.values())).shape[1]
    parts = [(returns_by_opponent[name], weight) for name, weight in weights.items()]
    return AdaptationRow(
        role=role,
        opponent=opponent,
        trained=trained,
        returns=tuple(
            _weighted_mean([(returns[:, attempt], weight) for returns, weight in parts], level)
            for attempt in range(num_attempts)
        ),
        gain=_weighted_mean(
            [(returns[:, -1] - returns[:, 0], weight) for returns, weight in parts], level
        ),
        forfeits=forfeits,
    )


def _weighted_mean(parts: Sequence[tuple[FloatArray, float]], level: float) -> Interval:
    """Return the weighted mean of several means, with an interval.

    Mathematics:
        mean = sum over j of w_j m_j,    deviation^2 = sum over j of w_j^2 s_j^2 / n_j

    One part has Student's t interval. Several parts have a normal interval, which is infinite if a
    part has fewer than two values.
    """
    finite_parts = [(values[~np.isnan(values)], weight) for values, weight in parts]
    if len(finite_parts) == 1:
        return mean_interval(finite_parts[0][0], level=level)
    count = sum(len(values) for values, _ in finite_parts)
    if min(len(values) for values, _ in finite_parts) == 0:
        return Interval(mean=math.nan, low=-math.inf, high=math.inf, count=count, level=level)
    mean = math.fsum(weight * float(values.mean()) for values, weight in finite_parts)
    if min(len(values) for values, _ in finite_parts) < MIN_TRIALS:
        return Interval(mean=mean, low=-math.inf, high=math.inf, count=count, level=level)
    variance = math.fsum(
        weight**2 * float(values.var(ddof=1)) / len(values) for values, weight in finite_parts
    )
    margin = NormalDist().inv_cdf((1 + level) / 2) * math.sqrt(variance)
    return Interval(mean=mean, low=mean - margin, high=mean + margin, count=count, level=level)
