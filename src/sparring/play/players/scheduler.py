"""A scripted lead and scripted workers of ``dag_search``, with faults that can be set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from sparring.core.errors import GameError
from sparring.core.rng import Stream
from sparring.environments.base import Play
from sparring.environments.combining import innermost_seat
from sparring.environments.dag_search import CALL, DONE, NOTE, OPEN, RESULTS, DagPlay
from sparring.play.players.base import TextAgent

Probability = Annotated[float, Field(ge=0, le=1)]


@dataclass(kw_only=True, eq=False)
class Scheduler(TextAgent):
    """A scripted lead and scripted workers of ``dag_search``, with faults that can be set.

    What: the lead calls ``width`` workers at a time, or the number of the best schedule. A
    worker opens the pages of its sub-task one by one, then notes the result.
    When to use: as workers with known faults beside a lead that learns, and to measure how good a
    width is before training.
    Mathematics: without faults a sub-task of n pages takes n + 1 turns. With ``slips`` s a call
    finishes the sub-task with probability 1 - s. ``environments/dag_search`` defines the best
    schedule; among equally good numbers of workers the lead takes the smallest.
    Pitfalls: it plays only ``dag_search``. The schedule assumes workers without faults.
    Reference: frozen workers of Agent Swarm (arXiv 2602.02276), with faults that can be set.
    Verified by: tests/play/players/test_searchers.py.

    Args:
        width: number of workers that the lead calls at once, at most 16; if the environment has
            fewer, all of them. 0 (default): the number of the best schedule.
        slips: probability that a worker notes a wrong result, in [0, 1]. Default 0.
        quits: probability that a worker stops, at each of its turns, in [0, 1]. Default 0.
    """

    width: Annotated[int, Field(ge=0, le=16)] = 0
    slips: Probability = 0.0
    quits: Probability = 0.0

    name = "scheduler"

    def choose(self, state: Play, seat: int, stream: Stream) -> str:
        """Return the next action of the lead or of a worker.

        Raises:
            GameError: the environment is not ``dag_search``.
        """
        play, seat = innermost_seat(state, seat)
        if not isinstance(play, DagPlay):
            raise GameError(
                f"Agent 'scheduler' plays only dag_search, not {type(play).__name__}; write "
                "random or scripted there."
            )
        if play.rules.leads(seat):
            return f"{CALL} {min(self.width, play.rules.workers) or self._best_width(play)}"
        return self._choose_worker_action(play, seat, stream)

    @staticmethod
    def _best_width(play: DagPlay) -> int:
        """Return the number of workers that finishes most sub-tasks in the fewest steps."""
        schedule, finished, steps_left = play.schedule, play.finished_tasks, play.steps_left
        widths = range(1, min(play.rules.workers, len(play.ready_tasks())) + 1)
        values = schedule.values(finished, steps_left, widths)

        def critical_steps(width: int) -> int:
            """Return the steps until all sub-tasks are finished, even beyond the limit."""
            tasks = play.ready_tasks()[:width]
            remainder = schedule.best(finished | sum(1 << task for task in tasks))
            slowest = max(schedule.turns[task] for task in tasks)
            return schedule.lead_steps(width) + slowest + remainder.steps

        return min(widths, key=lambda width: (-values[width - 1], critical_steps(width), width))

    def _choose_worker_action(self, play: DagPlay, seat: int, stream: Stream) -> str:
        if stream.uniform(0) < self.quits:
            return DONE
        call = play.calls[seat]
        if not call.log:
            return f"{OPEN} {play.start.pages[call.task][0]}"
        target, is_last = play.start.read_page(call.log[-1].split()[1])
        if not is_last:
            return f"{OPEN} {target}"
        wrong_results = [result for result in RESULTS if result != target]
        if stream.uniform(1) < self.slips:
            target = wrong_results[stream.integer(2, len(wrong_results))]
        return f"{NOTE} {target}"


scheduler = Scheduler
