"""What judges replies while plays go on: oracles, and what chooses among candidates."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sparring.config import RunConfig
from sparring.core.records import Verdict
from sparring.core.rng import Stream
from sparring.core.schedule import parse
from sparring.environments.base import Environment, SearchablePlay
from sparring.methods.oracles.base import Oracle, verdicts
from sparring.methods.rewards.base import prepared
from sparring.methods.rewards.components import WeightedReward
from sparring.methods.rewards.grading import by_oracle, by_rewards
from sparring.play.episode import Candidates
from sparring.play.rollout import Judge


@dataclass(kw_only=True, slots=True)
class Clock:
    """Seconds that something has taken."""

    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Judging:
    """What judges the replies of trained seats in the plays of a step.

    Attributes:
        progress: share of the run that is done; everything else is a function of it and of the
            configuration.
        oracles: by the name of the environment whose turns they judge.
        candidates: how many replies are given to each prompt, and which is played; None: one.
    """

    progress: float
    oracles: Mapping[str, Oracle] = field(default_factory=dict)
    candidates: Candidates | None = None

    @classmethod
    def of(
        cls,
        config: RunConfig,
        games: Sequence[Environment],
        progress: float,
        *,
        oracles: Mapping[str, Oracle],
        rewards: tuple[WeightedReward, ...],
    ) -> Judging:
        """Return what a configuration says, at a point of the run.

        Args:
            config: of the run.
            games: its environments.
            progress: share of the run that is done, in [0, 1].
            oracles: its oracles; none: nobody judges turns.
            rewards: its rewards, for candidates.
        """
        asked, candidates = config.rollout.candidates, None
        if asked.count > 1:
            known = {game.name: game for game in games}
            grade = by_oracle if asked.by == "oracle" else by_rewards(rewards, known, progress)
            candidates = Candidates(asked.count, grade, asked.commit, asked.explore)
        return cls(progress=progress, oracles=oracles, candidates=candidates)

    def judges(self, clock: Clock) -> dict[str, Judge]:
        """Return what asks each oracle, by the environment's name; the seconds go to a clock."""
        return {name: _timed(oracle, clock) for name, oracle in self.oracles.items()}


def _timed(oracle: Oracle, clock: Clock) -> Judge:
    """Return what asks an oracle, and counts the seconds that it takes."""

    def judge(states: Sequence[SearchablePlay], streams: Sequence[Stream]) -> list[Verdict | None]:
        began = time.perf_counter()
        found = verdicts(oracle, states, streams)
        clock.seconds += time.perf_counter() - began
        return found

    return judge


def rewards_of(config: RunConfig) -> tuple[WeightedReward, ...]:
    """Return the rewards of a run, ready to be asked."""
    return prepared(
        [
            WeightedReward(bound=reward.bind("rewards"), weight=parse(reward.weight))
            for reward in config.rewards
        ]
    )
