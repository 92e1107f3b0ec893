"""What a run asks of whatever runs its models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sparring.agents.base import Agent
from sparring.games.base import Game
from sparring.rng import Stream
from sparring.rollout.play import EpisodeSpec, RolloutCounts
from sparring.types import Episode, FloatArray, TurnTable

if TYPE_CHECKING:
    from sparring.learn.pack import Pack


class Engine(Protocol):
    """The models of a run and everything done with them; ``engine/local.py`` does it in one process.

    A step is ``play``, ``pack``, ``annotate``, ``train_process``, ``update``, in this order. ``play`` alone may be called again
    in between.
    """

    root: Stream
    games: list[tuple[Game, float]]

    @property
    def members(self) -> tuple[str, ...]:
        """Names of the past selves, oldest first."""
        ...

    def agent(self, name: str) -> Agent:
        """Return an agent by name; "policy" is the published policy."""
        ...

    def play(self, specs: list[EpisodeSpec], counts: RolloutCounts) -> list[Episode]:
        """Play these games."""
        ...

    def pack(self, episodes: list[Episode]) -> Pack:
        """Return the training arrays of these episodes."""
        ...

    def annotate(self, turns: TurnTable, episodes: list[Episode], data: Pack) -> TurnTable:
        """Return the turn table of these episodes with the columns that the estimator NEEDS."""
        ...

    def entropies(self, data: Pack) -> FloatArray:
        """Return the entropy [M] of the distribution that each sampled token was drawn from, in nats, by the weights of now."""
        ...

    def train_process(
        self, turns: TurnTable, episodes: Sequence[Episode], data: Pack, *, progress: float
    ) -> tuple[TurnTable, dict[str, float]]:
        """Train the process model, if credit reads one; return the table with what it then says, and metrics."""
        ...

    def update(
        self, data: Pack, advantages: FloatArray, value_targets: FloatArray | None, *, turns: TurnTable, step: int, progress: float
    ) -> dict[str, float]:
        """Update the weights; return metrics."""
        ...

    def imitate(self, episodes: list[Episode]) -> float:
        """Take one supervised step towards these games' moves; return the loss."""
        ...

    def take_member(self, name: str, keep: int) -> None:
        """Add a copy of the learner to the league; beyond ``keep`` one leaves."""
        ...

    def files(self) -> dict[str, bytes]:
        """Return everything to be saved, by file name."""
        ...

    def restore(self, folder: Path) -> None:
        """Take back what ``files`` gave."""
        ...
