"""The picture of a play: the sub-tasks, what each needs, and how far it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import heading, paragraph, seats, table

if TYPE_CHECKING:
    from sparring.environments.dag_search.rules import Dag


def paint(canvas: Canvas, play: Dag, seat: int | None) -> None:
    """Draw a play.

    Args:
        canvas: to draw on.
        play: what is drawn.
        seat: who looks; None: the results of sub-tasks are shown as well.
    """
    start, due = play.start, play.due()
    seats(canvas, play.rules.roles, due if seat is None else tuple({seat} & set(due)))
    if seat is None or play.rules.leads(seat):
        hidden = seat is not None
        done, left = play.told if hidden else (play.finished, play.left)
        ready = play.schedule.ready(done)
        rows = [("sub-task", "turns", "needs", "state", *(() if hidden else ("result",)))]
        for task, needs in enumerate(start.needs):
            state = "finished" if done >> task & 1 else "ready" if task in ready else "waits"
            wants = " ".join(str(other + 1) for other in needs) or "-"
            own = (str(task + 1), str(start.steps[task]), wants, state)
            rows.append((*own, *(() if hidden else (start.results[task],))))
        heading(canvas, "Sub-tasks", f"{left} steps left")
        table(canvas, rows)
    paragraph(canvas, describe(play, seat), colour="dim")


def describe(play: Dag, seat: int | None) -> str:
    """Return how far a play is, as a seat knows it."""
    rules = play.rules
    if seat is not None and not rules.leads(seat):
        call = play.calls.get(seat)
        if call is None:
            return f"{rules.roles[seat]} is not at work."
        first = play.start.pages[call.task][0]
        opened = [reply.split()[1] for reply in call.told[1::2]]
        said = f", has opened {', '.join(opened)}" if opened else ""
        return f"{rules.roles[seat]} begins at {first}{said}; {call.left} turns left."
    over = f" Result: {play.returns[0]:.3f}." if play.done and seat is None else ""
    number = (play.finished if seat is None else play.told[0]).bit_count()
    return f"Finished: {number} of {rules.tasks}. Waves so far: {len(play.waves)}.{over}"
