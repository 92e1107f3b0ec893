"""A scripted lead and scripted workers of ``dag_search``, with faults that can be set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from sparring.core.errors import GameError
from sparring.core.rng import Stream
from sparring.environments.base import Play
from sparring.environments.combining import innermost_seat
from sparring.environments.dag_search import CALL, DONE, NOTE, OPEN, RESULTS, Dag
from sparring.play.players.base import TextAgent

Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(kw_only=True, eq=False)
class Scheduler(TextAgent):
    """A scripted lead and scripted workers of ``dag_search``, with faults that can be set.

    What: as the lead it calls by the best schedule, or always ``width`` workers. As a worker it
    opens page after page and notes the result.
    When to use: as workers with known faults beside a lead that learns, and to measure the value of
    a width before training.
    Mathematics: without faults a sub-task of n pages takes n + 1 turns; with ``slips`` s it is
    finished at a call with probability 1 - s. The best schedule is that of
    ``environments/dag_search``, with the narrowest next wave.
    Pitfalls: it plays only ``dag_search``. The schedule assumes workers without faults.
    Reference: frozen workers of Agent Swarm (arXiv 2602.02276), with faults that can be set.
    Verified by: tests/play/players/test_searchers.py.

    Args:
        width: number of workers that the lead calls, at most 16 and at most those available; 0
            (default): as the best schedule does.
        slips: probability of noting another result than the page's, in [0, 1]. 0 by default.
        quits: probability that a worker stops at each of its turns, in [0, 1]. 0 by default.
    """

    width: Annotated[int, Field(ge=0, le=16)] = 0
    slips: Share = 0.0
    quits: Share = 0.0

    name = "scheduler"

    def choose(self, state: Play, seat: int, stream: Stream) -> str:
        """Return the next action of the lead or of a worker.

        Raises:
            GameError: the environment is not ``dag_search``.
        """
        play, seat = innermost_seat(state, seat)
        if not isinstance(play, Dag):
            raise GameError(
                f"Agent 'scheduler' plays only dag_search, not {type(play).__name__}; write "
                "random or scripted there."
            )
        if play.rules.leads(seat):
            return f"{CALL} {min(self.width, play.rules.workers) or self._best(play)}"
        return self._work(play, seat, stream)

    @staticmethod
    def _best(play: Dag) -> int:
        """Return the narrowest wave that finishes most sub-tasks, in the fewest steps."""
        schedule, done, turns_left = play.schedule, play.finished, play.steps_left
        widths = range(1, min(play.rules.workers, len(play.ready())) + 1)
        values = schedule.values(done, turns_left, widths)

        def total(width: int) -> int:
            """Return the critical steps to the end of all, beyond the limit too."""
            tasks = play.ready()[:width]
            remainder = schedule.best(done | sum(1 << task for task in tasks))
            slowest = max(schedule.steps[task] for task in tasks)
            return schedule.lead(width) + slowest + remainder.steps

        return min(widths, key=lambda width: (-values[width - 1], total(width), width))

    def _work(self, play: Dag, seat: int, stream: Stream) -> str:
        if stream.uniform(0) < self.quits:
            return DONE
        call = play.calls[seat]
        if not call.log:
            return f"{OPEN} {play.start.pages[call.task][0]}"
        target, last = play.start.read_page(call.log[-1].split()[1])
        if not last:
            return f"{OPEN} {target}"
        wrong_results = [result for result in RESULTS if result != target]
        slip = stream.uniform(1) < self.slips
        return f"{NOTE} {wrong_results[stream.integer(2, len(wrong_results))] if slip else target}"


scheduler = Scheduler
