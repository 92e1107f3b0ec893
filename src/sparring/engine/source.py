"""What the columns of the turn table are computed from, here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from sparring.columns.base import Place, with_column
from sparring.errors import ConfigError
from sparring.learn.finite import finite_columns
from sparring.learn.pack import Pack
from sparring.registry import bind
from sparring.types import Episode, FloatArray, TurnTable

if TYPE_CHECKING:
    from sparring.engine.policy import Exact, Policy


class EngineSource:
    """The models of a policy, asked about the turns of a batch.

    ``turns`` grows by each column that is computed.
    """

    def __init__(
        self,
        policy: Policy,
        turns: TurnTable,
        episodes: Sequence[Episode],
        data: Pack,
        exact: Exact,
    ) -> None:
        self.turns, self.episodes = turns, episodes
        self._policy, self._data, self._ask = policy, data, exact
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
        return self._policy.trained.turn_values(self._data, at=at)

    def logprobs(self, of: Literal["learner", "reference", "process"]) -> FloatArray:
        """Return a model's log-probabilities of the turns; see ``columns.base.Source``."""
        if of != "process":
            return self._policy.trained.turn_logprobs(self._data, of_reference=of == "reference")
        if self._policy.process is None:
            raise ConfigError(
                "A column reads the reward model, which this run has not; write ASKS = "
                '{"process"} into its module.'
            )
        return self._policy.process.turn_logprobs(self._data)

    def exact(self) -> Mapping[str, FloatArray]:
        """Return the exact values of the turns; see ``columns.base.Source``."""
        if self._exact is None:
            self._exact = self._ask(self)
        return self._exact
