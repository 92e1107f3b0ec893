"""A lead calls workers for sub-tasks; a sub-task may need the results of others."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from sparring.core.errors import ConfigError, GameError, quoted
from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.bank import BANKS, Bank
from sparring.environments.base import ConversationEnd
from sparring.environments.drawing.canvas import Canvas, PaintedPlay
from sparring.environments.drawing.pieces import heading, paragraph, seats, table
from sparring.environments.wide_search.scoring import FIGURES, count_critical_steps, wave_figures
from sparring.environments.wide_search.world import NAMES, VALUES

Shape = Literal["independent", "chain", "random"]
RESULTS = VALUES["colour"]  # possible results of a sub-task, on its last page
MAX_PAGES = 4
MAX_TASKS = len(NAMES) // MAX_PAGES


@dataclass(frozen=True, slots=True)
class DagWorld:
    """Sub-tasks in the order in which workers get them.

    Attributes:
        pages: names of the pages of each sub-task; each page names the next one.
        results: the result on the last page of each sub-task.
        needs: for each sub-task, the earlier sub-tasks that must be finished first.
    """

    pages: tuple[tuple[str, ...], ...]
    results: tuple[str, ...]
    needs: tuple[tuple[int, ...], ...]

    @property
    def turns(self) -> tuple[int, ...]:
        """The turns of each sub-task: one for each page, and one to note the result."""
        return tuple(len(names) + 1 for names in self.pages)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all pages, sorted, so that their order reveals nothing."""
        return tuple(sorted(name for names in self.pages for name in names))

    def read_page(self, name: str) -> tuple[str, bool]:
        """Return (content, is_result) of a page: the next page's name, or the result."""
        for names, result in zip(self.pages, self.results, strict=True):
            if name in names:
                index = names.index(name)
                return (result, True) if index == len(names) - 1 else (names[index + 1], False)
        raise ValueError(f"No page {name!r}; write one of DagWorld.names.")


@lru_cache(maxsize=4096)
def make_world(stream: Stream, tasks: int, pages: int, shape: Shape, edges: float) -> DagWorld:
    """Return a random world, drawn from a stream.

    Args:
        stream: source of random numbers.
        tasks: number of sub-tasks.
        pages: largest number of pages of a sub-task.
        shape: "independent": no dependencies; "chain": each sub-task needs the previous one;
            "random": it needs each earlier one with probability ``edges``.
        edges: probability that a sub-task needs an earlier one, in shape "random".
    """
    lengths = [1 + stream.child("pages").integer(task, pages) for task in range(tasks)]
    names = stream.child("names").shuffled(NAMES, sum(lengths))
    ends = [sum(lengths[: task + 1]) for task in range(tasks)]
    result_stream, need_stream = stream.child("results"), stream.child("needs")

    def needs_of(task: int) -> tuple[int, ...]:
        if shape == "random":
            return tuple(
                other for other in range(task) if need_stream.uniform(task * tasks + other) < edges
            )
        return (task - 1,) if shape == "chain" and task else ()

    return DagWorld(
        pages=tuple(
            tuple(names[end - length : end]) for end, length in zip(ends, lengths, strict=True)
        ),
        results=tuple(RESULTS[result_stream.integer(task, len(RESULTS))] for task in range(tasks)),
        needs=tuple(map(needs_of, range(tasks))),
    )


Needs = tuple[tuple[int, ...], ...]


class BestSchedule(NamedTuple):
    """The fewest critical steps to finish all tasks, and the smallest width that allows this."""

    steps: int
    width: int


class WaveOutcome(NamedTuple):
    """The finished sub-tasks after a wave, as a bit mask, and the critical steps left."""

    finished_tasks: int
    steps_left: int


@dataclass(frozen=True, slots=True)
class WaveSchedule:
    """The costs and results of waves whose workers make no mistakes.

    A set of finished sub-tasks is a number: bit i stands for sub-task i.

    Attributes:
        turns: number of turns of each sub-task.
        needs: for each sub-task, the sub-tasks that must be finished first.
        workers: largest number of workers in a wave.
        handout: steps of the lead for each worker that it calls; the call itself is one more step.
    """

    turns: tuple[int, ...]
    needs: Needs
    workers: int
    handout: int

    @property
    def all_tasks(self) -> int:
        """The set of all sub-tasks."""
        return (1 << len(self.turns)) - 1

    def ready_tasks(self, finished_tasks: int) -> list[int]:
        """Return the unfinished sub-tasks whose needs are finished, in the order of hand-out."""
        return [
            task
            for task, needs in enumerate(self.needs)
            if not finished_tasks >> task & 1
            and all(finished_tasks >> other & 1 for other in needs)
        ]

    def lead_steps(self, width: int) -> int:
        """Return the lead's steps for a wave of ``width`` workers."""
        return 1 + self.handout * width

    def after(self, finished_tasks: int, steps_left: int, width: int) -> WaveOutcome:
        """Return the state after a wave; the episode is over when no steps are left."""
        steps_left = max(steps_left - self.lead_steps(width), 0)
        tasks = self.ready_tasks(finished_tasks)[:width]
        finished_tasks |= sum(1 << task for task in tasks if self.turns[task] <= steps_left)
        most_turns = max((self.turns[task] for task in tasks), default=0)
        return WaveOutcome(finished_tasks, max(steps_left - most_turns, 0))

    def best(self, finished_tasks: int = 0) -> BestSchedule:
        """Return the best schedule for all unfinished sub-tasks."""
        return _best(self, finished_tasks)

    def serial_steps(self) -> int:
        """Return the critical steps to finish all sub-tasks with one worker at a time."""
        return len(self.turns) * self.lead_steps(1) + sum(self.turns)

    def value(self, finished_tasks: int, steps_left: int) -> float:
        """Return the largest share of all sub-tasks that can be finished in the steps left."""
        return _most_finished(self, finished_tasks, steps_left) / len(self.turns)

    def values(self, finished_tasks: int, steps_left: int, widths: Sequence[int]) -> list[float]:
        """Return the share that a wave of each width and the best waves after it finish."""
        return [self.value(*self.after(finished_tasks, steps_left, width)) for width in widths]


@lru_cache(maxsize=100_000)
def _best(schedule: WaveSchedule, finished_tasks: int) -> BestSchedule:
    ready_tasks = schedule.ready_tasks(finished_tasks)
    schedules = [BestSchedule(0, 0)] if finished_tasks == schedule.all_tasks else []
    for width in range(1, min(schedule.workers, len(ready_tasks)) + 1):
        tasks = ready_tasks[:width]
        rest_schedule = _best(schedule, finished_tasks | sum(1 << task for task in tasks))
        most_turns = max(schedule.turns[task] for task in tasks)
        steps = schedule.lead_steps(width) + most_turns + rest_schedule.steps
        schedules.append(BestSchedule(steps, max(width, rest_schedule.width)))
    return min(schedules)


@lru_cache(maxsize=100_000)
def _most_finished(schedule: WaveSchedule, finished_tasks: int, steps_left: int) -> int:
    best_schedule = schedule.best(finished_tasks)
    if best_schedule.steps <= steps_left:
        return len(schedule.turns)
    if not steps_left:
        return finished_tasks.bit_count()
    widths = range(1, min(schedule.workers, len(schedule.ready_tasks(finished_tasks))) + 1)
    outcomes = (schedule.after(finished_tasks, steps_left, width) for width in widths)
    return max(_most_finished(schedule, *outcome) for outcome in outcomes)


WORDS = (
    *("lead", "worker", "workers", "task", "takes", "needs", "ready", "of", "left", "finished"),
    *("call", "begin", "open", "note", "done", "page", "next", "result", "nothing"),
)


def first_prompt(play: DagPlay) -> str:
    """Return the first prompt of the lead: every sub-task, and the limit of steps."""
    rules, turns = play.rules, play.start.turns
    if rules.brief:
        parts = [f"lead workers {rules.workers} left {play.limit}"]
        for task, needs in enumerate(play.start.needs):
            parts.append(f"task {task + 1} takes {turns[task]}")
            parts += [f"needs {_numbers(needs)}"] if needs else []
        return f"{' '.join(parts)} {_ready_text(play)}"
    tasks = [
        f"Sub-task {task + 1} takes {turns[task]} turns"
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
        f"{' '.join(tasks)} {_ready_text(play)}"
    )


def wave_text(play: DagPlay) -> str:
    """Return the prompt of the lead after a wave: finished and ready sub-tasks, and steps left."""
    num_finished, steps_left, ready_text = len(play.done_by), play.steps_left, _ready_text(play)
    if play.rules.brief:
        return f"finished {num_finished} left {steps_left} {ready_text}"
    return (
        f"{num_finished} of {play.rules.tasks} are finished. Steps left: {steps_left}. {ready_text}"
    )


def _ready_text(play: DagPlay) -> str:
    tasks = play.ready_tasks()
    if play.rules.brief:
        return f"ready {len(tasks)} of {_numbers(tasks)}" if tasks else "ready nothing"
    return f"Ready: {', '.join(_numbers(tasks).split()) or 'nothing'}."


def _numbers(tasks: list[int] | tuple[int, ...]) -> str:
    return " ".join(str(task + 1) for task in tasks)


def worker_observation(play: DagPlay, seat: int, call: DagCall) -> Observation:
    """Return a worker's observation: the name of its first page, then each opened page."""
    brief, role, is_first = play.rules.brief, play.rules.roles[seat], not call.log
    if is_first:
        first_page = play.start.pages[call.task][0]
        text = (
            f"{role} begin {first_page}"
            if brief
            else f"You are {role}. Open the page of {first_page}. Each page names the next one, "
            "and the last one says a result: note it. That ends your work, and so does done."
        )
    else:
        name = call.log[-1].split()[1]
        content, is_last = play.start.read_page(name)
        if brief:
            text = f"page {name} {'result' if is_last else 'next'} {content}"
        elif is_last:
            text = f"The page of {name} is the last one. The result is {content}."
        else:
            text = f"The page of {name} says: go on at {content}."
    text = f"{text} left {call.turns_left}" if brief else f"{text} Turns left: {call.turns_left}."
    ask = "" if brief else f"Reply open NAME, note RESULT ({', '.join(RESULTS)}), or done."
    key = f"{role} {call.task} | {' | '.join((*call.log, text))}"
    return Observation(prompt=text, ask=ask, key=key, view=text, fresh=is_first)


LEAD = 0
CALL, OPEN, NOTE, DONE = "call", "open", "note", "done"


@dataclass(kw_only=True, eq=False)
class DagSearch(Bank):
    """Sub-tasks need other sub-tasks: in each wave a lead decides how many workers it calls.

    What: the lead sees the turns and needs of every sub-task, the ready sub-tasks, and the number
    of steps left. The lead then calls workers. Each gets one ready sub-task, in the order of their
    numbers, and the lead waits for all workers. A worker starts a new conversation and opens pages.
    Each page names the next page; the last page states the result, which the worker then notes. A
    right note finishes the sub-task. A call ends after a note, after ``done``, or after ``turns``
    turns. The episode ends when all sub-tasks are finished or no step is left.
    When to use: to train a lead that decides how much to do in parallel (Agent Swarm). One worker
    at a time is best in a chain. One worker can also be best if a short sub-task makes others ready
    and the lead would otherwise wait for a long one.
    Mathematics: the return of every seat is the share of sub-tasks finished in the limit L:

        critical steps = sum over waves t of (1 + handout w_t + max over i of turns of worker i)
        L = ceil(slack D(0)),  D(S) = min over w of [1 + handout w + max over i in F(S, w) of d_i
                                                     + D(S + F(S, w))],  D(all) = 0

    with w_t the workers called, including idle ones; d_i the turns of sub-task i, its number of
    pages plus 1; F(S, w) the first w sub-tasks that are ready when S is finished. D is computed
    over the reachable sets S.
    Figures: waves, width (workers of the widest wave), critical_steps, total_steps, called (number
    of calls of a worker), finished, parallel ((width - 1) / (workers - 1), 0 for one worker),
    finished_share (finished / called), success (1 if all sub-tasks are finished, else 0),
    optimal_critical_steps (D(0)), serial_critical_steps (steps to finish all with one worker at a
    time) and optimal_width (width of the narrowest schedule that takes D(0)). For each seat, found
    is the number of sub-tasks that the seat finished.
    Pitfalls: with ``slack`` 1 one wasted step costs a sub-task. The best schedule assumes workers
    that make no mistakes. A guess without the pages is right 1 time in 8. With ``handout: 0`` an
    idle worker costs nothing.
    Reference: Kimi K2.5, Agent Swarm (arXiv 2602.02276): critical steps, and limits on them. The
    sub-tasks, the hand-out steps and this limit are ours.
    Verified by: tests/environments/dag_search/test_dag_search.py,
    tests/environments/dag_search/test_schedule.py.

    Args:
        tasks: sub-tasks of an episode, 1 to 12.
        workers: largest number of workers in a call, 1 to 16.
        shape: "random" (default): a sub-task needs each earlier one with probability ``edges``;
            "independent": it needs none; "chain": it needs the previous one.
        edges: see ``shape``, in [0, 1]; the other shapes do not use it.
        pages: largest number of pages of a sub-task, 1 to 4; smaller numbers are equally likely.
        turns: turns of a worker at each call, more than ``pages``.
        handout: steps of the lead for each worker that it calls, 0 to 100.
        slack: limit of critical steps / critical steps of the best schedule, 1 to 100.
        worlds: worlds in the bank, 1 to 10,000,000.
        bank: number of the bank, below 2^31; another bank has other worlds.
        style: "brief" (default): words for a tiny model. "full": sentences for a language model.
    """

    tasks: Annotated[int, Field(ge=1, le=MAX_TASKS)] = 6
    workers: Annotated[int, Field(ge=1, le=16)] = 4
    shape: Literal["independent", "chain", "random"] = "random"
    edges: Annotated[float, Field(ge=0, le=1)] = 0.3
    pages: Annotated[int, Field(ge=1, le=MAX_PAGES)] = 3
    turns: Annotated[int, Field(ge=2, le=1000)] = 6
    handout: Annotated[int, Field(ge=0, le=100)] = 1
    slack: Annotated[float, Field(ge=1, le=100)] = 1.0
    worlds: Annotated[int, Field(ge=1, le=10_000_000)] = 100_000
    bank: Annotated[int, Field(ge=0, lt=BANKS)] = 0
    style: Literal["brief", "full"] = "brief"

    name, size_option = "dag_search", "worlds"
    min_utility, max_utility, utility_sum = 0.0, 1.0, None
    zero_sum, cooperative = False, True
    figures = (
        *FIGURES,
        *("success", "optimal_width", "optimal_critical_steps", "serial_critical_steps", "found"),
    )

    def __post_init__(self) -> None:
        pages = self.pages
        if self.turns <= pages:
            raise ConfigError(
                f"dag_search: turns={self.turns} must be above pages={pages}, as a sub-task takes "
                f"a turn for each page and one to note its result; write turns: {pages + 1}."
            )
        self.brief = self.style == "brief"
        self.roles = ("lead", *(f"worker {number}" for number in range(1, self.workers + 1)))
        self.num_seats = len(self.roles)
        max_steps = math.ceil(self.slack * self.tasks * (1 + self.handout + pages + 1))
        self.max_turns = max_steps * self.num_seats

    def leads(self, seat: int) -> bool:
        """Return whether a seat is the lead, which calls workers."""
        return seat == LEAD

    def start(self, number: int) -> DagWorld:
        """Return world ``number`` of the bank."""
        return make_world(self.bank_stream(number), self.tasks, self.pages, self.shape, self.edges)

    def schedule(self, start: DagWorld) -> WaveSchedule:
        """Return the schedule of a world: the costs and results of its waves."""
        return WaveSchedule(start.turns, start.needs, self.workers, self.handout)

    def vocabulary(self) -> tuple[str, ...]:
        max_steps = self.max_turns // self.num_seats
        numbers = map(str, range(max(max_steps, self.turns, self.tasks, self.workers) + 1))
        return tuple(sorted({*WORDS, *NAMES, *RESULTS, *numbers}))

    def reset(self, stream: Stream) -> DagPlay:
        start = self.draw_start(stream)
        assert isinstance(start, DagWorld)
        return DagPlay(self, start)


@dataclass(frozen=True, slots=True)
class DagCall:
    """The current call of a worker.

    Args:
        task: the worker's sub-task.
        turns_left: number of turns until the call ends.
        log: prompts and replies since the call, in order.
    """

    task: int
    turns_left: int
    log: tuple[str, ...] = ()


class DagPlay(PaintedPlay):
    """An episode of dag_search.

    Attributes:
        start: the world.
        schedule: costs and results of its waves.
        limit: critical steps after which the episode ends.
        done_by: sub-task -> the seat that finished it.
        calls: worker's seat -> its current call.
        waves: the steps of each worker of each wave; 0: the worker had no sub-task.
        is_over: whether all sub-tasks are finished, or no step is left.
        num_calls: worker's seat -> number of sub-tasks for which it was called.
        history: prompts and replies of the lead, in order.
        lead_view: the finished sub-tasks (a bit mask) and the steps left in the lead's last prompt.
    """

    def __init__(self, rules: DagSearch, start: DagWorld) -> None:
        # a change replaces the whole attribute, so that copies of the play can share it
        self.rules, self.start, self.is_over = rules, start, False
        self.schedule = rules.schedule(start)
        self.limit = math.ceil(Fraction(str(rules.slack)) * self.schedule.best().steps)
        self.done_by: dict[int, int] = {}
        self.calls: dict[int, DagCall] = {}
        self.waves: tuple[tuple[int, ...], ...] = ()
        self.wave_steps: dict[int, int] = {}  # worker -> its steps in this wave
        self.num_calls: dict[int, int] = {}
        self.call_ends: dict[int, ConversationEnd] = {}  # worker -> how its latest call ended
        self.lead_steps_so_far = 0
        self.history: tuple[str, ...] = (first_prompt(self),)
        self.lead_view = 0, self.steps_left

    @property
    def done(self) -> bool:
        return self.is_over

    @property
    def finished_tasks(self) -> int:
        """The finished sub-tasks, as a bit mask."""
        return sum(1 << task for task in self.done_by)

    @property
    def returns(self) -> tuple[float, ...]:
        """The share of finished sub-tasks, for every seat; 0 before the end."""
        value = len(self.done_by) / self.rules.tasks if self.is_over else 0.0
        return (value,) * self.rules.num_seats

    @property
    def critical_steps(self) -> int:
        """The lead's steps plus those of the slowest worker of each wave."""
        return count_critical_steps(
            self.lead_steps_so_far, (*self.waves, tuple(self.wave_steps.values()))
        )

    @property
    def steps_left(self) -> int:
        """The critical steps left."""
        return max(self.limit - self.critical_steps, 0)

    def ready_tasks(self) -> list[int]:
        """Return the sub-tasks that are ready."""
        return self.schedule.ready_tasks(self.finished_tasks)

    def conversation_end(self, seat: int) -> ConversationEnd | None:
        """Return how a worker's latest conversation ended; see ``HasConversationEnd``."""
        return self.call_ends.get(seat)

    def parts(self) -> tuple[int, ...]:
        """Return the workers that were called for a sub-task."""
        return tuple(sorted(self.num_calls))

    def worth(self, seats: Collection[int]) -> float:
        """Return the share of sub-tasks that these workers would have finished alone."""
        finished_tasks: set[int] = set()
        for task, needs in enumerate(self.start.needs):  # a sub-task needs only earlier ones
            if self.done_by.get(task) in seats and finished_tasks.issuperset(needs):
                finished_tasks.add(task)
        return len(finished_tasks) / self.rules.tasks

    def own_share(self, seat: int) -> float:
        """Return the sub-tasks that a worker finished, divided by its calls."""
        return self.figures()["found"][seat] / self.num_calls[seat]

    def due(self) -> tuple[int, ...]:
        if self.is_over:
            return ()
        return tuple(sorted(self.calls)) or (LEAD,)

    def legal(self, seat: int) -> tuple[str, ...]:
        """Return the legal replies of a seat; () if the seat is not due."""
        if seat not in self.due():
            return ()
        if seat == LEAD:
            return tuple(f"{CALL} {width}" for width in range(1, self.rules.workers + 1))
        pages = (f"{OPEN} {name}" for name in self.start.names)
        notes = (f"{NOTE} {result}" for result in RESULTS)
        return (*pages, *notes, DONE)

    def observe(self, seat: int) -> Observation:
        """Return the observation of a seat; each call starts a new conversation of a worker."""
        if seat == LEAD:
            text, key = self.history[-1], f"lead | {' | '.join(self.history)}"
            ask = "" if self.rules.brief else "Reply call N, with a number of workers."
            return Observation(prompt=text, ask=ask, key=key, view=text)
        if seat in self.calls:
            return worker_observation(self, seat, self.calls[seat])
        return Observation(prompt="", key=f"{self.rules.roles[seat]} idle")

    def step(self, replies: Mapping[int, str]) -> None:
        for seat, reply in replies.items():
            if reply not in self.legal(seat):
                message = (
                    f"{quoted(reply)} is illegal for seat {seat} now; write one of legal({seat})."
                )
                raise GameError(f"dag_search: {message}")
        if self.calls:
            self._apply_worker_replies(replies)
        else:
            self._call_workers(int(replies[LEAD].split()[1]))
        if self.calls and self.steps_left:
            return
        is_over = not self.steps_left or len(self.done_by) == self.rules.tasks
        self.call_ends = {**self.call_ends, **dict.fromkeys(self.calls, "limit")}
        self.waves, self.is_over = (*self.waves, tuple(self.wave_steps.values())), is_over
        self.calls, self.wave_steps = {}, {}
        self.history = (*self.history, wave_text(self))
        self.lead_view = self.finished_tasks, self.steps_left

    def _call_workers(self, width: int) -> None:
        self.lead_steps_so_far += self.schedule.lead_steps(width)
        self.history = (*self.history, f"{CALL} {width}")
        tasks = enumerate(self.ready_tasks()[:width], start=1)
        self.calls = {seat: DagCall(task, self.rules.turns) for seat, task in tasks}
        ends = self.call_ends.items()
        self.call_ends = {seat: end for seat, end in ends if seat not in self.calls}
        num_calls = {seat: self.num_calls.get(seat, 0) + 1 for seat in self.calls}
        self.num_calls = {**self.num_calls, **num_calls}
        self.wave_steps = dict.fromkeys(range(1, width + 1), 0)

    def _apply_worker_replies(self, replies: Mapping[int, str]) -> None:
        self.done_by, self.calls = dict(self.done_by), dict(self.calls)
        self.wave_steps = dict(self.wave_steps)
        for seat, reply in sorted(replies.items()):
            call, (word, *arguments) = self.calls[seat], reply.split()
            log = (*call.log, self.observe(seat).prompt, reply)
            call = replace(call, turns_left=call.turns_left - 1, log=log)
            self.wave_steps[seat] += 1
            self.calls[seat] = call
            if word == NOTE and arguments[0] == self.start.results[call.task]:
                self.done_by[call.task] = seat
            if word in (NOTE, DONE) or not call.turns_left:
                end: ConversationEnd = "answered" if word in (NOTE, DONE) else "turns"
                self.call_ends = {**self.call_ends, seat: end}
                del self.calls[seat]

    def figures(self) -> dict[str, tuple[float, ...]]:
        """Return the figures of a finished episode and of its best schedule."""
        seats, best_schedule = self.rules.num_seats, self.schedule.best()
        figures_of_all = {
            **wave_figures(
                self.lead_steps_so_far, self.waves, len(self.done_by), self.rules.workers
            ),
            "success": float(len(self.done_by) == self.rules.tasks),
            "optimal_width": float(best_schedule.width),
            "optimal_critical_steps": float(best_schedule.steps),
            "serial_critical_steps": float(self.schedule.serial_steps()),
        }
        finishers = list(self.done_by.values())
        return {
            **{name: (value,) * seats for name, value in figures_of_all.items()},
            "found": tuple(float(finishers.count(seat)) for seat in range(seats)),
        }

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        start, due = self.start, self.due()
        seats(canvas, self.rules.roles, due if seat is None else tuple({seat} & set(due)))
        if seat is None or self.rules.leads(seat):
            is_lead_view = seat is not None
            view = self.lead_view if is_lead_view else (self.finished_tasks, self.steps_left)
            finished_tasks, steps_left = view
            ready_tasks = self.schedule.ready_tasks(finished_tasks)
            rows = [("sub-task", "turns", "needs", "state", *(() if is_lead_view else ("result",)))]
            for task, needs in enumerate(start.needs):
                state = "ready" if task in ready_tasks else "waits"
                state = "finished" if finished_tasks >> task & 1 else state
                needs_text = " ".join(str(other + 1) for other in needs) or "-"
                row = (str(task + 1), str(start.turns[task]), needs_text, state)
                rows.append((*row, *(() if is_lead_view else (start.results[task],))))
            heading(canvas, "Sub-tasks", f"{steps_left} steps left")
            table(canvas, rows)
        paragraph(canvas, self.described(seat), colour="dim")

    def described(self, seat: int | None) -> str:
        rules = self.rules
        if seat is not None and not rules.leads(seat):
            call = self.calls.get(seat)
            if call is None:
                return f"{rules.roles[seat]} is not at work."
            first_page = self.start.pages[call.task][0]
            opened_pages = [reply.split()[1] for reply in call.log[1::2]]
            pages = f", has opened {', '.join(opened_pages)}" if opened_pages else ""
            turns = f"{call.turns_left} turns left"
            return f"{rules.roles[seat]} begins at {first_page}{pages}; {turns}."
        result = f" Result: {self.returns[0]:.3f}." if self.done and seat is None else ""
        num_finished = (self.finished_tasks if seat is None else self.lead_view[0]).bit_count()
        waves = f"Waves so far: {len(self.waves)}."
        return f"Finished: {num_finished} of {rules.tasks}. {waves}{result}"

    def clone(self) -> DagPlay:
        copy = object.__new__(DagPlay)
        copy.__dict__.update(self.__dict__)
        return copy


dag_search = DagSearch
