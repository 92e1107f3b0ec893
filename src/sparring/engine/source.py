"""What the columns of the turn table are computed from, here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from sparring.columns.base import Place, with_column
from sparring.errors import ConfigError
from sparring.learn.finite import finite_columns
from sparring.learn.pack import Pack
from sparring.players.policy import PolicyAgent
from sparring.refs import LEARNER
from sparring.registry import bind
from sparring.types import Episode, FloatArray, TurnTable

if TYPE_CHECKING:
    from sparring.engine.local import LocalEngine


class EngineSource:
    """The models of an engine, asked about the turns of a batch.

    ``turns`` grows by each column that is computed.
    """

    def __init__(
        self, engine: LocalEngine, turns: TurnTable, episodes: Sequence[Episode], data: Pack
    ) -> None:
        self.turns, self.episodes = turns, episodes
        self._engine, self._data = engine, data
        self._exact: Mapping[str, FloatArray] | None = None

    def add(self, name: str) -> None:
        """Compute a column.

        Raises:
            DivergedError: it is not finite.
            PluginError: its function gave something else.
        """
        column: FloatArray = bind("columns", name)(self)
        self.turns = with_column(self.turns, name, finite_columns({name: column})[name])

    def critic(self, at: Place) -> FloatArray:
        """Return the critic's values; see ``columns.base.Source``."""
        return self._engine.learner.turn_values(self._data, at=at)

    def logprobs(self, of: Literal["learner", "reference", "process"]) -> FloatArray:
        """Return a model's log-probabilities of the turns; see ``columns.base.Source``."""
        if of != "process":
            return self._engine.learner.turn_logprobs(self._data, of_reference=of == "reference")
        if self._engine.process is None:
            raise ConfigError(
                "A column reads the reward model, which this run has not; write ASKS = "
                '{"process"} into its module.'
            )
        return self._engine.process.turn_logprobs(self._data)

    def exact(self) -> Mapping[str, FloatArray]:
        """Return the exact values of the turns; see ``columns.base.Source``."""
        engine = self._engine
        if engine.exact is None:
            raise ConfigError(
                'A column reads exact values, which this run has not; write ASKS = {"tree"} into '
                "its module."
            )
        if self._exact is None:
            player = engine.agent(LEARNER)
            assert isinstance(player, PolicyAgent)
            self._exact = engine.exact.of(self.turns, self.episodes, player)
        return self._exact
