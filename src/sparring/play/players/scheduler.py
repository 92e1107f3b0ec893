"""Does sub-tasks as well as it is told to: a scripted lead and scripted workers."""

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
    """A scripted lead and scripted workers of ``dag_search``, as good as they are told to be.

    What: as the lead it calls by the best schedule, or always ``width`` workers. As a worker it
    opens page after page and notes the result.
    When to use: to seat workers whose faults are known beside a lead that learns, and to know what
    a width is worth before anybody has learnt.
    Mathematics: without faults a sub-task of n pages takes n + 1 turns; with ``slips`` s it is
    finished at a call with probability 1 - s. The best schedule is that of
    ``environments/dag_search``, of which it takes the narrowest next wave.
    Pitfalls: it plays ``dag_search`` alone. Its schedule is that of workers without faults.
    Reference: frozen workers of Agent Swarm (arXiv 2602.02276), with faults that can be set.
    Verified by: tests/play/players/test_searchers.py.

    Args:
        width: workers that the lead calls, 0 to 16, as many as there are at most; 0 (default): as
            the best schedule does.
        slips: probability of noting another result than the page's, in [0, 1]. 0 by default.
        quits: probability of being done at each turn of a worker, in [0, 1]. 0 by default.
    """

    width: Annotated[int, Field(ge=0, le=16)] = 0
    slips: Share = 0.0
    quits: Share = 0.0

    name = "scheduler"

    def choose(self, state: Play, seat: int, stream: Stream) -> str:
        """Return the next action of the lead or of a worker.

        Raises:
            GameError: it is no ``dag_search``.
        """
        play, seat = innermost_seat(state, seat)
        if not isinstance(play, Dag):
            raise GameError(
                f"Agent 'scheduler' plays dag_search alone, not {type(play).__name__}; write "
                "random or scripted there."
            )
        if play.rules.leads(seat):
            return f"{CALL} {min(self.width, play.rules.workers) or self._best(play)}"
        return self._work(play, seat, stream)

    @staticmethod
    def _best(play: Dag) -> int:
        """Return the narrowest wave after which most can be finished, and soonest."""
        schedule, done, left = play.schedule, play.finished, play.steps_left
        widths = range(1, min(play.rules.workers, len(play.ready())) + 1)
        values = schedule.values(done, left, widths)

        def total(width: int) -> int:
            """Return the critical steps to the end of all, beyond the limit too."""
            given = play.ready()[:width]
            rest = schedule.best(done | sum(1 << task for task in given))
            slowest = max(schedule.steps[task] for task in given)
            return schedule.lead(width) + slowest + rest.steps

        return min(widths, key=lambda width: (-values[width - 1], total(width), width))

    def _work(self, play: Dag, seat: int, stream: Stream) -> str:
        if stream.uniform(0) < self.quits:
            return DONE
        call = play.calls[seat]
        if not call.log:
            return f"{OPEN} {play.start.pages[call.task][0]}"
        said, last = play.start.read_page(call.log[-1].split()[1])
        if not last:
            return f"{OPEN} {said}"
        wrong = [result for result in RESULTS if result != said]
        slip = stream.uniform(1) < self.slips
        return f"{NOTE} {wrong[stream.integer(2, len(wrong))] if slip else said}"


scheduler = Scheduler
