"""Oracle: what best play from here on is worth, planned ahead by the environment's own solver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparring.core.errors import OracleError
from sparring.core.records import Verdict
from sparring.core.rng import Stream
from sparring.environments.base import Environment, EnvironmentPlay
from sparring.environments.situation import Situation
from sparring.methods.oracles.base import verdict_of
from sparring.methods.oracles.solvers import solved_by, solver_of


class PlanningOracle:
    """Exact values of a decision in an environment that can be planned ahead.

    What: each action is worth the return that best play after it gets. How that is planned is
    written in the environment's folder: its ``solver.py``, shown on the environment's page.
    When to use: for the lead of a team whose other seats do what they are asked to, such as that of
    ``dag_search``; with the rewards ``best_action`` and ``regret``, and to measure.
    Mathematics:
        value(a) = max over ways to go on after a of the return
    Pitfalls: the others are taken to be without faults, so that values are upper bounds where they
    are not. Seats that the solver does not judge have no verdict.
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
            f"nobody plans ahead in it; play {', '.join(solved_by(self.name))}, or use oracle "
            "minimax, constraint or posterior."
        )

    def judge(
        self, states: Sequence[Any], streams: Sequence[Stream] | None = None
    ) -> list[Verdict | None]:
        """Return a verdict per situation; None on seats that the solver does not judge.

        ``streams`` are not read.

        Raises:
            OracleError: a play is finished, or is of an environment that is not covered.
        """
        return [self._verdict(state) for state in states]

    def _verdict(self, state: EnvironmentPlay | Situation) -> Verdict | None:
        reason = self.covers(state.game)
        if reason or not isinstance(state, Situation):
            raise OracleError(f"Oracle 'planning' cannot judge {state.game.name!r}: {reason}")
        if state.done:
            raise OracleError(
                f"Oracle 'planning' was asked about a play of {state.game.name!r} that is "
                "finished; judge plays in which a seat is to act."
            )
        solver = solver_of(state.game, self.name)
        assert solver is not None, "covered"
        found = solver.function(state)
        return None if found is None else verdict_of(state.legal_actions(), found)


planning = PlanningOracle
