"""Regret of an agent by an oracle's verdicts: regret per turn, share of optimal moves.

An illegal reply counts as a turn that is not optimal and has the regret of the worst legal action.
Turns without a verdict (the oracle abstains, or the budget is spent) are only counted. If no turn
is judged, the figures are None, not 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparring.core.records import Episode, Interval, Turn
from sparring.environments.base import Environment
from sparring.methods.oracles.base import Oracle
from sparring.methods.oracles.judge import is_best, judge_episodes, regret
from sparring.methods.oracles.noisy import NoisyOracle
from sparring.ops.statistics import clustered_mean_interval, clustered_share_interval

BUDGET = 2_000  # decisions to judge per game, opponent and seat; at least one whole game is judged


@dataclass(frozen=True, kw_only=True, slots=True)
class Regret:
    """The regret of an agent; for intervals, the turns of a game are a cluster."""

    oracle: str
    turns: int  # number of the agent's turns, in all games
    submitted: int  # turns given to the oracle; later turns exceed the budget
    judged: int  # turns with a verdict; the oracle may abstain
    # value lost per judged turn, in the game's units, >= 0; None: nothing was judged
    regret: Interval | None
    optimal: Interval | None  # share of judged turns whose action is one of the best
    # largest distance of a verdict's values from the truth; 0: exact, or nothing was judged
    bound: float

    @property
    def judged_share(self) -> float:
        """Share of the turns that were judged."""
        return self.judged / self.turns if self.turns else 0.0

    @property
    def facts(self) -> dict[str, Any]:
        """The oracle and its counts, as JSON values."""
        counts = {"turns": self.turns, "asked": self.submitted, "judged": self.judged}
        return {
            "name": self.oracle,
            **counts,
            "judged_share": self.judged_share,
            "bound": self.bound,
        }

    @property
    def intervals(self) -> dict[str, Interval]:
        """Regret and share of optimal moves, by name; empty if no turn was judged."""
        return (
            {}
            if self.regret is None or self.optimal is None
            else {"regret": self.regret, "optimal": self.optimal}
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Judge:
    """An oracle, and the number of decisions to judge per seat and opponent; None: all."""

    oracle: Oracle
    budget: int | None = BUDGET


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedTurns:
    """Sums of verdicts on an agent's turns; sums of several matches can be added."""

    turns: int  # number of the agent's turns, in all games
    submitted: int  # turns given to the oracle
    # for each game with a verdict: value lost, optimal moves, judged turns
    games: tuple[tuple[float, int, int], ...]
    bound: float  # largest error bound of all verdicts

    def regret(self, oracle: str, *, level: float = 0.95) -> Regret:
        """Return the figures of these turns; ``oracle`` is the oracle's name."""
        sums, successes, sizes = np.array(self.games, dtype=np.float64).reshape(-1, 3).T
        return Regret(
            oracle=oracle,
            turns=self.turns,
            submitted=self.submitted,
            judged=int(sizes.sum()),
            regret=_above_zero(clustered_mean_interval(sums, sizes, level=level))
            if self.games
            else None,
            optimal=clustered_share_interval(successes, sizes, level=level) if self.games else None,
            bound=self.bound,
        )

    def as_data(self) -> dict[str, Any]:
        """Return plain data for JSON.

        Games with equal sums form one entry, [value lost, optimal moves, judged turns, number of
        games].
        """
        games = [[*game, count] for game, count in sorted(Counter(self.games).items())]
        return {"turns": self.turns, "asked": self.submitted, "games": games, "bound": self.bound}


def add_judged_turns(parts: Sequence[Mapping[str, Any]]) -> JudgedTurns:
    """Return the sum of results of ``JudgedTurns.as_data``; the order does not matter."""
    games = [
        (value_lost, num_best, num_judged)
        for part in parts
        for value_lost, num_best, num_judged, count in part["games"]
        for _ in range(count)
    ]
    turns, submitted = (sum(part[key] for part in parts) for key in ("turns", "asked"))
    return JudgedTurns(
        turns=turns,
        submitted=submitted,
        games=tuple(sorted(games)),
        bound=max((part["bound"] for part in parts), default=0.0),
    )


def measure_regret(
    game: Environment, episodes: Sequence[Episode], agent: str, judge: Judge, *, level: float = 0.95
) -> Regret:
    """Return the regret of an agent; see ``judge_turns``."""
    return judge_turns(game, episodes, agent, judge).regret(judge.oracle.name, level=level)


def judge_turns(
    game: Environment, episodes: Sequence[Episode], agent: str, judge: Judge
) -> JudgedTurns:
    """Judge an agent's turns, game by game, until the budget is spent.

    Args:
        game: the game of all episodes.
        episodes: finished games; the first ones are judged.
        agent: the name in ``Episode.agents`` whose turns are judged.
        judge: the oracle and its budget.

    Raises:
        OracleError: the oracle does not cover the game, or refuses a state.
        RolloutError: an episode is not of this game.
    """
    agent_episodes = [
        replace(e, trained=tuple(name == agent for name in e.agents)) for e in episodes
    ]
    counts = [len(turns_of(episode, agent)) for episode in agent_episodes]
    budget = sum(counts) if judge.budget is None else judge.budget
    num_games = (
        sum(total <= max(budget, counts[0]) for total in np.cumsum(counts)) if agent_episodes else 0
    )
    games, submitted, bound = [], 0, 0.0
    for episode in judge_episodes(
        agent_episodes[:num_games], {game.name: game}, {game.name: judge.oracle}
    ):
        turns = turns_of(episode, agent)
        regrets = [value for value in map(regret, turns) if value is not None]
        are_best = [is_right for is_right in map(is_best, turns) if is_right is not None]
        submitted += len(turns)
        bound = max([bound, *(turn.verdict.bound for turn in turns if turn.verdict is not None)])
        if regrets:
            games.append((float(sum(regrets)), sum(are_best), len(regrets)))
    return JudgedTurns(turns=sum(counts), submitted=submitted, games=tuple(games), bound=bound)


def turns_of(episode: Episode, agent: str) -> list[Turn]:
    """Return the turns of an agent, by its name in ``Episode.agents``."""
    return [turn for turn in episode.decisions if episode.agents[turn.seat] == agent]


def without_faults(oracle: Oracle) -> Oracle:
    """Return the oracle without ``noisy`` around it, whose faults are only for training."""
    while isinstance(oracle, NoisyOracle):
        oracle = oracle.inner
    return oracle


def _above_zero(interval: Interval) -> Interval:
    return Interval(
        mean=interval.mean,
        low=max(interval.low, 0.0),
        high=interval.high,
        count=interval.count,
        level=interval.level,
    )
