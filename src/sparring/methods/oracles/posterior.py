"""Oracle: exact posterior probabilities of the hidden state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparring.config.plugins import registry
from sparring.config.plugins.registry import BoundPlugin
from sparring.core.errors import ConfigError
from sparring.core.records import Verdict
from sparring.environments.base import Searchable, SearchablePlay
from sparring.methods.oracles.base import verdict_from_solver
from sparring.methods.oracles.solvers import KeyedOracle, Prior, games_of_oracle, solver_of


@dataclass(kw_only=True, eq=False)
class PosteriorOracle(KeyedOracle):
    """Exact values under the posterior of the hidden state, by counting the consistent worlds.

    What: the posterior over the hidden state, the value of each legal action under the posterior,
    and its entropy. The game's ``solver.py``, described on the game's page, defines the values.
    When to use: games with a hidden world and no opponent, such as inference and search.
    Mathematics:
        P(world | seen) proportional to prior(world) * P(seen | world, actions)
    normalised over all worlds, exactly. In nats
        entropy = -sum P log P
    Pitfalls: a solver without exact best play returns a ``bound`` or a certainty below 1.
    Reference: arXiv 2605.10325; Kaelbling et al., "Planning and acting in partially observable
    stochastic domains", 1998.
    Verified by: tests/methods/oracles/test_puzzles.py, tests/contract/test_beliefs.py.

    Args:
        prior: prior over worlds. "uniform" (default): every world that the rules allow is equally
            likely, without knowledge of a bank of instances. "bank": only the worlds of the bank
            are possible, as for a player who has memorised the bank.
        options: further options of the game's solver, by name, such as ``worlds`` of minesweeper;
            null (default): the solver's defaults.

    Raises:
        ConfigError: ``prior`` is among the options.
    """

    prior: Prior = "uniform"
    options: Mapping[str, Any] | None = None

    name = "posterior"

    def __post_init__(self) -> None:
        super().__init__(prior=self.prior)
        self._solver: BoundPlugin | None = None
        if "prior" in (self.options or {}):
            raise ConfigError(
                "oracle 'posterior': prior is not among the options of the solver; write prior: "
                "bank beside options, not within."
            )

    def covers(self, game: Searchable) -> str:
        """Return why this game cannot be judged, or "".

        Raises:
            ConfigError: the game's solver does not have an option, or a value is wrong.
        """
        if self._bound_solver(game) is not None:
            return ""
        return (
            "it has no solver of its hidden state; play "
            f"{', '.join(games_of_oracle(self.name))}, or use oracle cfr."
        )

    def prepare(self, game: Searchable) -> None:
        """Load the game's solver."""
        super().prepare(game)
        self._solver = self._bound_solver(game)

    def compute_verdicts(self, states: Sequence[SearchablePlay]) -> list[Verdict | None]:
        """Return a verdict per state."""
        solver = self._solver
        if solver is None:
            return []
        return [verdict_from_solver(state.legal_actions(), solver(state)) for state in states]

    def _bound_solver(self, game: Searchable) -> BoundPlugin | None:
        solver = solver_of(game, self.name)
        options = {"prior": self.prior, **(self.options or {})}
        return None if solver is None else registry.with_options(solver, options)


posterior = PosteriorOracle
