"""What a run asks of whatever runs its models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sparring.core.records import BoolArray, Credit, Episode, FloatArray, TurnTable
from sparring.core.refs import MAIN, PlayerRef
from sparring.core.rng import Stream
from sparring.engine.reply_judges import Judging
from sparring.environments.base import Environment
from sparring.play.players.base import Agent
from sparring.play.rollout import Begun, Rollout
from sparring.play.spec import EpisodeSpec

if TYPE_CHECKING:
    from sparring.engine.workers.fresh_episodes import FreshWorkers
    from sparring.engine.workers.published_weights import Pinned
    from sparring.learn.pack import Pack


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
        """Return the advantage of each sampled token, [M].

        Every token has that of its turn where credit is given to turns.
        """
        return credit.advantages[self.pack.turn_of] if credit.level == "turn" else credit.advantages

    def teaches(self, credit: Credit) -> bool:
        """Return whether any token carries loss, where the estimator says which do."""
        trained = self.trained(credit)
        return trained is None or bool(trained.any())

    def trained(self, credit: Credit) -> BoolArray | None:
        """Return whether each sampled token carries loss, [M]; None: all do."""
        return None if credit.trained is None else credit.trained[self.pack.turn_of]


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
        ...

    def seats(self, game: Environment) -> tuple[tuple[str, bool], ...]:
        """Return the policy of each seat of an environment, and whether it is trained."""
        ...

    @property
    def members(self) -> tuple[PlayerRef, ...]:
        """The snapshots, oldest first."""
        ...

    def agent(self, player: PlayerRef | str) -> Agent:
        """Return who a reference means."""
        ...

    def play(self, specs: list[EpisodeSpec], judging: Judging | None = None) -> Rollout:
        """Play these games; ``judging`` says what judges the replies of trained seats.

        None: nobody does, and they give one reply to each prompt.
        """
        ...

    def begin(
        self,
        specs: Sequence[EpisodeSpec],
        judging: Judging | None = None,
        pinned: Pinned | None = None,
    ) -> Begun:
        """Have these games played, with weights that were pinned; None: those of now."""
        ...

    def pin(self, keys: Pinned | None = None) -> Pinned | None:
        """Keep the weights of now of every player, or those that a checkpoint has kept, until
        ``release``, so that games can be played with them.

        None where nothing keeps older weights.
        """
        ...

    def release(self, pinned: Pinned) -> None:
        """Let weights go that were pinned."""
        ...

    @property
    def fresh(self) -> FreshWorkers | None:
        """The workers of a run in fresh order; None where there are none."""
        ...

    @property
    def versions(self) -> dict[str, int]:
        """The number of updates that the weights of each policy that is trained have seen."""
        ...

    def timing(self) -> dict[str, float]:
        """Return figures of the time since they were last asked for, for timing.jsonl."""
        ...

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
        ...

    def entropies(self, batch: Batch) -> FloatArray:
        """Return the entropy [M] of the distribution that each sampled token was drawn from, in
        nats, by the weights of now.
        """
        ...

    def learn(
        self, batch: Batch, credit: Credit, *, step: int, progress: float
    ) -> dict[str, float]:
        """Update the weights of the batch's policy; return metrics."""
        ...

    def imitate(self, episodes: list[Episode]) -> float:
        """Take one supervised step of each policy towards these games' moves.

        Return the mean loss.
        """
        ...

    def refer(self) -> None:
        """Take what each policy has learnt so far as its reference."""
        ...

    def take_member(self, member: PlayerRef) -> None:
        """Add copies of the policies that a snapshot is of to the league.

        Where several learn in one league that is one of them; else it is every policy that is
        trained.
        """
        ...

    def drop_member(self, member: PlayerRef) -> None:
        """Let a snapshot leave the league."""
        ...

    def restart(self, member: PlayerRef) -> None:
        """Let the policies that a snapshot is of go on from it, without what their optimisers
        remember."""
        ...

    def save(self, folder: Path, earlier: Path | None = None) -> None:
        """Write everything into a checkpoint's folder.

        Snapshots that the ``earlier`` one holds are linked, not written.
        """
        ...

    def restore(self, folder: Path) -> None:
        """Take back what ``save`` wrote."""
        ...
