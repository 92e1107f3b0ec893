"""What a run asks of whatever runs its models, and what judges replies while plays go on."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sparring.config import RunConfig
from sparring.core.records import (
    MAIN,
    BoolArray,
    Credit,
    Episode,
    FloatArray,
    PlayerRef,
    TurnTable,
    Verdict,
)
from sparring.core.rng import Stream
from sparring.core.schedule import parse
from sparring.environments.base import Environment, SearchablePlay
from sparring.methods.oracles.base import Oracle, verdicts
from sparring.methods.rewards.base import by_oracle, by_rewards, prepared
from sparring.methods.rewards.components import WeightedReward
from sparring.play.episode import Candidates
from sparring.play.players.base import Agent
from sparring.play.rollout import Begun, Judge, Rollout
from sparring.play.spec import EpisodeSpec

if TYPE_CHECKING:
    from sparring.learn.pack import Pack


WeightKey = tuple[str, int]  # a player and the number of updates its weights have seen
Pinned = tuple[WeightKey, ...]


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
        section, candidates = config.rollout.candidates, None
        if section.count > 1:
            known = {game.name: game for game in games}
            grade = by_oracle if section.by == "oracle" else by_rewards(rewards, known, progress)
            candidates = Candidates(section.count, grade, section.commit, section.explore)
        return cls(progress=progress, oracles=oracles, candidates=candidates)

    def judges(self, clock: Clock) -> dict[str, Judge]:
        """Return what asks each oracle, by the environment's name; the seconds go to a clock."""
        return {name: _timed(oracle, clock) for name, oracle in self.oracles.items()}


def _timed(oracle: Oracle, clock: Clock) -> Judge:
    """Return what asks an oracle, and counts the seconds that it takes."""

    def judge(states: Sequence[SearchablePlay], streams: Sequence[Stream]) -> list[Verdict | None]:
        began = time.perf_counter()
        results = verdicts(oracle, states, streams)
        clock.seconds += time.perf_counter() - began
        return results

    return judge


def rewards_of(config: RunConfig) -> tuple[WeightedReward, ...]:
    """Return the rewards of a run, ready to be asked."""
    return prepared(
        [
            WeightedReward(bound=reward.bind("rewards"), weight=parse(reward.weight))
            for reward in config.rewards
        ]
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """What a step learns from. N turns, M sampled tokens.

    Args:
        episodes: the games.
        turns: [N], one row per turn of a trained seat, with the columns that the estimator NEEDS.
        pack: the training arrays, their rows in the order of ``turns``.
        metrics: of models that were trained for the estimator's sake.
        policy: whose turns these are.
    """

    episodes: Sequence[Episode]
    turns: TurnTable
    pack: Pack
    metrics: Mapping[str, float] = field(default_factory=dict)
    policy: str = MAIN

    def advantages(self, credit: Credit) -> FloatArray:
        """Return the advantage of each sampled token, [M]: its own, or that of its turn."""
        return credit.advantages[self.pack.turn_of] if credit.level == "turn" else credit.advantages

    def teaches(self, credit: Credit) -> bool:
        """Return whether any token carries loss, where the estimator says which do."""
        trained = self.trained(credit)
        return trained is None or bool(trained.any())

    def trained(self, credit: Credit) -> BoolArray | None:
        """Return whether each sampled token carries loss, [M]; None: all do."""
        return None if credit.trained is None else credit.trained[self.pack.turn_of]


class WeightFiles(Protocol):
    """Weights that workers play with, as files that stay while they are pinned."""

    def pin(self, seated: Iterable[PlayerRef]) -> Pinned:
        """Keep the weights of now of these players until ``release``."""

    def release(self, keys: Pinned) -> None:
        """Let weights go that were pinned."""


class FreshRollouts(Protocol):
    """Workers of a run in fresh order, whose units are given as they come."""

    run: Path

    @property
    def published(self) -> WeightFiles:
        """The weights that the workers play with."""

    def issued_before(self, issued: int) -> None:
        """Take note of how many plays were issued before, in all."""

    def renew(self) -> None:
        """Publish the weights of now, if they are not."""

    def issue(
        self, parts: Sequence[Sequence[EpisodeSpec]], progress: float, past: Pinned
    ) -> list[int]:
        """Have units of plays played; return their numbers."""

    def poll_units(self, *, wait: bool) -> tuple[list[int], list[tuple[int, Rollout]]]:
        """Return the units that were lost, and those that were answered."""

    def seated(self, specs: Sequence[EpisodeSpec]) -> Sequence[EpisodeSpec]:
        """Return plays in which every policy is named."""


class Engine(Protocol):
    """The models of a run and everything done with them.

    ``engine/local.py`` does it in one process.

    A step is ``play``, ``batch``, ``learn``, in this order. ``play`` alone may be called again in
    between.
    """

    root: Stream
    environments: list[tuple[Environment, float]]

    @property
    def learners(self) -> tuple[str, ...]:
        """The policies that are trained."""

    def seats(self, game: Environment) -> tuple[tuple[str, bool], ...]:
        """Return the policy of each seat of an environment, and whether it is trained."""

    @property
    def members(self) -> tuple[PlayerRef, ...]:
        """The snapshots, oldest first."""

    def agent(self, player: PlayerRef | str) -> Agent:
        """Return who a reference means."""

    def play(self, specs: list[EpisodeSpec], judging: Judging | None = None) -> Rollout:
        """Play these games; ``judging`` judges the replies of trained seats (None: nobody)."""

    def begin(
        self,
        specs: Sequence[EpisodeSpec],
        judging: Judging | None = None,
        pinned: Pinned | None = None,
    ) -> Begun:
        """Have these games played, with weights that were pinned; None: those of now."""

    def pin(self, keys: Pinned | None = None) -> Pinned | None:
        """Keep the weights of now of every player, or those that a checkpoint has kept, until
        ``release``, so that games can be played with them.

        None where nothing keeps older weights.
        """

    def release(self, pinned: Pinned) -> None:
        """Let weights go that were pinned."""

    @property
    def fresh(self) -> FreshRollouts | None:
        """The workers of a run in fresh order; None where there are none."""

    @property
    def versions(self) -> dict[str, int]:
        """The number of updates that the weights of each policy that is trained have seen."""

    def timing(self) -> dict[str, float]:
        """Return figures of the time since they were last asked for, for timing.jsonl."""

    def batch(
        self,
        episodes: Sequence[Episode],
        *,
        progress: float,
        policy: str | None = None,
        turns: TurnTable | None = None,
    ) -> Batch:
        """Return what a policy learns from in a step, with the columns that its estimator NEEDS.

        Models that give them are trained first. None is the first policy that is trained. ``turns``
        is ``turn_table(episodes)``, where it has been made before.
        """

    def entropies(self, batch: Batch) -> FloatArray:
        """Return the entropy [M] of the distribution that each sampled token was drawn from, in
        nats, by the weights of now.
        """

    def learn(
        self, batch: Batch, credit: Credit, *, step: int, progress: float
    ) -> dict[str, float]:
        """Update the weights of the batch's policy; return metrics."""

    def imitate(self, episodes: list[Episode]) -> float:
        """Take one supervised step of each policy towards the games' moves; return mean loss."""

    def refer(self) -> None:
        """Take what each policy has learnt so far as its reference."""

    def take_member(self, member: PlayerRef) -> None:
        """Add copies of the policies that a snapshot is of to the league.

        Where several learn in one league that is one of them; else it is every policy that is
        trained.
        """

    def drop_member(self, member: PlayerRef) -> None:
        """Let a snapshot leave the league."""

    def restart(self, member: PlayerRef) -> None:
        """Let the policies that a snapshot is of go on from it, without what their optimisers
        remember."""

    def save(self, folder: Path, earlier: Path | None = None) -> None:
        """Write everything into a checkpoint's folder; link snapshots that ``earlier`` holds."""

    def restore(self, folder: Path) -> None:
        """Take back what ``save`` wrote."""
