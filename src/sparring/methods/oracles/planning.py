"""Oracle: value of the best continuation, planned by the environment's solver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparring.core.errors import OracleError
from sparring.core.records import Verdict
from sparring.core.rng import Stream
from sparring.environments.base import Environment, EnvironmentPlay
from sparring.environments.situation import Situation
from sparring.methods.oracles.base import verdict_from_solver
from sparring.methods.oracles.solvers import games_of_oracle, solver_of


class PlanningOracle:
    """Exact values of a decision in an environment with a planning solver.

    What: the value of an action is the return of the best continuation. The environment's
    ``solver.py``, described on the environment's page, does the planning.
    When to use: for the lead of a team whose other seats follow instructions, such as the team of
    ``dag_search``. Use it with the rewards ``best_action`` and ``regret``, and for measurements.
    Mathematics:
        value(a) = max over continuations after a of the return
    Pitfalls: the planner assumes that the other seats make no errors; otherwise the values are
    upper bounds. Seats that the solver does not judge have no verdict.
    Reference: Bellman, "Dynamic programming", 1957.
    Verified by: tests/methods/oracles/test_puzzles.py,
    tests/environments/dag_search/test_schedule.py.
    """

    name = "planning"
    reads_plays = True

    def covers(self, game: Environment) -> str:
        """Return why this environment cannot be judged, or ""."""
        if solver_of(game, self.name) is not None:
            return ""
        return (
            f"it has no planning solver; play {', '.join(games_of_oracle(self.name))}, or use "
            "oracle minimax, constraint or posterior."
        )

    def judge(
        self, states: Sequence[Any], streams: Sequence[Stream] | None = None
    ) -> list[Verdict | None]:
        """Return a verdict per situation; None for seats that the solver does not judge.

        Args:
            states: situations in which a seat is to act.
            streams: ignored.

        Raises:
            OracleError: an episode is finished, or its environment is not covered.
        """
        return [self._verdict(state) for state in states]

    def _verdict(self, state: EnvironmentPlay | Situation) -> Verdict | None:
        reason = self.covers(state.game)
        if reason or not isinstance(state, Situation):
            raise OracleError(f"Oracle 'planning' cannot judge {state.game.name!r}: {reason}")
        if state.done:
            raise OracleError(
                f"Oracle 'planning' cannot judge a finished episode of {state.game.name!r}; judge "
                "episodes in which a seat is to act."
            )
        solver = solver_of(state.game, self.name)
        assert solver is not None, "the oracle covers the game"
        result = solver.function(state)
        return None if result is None else verdict_from_solver(state.legal_actions(), result)


planning = PlanningOracle
