"""What an agent's moves lose, as an oracle sees them: regret per turn, the share of optimal moves, how much was judged.

A reply that is no legal action is a turn too: never optimal, and its regret is that of the worst legal action. Turns without a
verdict, because the oracle abstains or the budget is spent, are left out and counted: figures of nothing are None, never 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sparring.games.base import Game
from sparring.ops.statistics import clustered_mean_interval, clustered_share_interval
from sparring.oracles.base import Oracle
from sparring.oracles.judge import is_best, judge_episodes, regret
from sparring.oracles.noisy import NoisyOracle
from sparring.types import Episode, Interval, Turn

BUDGET = 2_000  # decisions judged per game, opponent and seat; whole games, in order, at least one


@dataclass(frozen=True, kw_only=True, slots=True)
class Regret:
    """What an agent lost in some games. Intervals take games as independent and the turns of one game as not."""

    oracle: str
    turns: int  # of the agent, in all games
    asked: int  # turns put before the oracle; the others are beyond the budget
    judged: int  # turns with a verdict; the others the oracle abstained from
    regret: Interval | None  # value lost per judged turn, in the game's units, >= 0; None: nothing was judged
    optimal: Interval | None  # share of judged turns whose action is one of the best
    bound: float  # largest distance of a verdict's values from the truth; 0: exact, or nothing was judged

    @property
    def judged_share(self) -> float:
        """Share of the turns that were judged."""
        return self.judged / self.turns if self.turns else 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Judge:
    """An oracle with the number of decisions that it may be asked about, in one seat against one opponent."""

    oracle: Oracle
    budget: int = BUDGET


def measured_regret(game: Game, episodes: Sequence[Episode], agent: str, judge: Judge, *, level: float = 0.95) -> Regret:
    """Return what an agent lost by its turns, the first games judged until the budget is spent.

    Args:
        game: the game that all episodes are of.
        episodes: finished games; in order, so that a longer match judges the same games first.
        agent: the name in ``Episode.agents`` whose turns are judged.
        judge: the oracle and its budget.
        level: of the intervals.

    Raises:
        OracleError: the oracle does not cover the game, or refuses a state.
        RolloutError: an episode is no play of this game.
    """
    own = [replace(e, trained=tuple(name == agent for name in e.agents)) for e in episodes]
    counts = [len(turns_of(episode, agent)) for episode in own]
    within = sum(total <= max(judge.budget, counts[0]) for total in np.cumsum(counts)) if own else 0
    found = judge_episodes(own[:within], {game.name: game}, {game.name: judge.oracle})
    return regret_of(found, agent, judge.oracle.name, turns=sum(counts), level=level)


def regret_of(episodes: Sequence[Episode], agent: str, oracle: str, *, turns: int | None = None, level: float = 0.95) -> Regret:
    """Return what the verdicts on an agent's turns say.

    Args:
        episodes: with verdicts.
        agent: the name in ``Episode.agents``.
        oracle: the name of who judged.
        turns: of the agent in all games, those not put before the oracle included; None: all were.
        level: of the intervals.
    """
    clusters, asked, bound = [], 0, 0.0
    for episode in episodes:
        own = turns_of(episode, agent)
        lost = [value for value in map(regret, own) if value is not None]
        best = [right for right in map(is_best, own) if right is not None]
        asked += len(own)
        bound = max([bound, *(turn.verdict.bound for turn in own if turn.verdict is not None)])
        if lost:
            clusters.append((sum(lost), sum(best), len(lost)))
    sums, successes, sizes = np.array(clusters, dtype=np.float64).reshape(-1, 3).T
    return Regret(
        oracle=oracle,
        turns=asked if turns is None else turns,
        asked=asked,
        judged=int(sizes.sum()),
        regret=_above_zero(clustered_mean_interval(sums, sizes, level=level)) if clusters else None,
        optimal=clustered_share_interval(successes, sizes, level=level) if clusters else None,
        bound=bound,
    )


def turns_of(episode: Episode, agent: str) -> list[Turn]:
    """Return the turns of an agent, by its name in ``Episode.agents``."""
    return [turn for turn in episode.turns if episode.agents[turn.seat] == agent]


def without_faults(oracle: Oracle) -> Oracle:
    """Return the oracle within one with faults: these are for what is learnt from, not for what is measured."""
    while isinstance(oracle, NoisyOracle):
        oracle = oracle.oracle
    return oracle


def _above_zero(interval: Interval) -> Interval:
    """Return the interval of a mean that cannot be below 0."""
    return Interval(mean=interval.mean, low=max(interval.low, 0.0), high=interval.high, count=interval.count, level=interval.level)
