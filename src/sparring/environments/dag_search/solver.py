"""Solver of dag_search: the value of each width of the next wave, by dynamic programming."""

from __future__ import annotations

from sparring.core.errors import OracleError
from sparring.core.records import SolverResult
from sparring.environments.dag_search import DagPlay
from sparring.environments.situation import Situation

ORACLE = "planning"  # the oracle that calls this solver


def dag_search(state: Situation) -> SolverResult | None:
    """Exact value of every width of the next wave, if workers make no mistakes.

    What: the value of a width is the largest share of all sub-tasks that can be finished with this
    wave and later waves in the critical steps left. The solver does not judge a worker's decisions.
    When to use: through oracle ``planning``, on ``dag_search``.
    Mathematics: with S the finished sub-tasks, l the steps left, n the number of sub-tasks and
    F(S, w) the first w sub-tasks that are ready:
        V(S, l) = max over w of V(S', l'),  V(S, 0) = |S| / n,  V(all, l) = 1
        l' = max(l - 1 - handout w - max over i in F(S, w) of d_i, 0)
        S' = S + all i in F(S, w) with d_i <= l - 1 - handout w
    Pitfalls: with enough steps left all widths have the value 1. The number of reachable sets grows
    with the sub-tasks that are ready at once. With 12 sub-tasks it is small, because ready
    sub-tasks are always handed out in the same order.
    Reference: Bellman, 1957; Graham, "Bounds on multiprocessing timing anomalies", 1969 (list
    schedules).
    Verified by: tests/environments/dag_search/test_schedule.py,
    tests/methods/oracles/test_puzzles.py.
    """
    play = state.play
    if not isinstance(play, DagPlay):
        raise OracleError(
            f"Solver 'dag_search' cannot judge {type(play).__name__}; judge episodes of dag_search."
        )
    if not play.rules.leads(state.seat):
        return None
    widths = range(1, play.rules.workers + 1)
    return SolverResult(values=play.schedule.values(play.finished_tasks, play.steps_left, widths))
