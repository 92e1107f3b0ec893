"""What lead and workers are told. Sub-tasks are numbered from 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparring.core.records import Observation
from sparring.environments.dag_search.world import RESULTS

if TYPE_CHECKING:
    from sparring.environments.dag_search.rules import Call, Dag

WORDS = (
    *("lead", "worker", "workers", "task", "takes", "needs", "ready", "of", "left", "finished"),
    *("call", "begin", "open", "note", "done", "page", "next", "result", "nothing"),
)


def begin(play: Dag) -> str:
    """Return what the lead is told at first: every sub-task, and the steps there are."""
    rules, steps = play.rules, play.start.steps
    if rules.brief:
        parts = [f"lead workers {rules.workers} left {play.limit}"]
        for task, needs in enumerate(play.start.needs):
            parts.append(f"task {task + 1} takes {steps[task]}")
            parts += [f"needs {_numbers(needs)}"] if needs else []
        return f"{' '.join(parts)} {_ready(play)}"
    tasks = [
        f"Sub-task {task + 1} takes {steps[task]} turns"
        + (f" and needs {', '.join(_numbers(needs).split())}." if needs else ".")
        for task, needs in enumerate(play.start.needs)
    ]
    cost = f" and {rules.handout} for each worker that you call" if rules.handout else ""
    return (
        f"You lead {rules.workers} workers, who are to finish {rules.tasks} sub-tasks. A sub-task "
        "is ready when all that it needs is finished. When you call workers, the first ready "
        "sub-tasks are handed out, one to each; a worker too many has nothing to do. All are "
        f"waited for. A call takes one step{cost}, and as many as its slowest worker has turns. "
        f"The result of all is the share that is finished in {play.limit} steps. "
        f"{' '.join(tasks)} {_ready(play)}"
    )


def back(play: Dag) -> str:
    """Return what the lead is told after a wave: what is finished, left and ready."""
    finished = len(play.done_by)
    if play.rules.brief:
        return f"finished {finished} left {play.left} {_ready(play)}"
    return f"{finished} of {play.rules.tasks} are finished. Steps left: {play.left}. {_ready(play)}"


def _ready(play: Dag) -> str:
    """Return which sub-tasks are ready; the number of them first."""
    ready = play.ready()
    if play.rules.brief:
        return f"ready {len(ready)} of {_numbers(ready)}" if ready else "ready nothing"
    return f"Ready: {', '.join(_numbers(ready).split()) or 'nothing'}."


def _numbers(tasks: list[int] | tuple[int, ...]) -> str:
    """Return sub-tasks by their numbers."""
    return " ".join(str(task + 1) for task in tasks)


def lead(play: Dag) -> Observation:
    """Return what the lead is told: the task at first, then what came back."""
    told = play.said[-1]
    ask = "" if play.rules.brief else "Reply call N, with a number of workers."
    return Observation(told=told, ask=ask, key=f"lead | {' | '.join(play.said)}", view=told)


def worker(play: Dag, seat: int, call: Call) -> Observation:
    """Return what a worker is told: its first page at first, then what the last one says."""
    brief, role, fresh = play.rules.brief, play.rules.roles[seat], not call.told
    if fresh:
        first = play.start.pages[call.task][0]
        told = f"{role} begin {first}" if brief else _task(role, first)
    else:
        name = call.told[-1].split()[1]
        said, last = play.start.after(name)
        if brief:
            told = f"page {name} {'result' if last else 'next'} {said}"
        elif last:
            told = f"The page of {name} is the last one. The result is {said}."
        else:
            told = f"The page of {name} says: go on at {said}."
    told = f"{told} left {call.left}" if brief else f"{told} Turns left: {call.left}."
    ask = "" if brief else f"Reply open NAME, note RESULT ({', '.join(RESULTS)}), or done."
    key = f"{role} {call.task} | {' | '.join((*call.told, told))}"
    return Observation(told=told, ask=ask, key=key, view=told, fresh=fresh)


def _task(role: str, first: str) -> str:
    """Return what a worker is to do, in full style."""
    return (
        f"You are {role}. Open the page of {first}. Each page names the next one, and the last one "
        "says a result: note it. That ends your work, and so does done."
    )


def idle(play: Dag, seat: int) -> Observation:
    """Return what a worker knows that is not at work: nothing."""
    return Observation(told="", key=f"{play.rules.roles[seat]} idle")
