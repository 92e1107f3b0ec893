"""The interface between a training run and the engine that holds its models."""

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
from sparring.methods.oracles.base import Oracle, judge_states
from sparring.methods.rewards.base import by_oracle, by_rewards, prepare_rewards
from sparring.methods.rewards.components import WeightedReward
from sparring.play.episode import Candidates
from sparring.play.players.base import Agent
from sparring.play.rollout import Judge, Rollout, StartedRollout
from sparring.play.spec import EpisodeSpec

if TYPE_CHECKING:
    from sparring.learn.pack import Pack


WeightKey = tuple[str, int]  # a player and the number of updates of its weights
Pinned = tuple[WeightKey, ...]  # keys of weights whose files are kept until ``release``


@dataclass(kw_only=True, slots=True)
class Clock:
    """Adds up the seconds that a task takes."""

    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplyJudges:
    """The judges of the replies of trained seats in a step.

    Attributes:
        progress: share of the run that is done; with the configuration it determines the rest.
        oracles: the oracle that judges an environment's turns, by the environment's name.
        candidates: number of replies to each prompt, and how one is chosen; None: one reply.
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
    ) -> ReplyJudges:
        """Return the judges of a configuration when this share of the run is done.

        Args:
            config: the run's configuration.
            games: the run's environments.
            progress: share of the run that is done, in [0, 1].
            oracles: the run's oracles; empty: no turn is judged.
            rewards: the run's rewards, for candidates.
        """
        section, candidates = config.rollout.candidates, None
        if section.count > 1:
            game_of = {game.name: game for game in games}
            grade = by_oracle if section.by == "oracle" else by_rewards(rewards, game_of, progress)
            candidates = Candidates(section.count, grade, section.commit, section.explore)
        return cls(progress=progress, oracles=oracles, candidates=candidates)

    def judges(self, clock: Clock) -> dict[str, Judge]:
        """Return the judge of each environment; the clock adds up the judges' seconds."""
        return {name: _make_judge(oracle, clock) for name, oracle in self.oracles.items()}


def _make_judge(oracle: Oracle, clock: Clock) -> Judge:
    def judge(states: Sequence[SearchablePlay], streams: Sequence[Stream]) -> list[Verdict | None]:
        start = time.perf_counter()
        results = judge_states(oracle, states, streams)
        clock.seconds += time.perf_counter() - start
        return results

    return judge


def rewards_of(config: RunConfig) -> tuple[WeightedReward, ...]:
    """Return the rewards of a run with their weights, prepared for scoring episodes."""
    return prepare_rewards(
        [
            WeightedReward(bound=reward.bind("rewards"), weight=parse(reward.weight))
            for reward in config.rewards
        ]
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """The data that a policy learns from in a step: N turns, M sampled tokens.

    Args:
        episodes: the episodes.
        turns: [N], one row per turn of a trained seat, with the columns that the estimator NEEDS.
        pack: the training arrays; their rows have the order of ``turns``.
        metrics: metrics of models that were trained for the estimator.
        policy: the policy that learns from the batch.
    """

    episodes: Sequence[Episode]
    turns: TurnTable
    pack: Pack
    metrics: Mapping[str, float] = field(default_factory=dict)
    policy: str = MAIN

    def advantages(self, credit: Credit) -> FloatArray:
        """Return the advantage of each sampled token, [M]: its own, or that of its turn."""
        return credit.advantages[self.pack.turn_of] if credit.level == "turn" else credit.advantages

    def has_loss(self, credit: Credit) -> bool:
        """Return whether any token contributes to the loss."""
        is_trained = self.trained(credit)
        return is_trained is None or bool(is_trained.any())

    def trained(self, credit: Credit) -> BoolArray | None:
        """Return whether each sampled token contributes to the loss, [M]; None: all contribute."""
        return None if credit.trained is None else credit.trained[self.pack.turn_of]


class WeightFiles(Protocol):
    """The workers' weights as files; a file exists as long as it is pinned."""

    def pin(self, players: Iterable[PlayerRef]) -> Pinned:
        """Keep the current weights of these players until ``release``."""

    def release(self, keys: Pinned) -> None:
        """Unpin weights."""


class FreshRollouts(Protocol):
    """Workers of a run in fresh order, which return each unit of episodes when it is finished."""

    run: Path

    @property
    def published(self) -> WeightFiles:
        """The files of the workers' weights."""

    def set_num_issued(self, issued: int) -> None:
        """Set the number of episodes that were issued before the run was resumed."""

    def publish_weights(self) -> None:
        """Publish the current weights, if they are new."""

    def issue(
        self, specs_of_units: Sequence[Sequence[EpisodeSpec]], progress: float, past: Pinned
    ) -> list[int]:
        """Issue units of episodes, and return their numbers."""

    def poll_units(self, *, wait: bool) -> tuple[list[int], list[tuple[int, Rollout]]]:
        """Return the lost units, and the finished units with their rollouts."""

    def with_named_policies(self, specs: Sequence[EpisodeSpec]) -> Sequence[EpisodeSpec]:
        """Return specs in which every player of a policy has the policy's name."""


class Engine(Protocol):
    """The models of a run: playing, learning, and checkpoints.

    ``engine/local.py`` implements this protocol in one process. A step calls ``play``, ``batch``
    and ``learn``, in this order; only ``play`` may be called again in between.
    """

    root: Stream
    environments: list[tuple[Environment, float]]

    @property
    def learners(self) -> tuple[str, ...]:
        """The trained policies."""

    def seats(self, game: Environment) -> tuple[tuple[str, bool], ...]:
        """Return the policy of each seat of an environment, and whether it is trained."""

    @property
    def members(self) -> tuple[PlayerRef, ...]:
        """The snapshots, oldest first."""

    def agent(self, player: PlayerRef | str) -> Agent:
        """Return the agent of a reference."""

    def play(self, specs: list[EpisodeSpec], judging: ReplyJudges | None = None) -> Rollout:
        """Play episodes; ``judging`` judges the replies of trained seats (None: no judging)."""

    def begin(
        self,
        specs: Sequence[EpisodeSpec],
        judging: ReplyJudges | None = None,
        pinned: Pinned | None = None,
    ) -> StartedRollout:
        """Start to play episodes with the weights ``pinned``; None: with the current weights."""

    def pin(self, keys: Pinned | None = None) -> Pinned | None:
        """Keep the current weights of every player, or those of a checkpoint, until ``release``.

        Returns:
            The pinned weights; None where the engine keeps no older weights.
        """

    def release(self, pinned: Pinned) -> None:
        """Unpin weights."""

    @property
    def fresh(self) -> FreshRollouts | None:
        """The workers of a run in fresh order; None in other runs."""

    @property
    def versions(self) -> dict[str, int]:
        """The number of updates of each trained policy."""

    def timing(self) -> dict[str, float]:
        """Return measured times and counts since the last call, for timing.jsonl."""

    def batch(
        self,
        episodes: Sequence[Episode],
        *,
        progress: float,
        policy: str | None = None,
        turns: TurnTable | None = None,
    ) -> Batch:
        """Return the batch that a policy learns from, with the columns that its estimator NEEDS.

        Models that compute columns are trained first. ``policy`` None means the first trained
        policy. ``turns`` is the turn table of the episodes, if it exists already.
        """

    def entropies(self, batch: Batch) -> FloatArray:
        """Return the entropy [M] of each token's sampling distribution by current weights, nats."""

    def learn(
        self, batch: Batch, credit: Credit, *, step: int, progress: float
    ) -> dict[str, float]:
        """Update the weights of the batch's policy, and return metrics."""

    def imitate(self, episodes: list[Episode]) -> float:
        """Make one supervised update of each policy towards its replies; return the mean loss."""

    def set_reference(self) -> None:
        """Make the current weights of each policy its reference."""

    def take_member(self, member: PlayerRef) -> None:
        """Add copies of the weights of a snapshot's policies to the league.

        If several policies learn in one league, a snapshot has one policy; otherwise it has all
        trained policies.
        """

    def drop_member(self, member: PlayerRef) -> None:
        """Remove a snapshot from the league."""

    def restart(self, member: PlayerRef) -> None:
        """Continue the policies of a snapshot from its weights, with new optimiser states."""

    def save(self, folder: Path, earlier: Path | None = None) -> None:
        """Write everything into a checkpoint's folder; link the snapshots in ``earlier``."""

    def restore(self, folder: Path) -> None:
        """Restore what ``save`` wrote."""
