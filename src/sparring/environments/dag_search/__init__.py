"""A lead calls workers for sub-tasks, some of which depend on others."""

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
MOST_TASKS = len(NAMES) // MAX_PAGES


@dataclass(frozen=True, slots=True)
class DagWorld:
    """Sub-tasks in the order in which workers get them.

    Attributes:
        pages: names of the pages of each sub-task; each page names the next one.
        results: the result on the last page of each sub-task.
        needs: the earlier sub-tasks that must be finished before each sub-task.
    """

    pages: tuple[tuple[str, ...], ...]
    results: tuple[str, ...]
    needs: tuple[tuple[int, ...], ...]

    @property
    def steps(self) -> tuple[int, ...]:
        """The turns of each sub-task: one for each page, and one to note the result."""
        return tuple(len(chain) + 1 for chain in self.pages)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all pages, sorted, so that their order reveals nothing."""
        return tuple(sorted(name for chain in self.pages for name in chain))

    def read_page(self, name: str) -> tuple[str, bool]:
        """Return (content, is_result) of a page: the next page's name, or the result."""
        for chain, result in zip(self.pages, self.results, strict=True):
            if name in chain:
                index = chain.index(name)
                return (result, True) if index == len(chain) - 1 else (chain[index + 1], False)
        raise ValueError(f"no page {name!r}")


@lru_cache(maxsize=4096)
def world(stream: Stream, tasks: int, pages: int, shape: Shape, edges: float) -> DagWorld:
    """Return the world of a stream.

    Args:
        stream: source of random numbers.
        tasks: number of sub-tasks.
        pages: largest number of pages of a sub-task.
        shape: "independent": no dependencies; "chain": each sub-task needs the previous one;
            "random": each earlier one with probability ``edges``.
        edges: probability of a dependency in shape "random".
    """
    lengths = [1 + stream.child("pages").integer(task, pages) for task in range(tasks)]
    names = stream.child("names").shuffled(NAMES, sum(lengths))
    ends = [sum(lengths[: task + 1]) for task in range(tasks)]
    results, draws = stream.child("results"), stream.child("needs")

    def needs(task: int) -> tuple[int, ...]:
        if shape == "random":
            return tuple(
                other for other in range(task) if draws.uniform(task * tasks + other) < edges
            )
        return (task - 1,) if shape == "chain" and task else ()

    return DagWorld(
        pages=tuple(
            tuple(names[end - length : end]) for end, length in zip(ends, lengths, strict=True)
        ),
        results=tuple(RESULTS[results.integer(task, len(RESULTS))] for task in range(tasks)),
        needs=tuple(map(needs, range(tasks))),
    )


Needs = tuple[tuple[int, ...], ...]


class BestSchedule(NamedTuple):
    """The fewest critical steps to the end, and the width of the narrowest such schedule."""

    steps: int
    width: int


class WaveOutcome(NamedTuple):
    """The finished sub-tasks after a wave, as a bit mask, and the critical steps left."""

    done: int
    steps_left: int


@dataclass(frozen=True, slots=True)
class WaveSchedule:
    """The costs and results of waves of faultless workers.

    A set of finished sub-tasks is a number: bit i stands for sub-task i.

    Attributes:
        steps: turns that each sub-task takes.
        needs: the sub-tasks that must be finished before each sub-task.
        workers: largest number of workers in a wave.
        handout: steps of the lead for each worker in a call, in addition to one for the call.
    """

    steps: tuple[int, ...]
    needs: Needs
    workers: int
    handout: int

    @property
    def all_tasks(self) -> int:
        """The set of all sub-tasks."""
        return (1 << len(self.steps)) - 1

    def ready(self, finished: int) -> list[int]:
        """Return the sub-tasks that are ready, in the order in which workers get them."""
        return [
            task
            for task, needs in enumerate(self.needs)
            if not finished >> task & 1 and all(finished >> other & 1 for other in needs)
        ]

    def lead(self, width: int) -> int:
        """Return the lead's steps for a wave of ``width`` workers."""
        return 1 + self.handout * width

    def after(self, finished: int, steps: int, width: int) -> WaveOutcome:
        """Return the state after a wave; with no steps left the episode is over."""
        steps = max(steps - self.lead(width), 0)
        tasks = self.ready(finished)[:width]
        completed = [task for task in tasks if self.steps[task] <= steps]
        slowest = max((self.steps[task] for task in tasks), default=0)
        return WaveOutcome(finished | sum(1 << task for task in completed), max(steps - slowest, 0))

    def best(self, finished: int = 0) -> BestSchedule:
        """Return the fewest critical steps in which the rest can be finished."""
        return _best(self, finished)

    def serial(self) -> int:
        """Return the critical steps to finish all with one worker at a time."""
        return len(self.steps) * self.lead(1) + sum(self.steps)

    def value(self, finished: int, steps: int) -> float:
        """Return the largest share of all sub-tasks that can be finished in the steps left."""
        return _most_finished(self, finished, steps) / len(self.steps)

    def values(self, finished: int, steps: int, widths: Sequence[int]) -> list[float]:
        """Return the share finished by a wave of each width and the best waves after it."""
        return [self.value(*self.after(finished, steps, width)) for width in widths]


@lru_cache(maxsize=100_000)
def _best(schedule: WaveSchedule, finished: int) -> BestSchedule:
    ready = schedule.ready(finished)
    schedules = [BestSchedule(0, 0)] if finished == schedule.all_tasks else []
    for width in range(1, min(schedule.workers, len(ready)) + 1):
        tasks = ready[:width]
        remaining = _best(schedule, finished | sum(1 << task for task in tasks))
        slowest = max(schedule.steps[task] for task in tasks)
        steps = schedule.lead(width) + slowest + remaining.steps
        schedules.append(BestSchedule(steps, max(width, remaining.width)))
    return min(schedules)


@lru_cache(maxsize=100_000)
def _most_finished(schedule: WaveSchedule, finished: int, steps: int) -> int:
    best = schedule.best(finished)
    if best.steps <= steps:
        return len(schedule.steps)
    if not steps:
        return finished.bit_count()
    widths = range(1, min(schedule.workers, len(schedule.ready(finished))) + 1)
    outcomes = (schedule.after(finished, steps, width) for width in widths)
    return max(_most_finished(schedule, *outcome) for outcome in outcomes)


WORDS = (
    *("lead", "worker", "workers", "task", "takes", "needs", "ready", "of", "left", "finished"),
    *("call", "begin", "open", "note", "done", "page", "next", "result", "nothing"),
)


def opening_text(play: Dag) -> str:
    """Return the first prompt of the lead: every sub-task, and the limit of steps."""
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


def wave_text(play: Dag) -> str:
    """Return the prompt of the lead after a wave: finished and ready sub-tasks, and steps left."""
    finished, steps = len(play.done_by), play.steps_left
    if play.rules.brief:
        return f"finished {finished} left {steps} {_ready(play)}"
    return f"{finished} of {play.rules.tasks} are finished. Steps left: {steps}. {_ready(play)}"


def _ready(play: Dag) -> str:
    ready = play.ready()
    if play.rules.brief:
        return f"ready {len(ready)} of {_numbers(ready)}" if ready else "ready nothing"
    return f"Ready: {', '.join(_numbers(ready).split()) or 'nothing'}."


def _numbers(tasks: list[int] | tuple[int, ...]) -> str:
    return " ".join(str(task + 1) for task in tasks)


def worker_observation(play: Dag, seat: int, call: DagCall) -> Observation:
    """Return a worker's observation: the name of its first page, then each opened page."""
    brief, role, is_fresh = play.rules.brief, play.rules.roles[seat], not call.log
    if is_fresh:
        start = play.start.pages[call.task][0]
        text = (
            f"{role} begin {start}"
            if brief
            else f"You are {role}. Open the page of {start}. Each page names the next one, and the "
            "last one says a result: note it. That ends your work, and so does done."
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
    text = f"{text} left {call.turns}" if brief else f"{text} Turns left: {call.turns}."
    ask = "" if brief else f"Reply open NAME, note RESULT ({', '.join(RESULTS)}), or done."
    key = f"{role} {call.task} | {' | '.join((*call.log, text))}"
    return Observation(prompt=text, ask=ask, key=key, view=text, fresh=is_fresh)


LEAD = 0
CALL, OPEN, NOTE, DONE = "call", "open", "note", "done"


@dataclass(kw_only=True, eq=False)
class DagSearch(Bank):
    """Sub-tasks depend on one another: a lead says wave by wave how many workers it calls.

    What: the lead sees the turns and the needs of every sub-task, which are ready, and how many
    steps are left; it then calls workers. The first ready sub-tasks go to them in the order of
    their numbers, one to each, and the lead waits for all. A worker starts a fresh conversation;
    it opens pages, each of which names the next one, up to the last, which states the result; it
    then notes the result. A right note finishes the sub-task; any note, ``done``, or ``turns``
    turns end the call. The episode ends when all is finished or no step is left.
    When to use: to train a lead that decides how much to do in parallel (Agent Swarm). One worker
    at a time is best in a chain; it can also be best when a short sub-task makes others ready and
    the lead would otherwise wait for a long one.
    Mathematics: the return of every seat is the share of sub-tasks finished in the limit L:

        critical steps = sum over waves t of (1 + handout w_t + max over i of turns of worker i)
        L = ceil(slack D(0)),  D(S) = min over w of [1 + handout w + max over i in F(S, w) of d_i
                                                     + D(S + F(S, w))],  D(all) = 0

    with w_t the workers called, including idle ones; d_i the turns of sub-task i, its number of
    pages plus 1; F(S, w) the first w sub-tasks that are ready when S is finished. D is computed
    over the reachable sets S.
    Figures: waves, width (of the widest wave), critical_steps, total_steps, called (number of
    calls of a worker), finished, parallel (width as a share of the possible, 0 for one worker),
    finished_share (of the calls), success (whether all is finished), optimal_critical_steps, D(0),
    serial_critical_steps, the steps to finish all with one worker at a time, and optimal_width, the
    width of the narrowest schedule that takes D(0). Per seat, found: the sub-tasks that it
    finished.
    Pitfalls: with ``slack`` 1 one wasted step costs a sub-task. The best schedule assumes workers
    without faults. A guess without the pages is right 1 time in 8. With ``handout: 0`` an idle
    worker costs nothing.
    Reference: Kimi K2.5, Agent Swarm (arXiv 2602.02276): critical steps, and budgets in them. The
    sub-tasks, the hand-out steps and the limit are ours.
    Verified by: tests/environments/dag_search/test_dag_search.py,
    tests/environments/dag_search/test_schedule.py.

    Args:
        tasks: sub-tasks of an episode, 1 to 12.
        workers: largest number of workers in a call, 1 to 16.
        shape: "random" (default): a sub-task needs each earlier one with probability ``edges``;
            "independent": none; "chain": the previous one.
        edges: see ``shape``, in [0, 1]; the other shapes do not use it.
        pages: largest number of pages of a sub-task, 1 to 4; smaller numbers are equally likely.
        turns: turns of a worker at each call, more than ``pages``.
        handout: steps of the lead for each worker that it calls, 0 to 100.
        slack: limit of critical steps as a multiple of the best schedule's, 1 to 100.
        worlds: worlds in the bank, 1 to 10,000,000.
        bank: number of the bank, below 2^31; another bank has other worlds.
        style: "brief" (default): words for a tiny model. "full": sentences for a language model.
    """

    tasks: Annotated[int, Field(ge=1, le=MOST_TASKS)] = 6
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
        longest = math.ceil(self.slack * self.tasks * (1 + self.handout + pages + 1))
        self.max_turns = longest * self.num_seats

    def leads(self, seat: int) -> bool:
        """Return whether a seat is the lead, which calls workers."""
        return seat == LEAD

    def start(self, number: int) -> DagWorld:
        """Return a world of the bank."""
        return world(self.bank_stream(number), self.tasks, self.pages, self.shape, self.edges)

    def schedule(self, start: DagWorld) -> WaveSchedule:
        """Return the schedule of a world: the costs and results of its waves."""
        return WaveSchedule(start.steps, start.needs, self.workers, self.handout)

    def vocabulary(self) -> tuple[str, ...]:
        longest = self.max_turns // self.num_seats
        numbers = map(str, range(max(longest, self.turns, self.tasks, self.workers) + 1))
        return tuple(sorted({*WORDS, *NAMES, *RESULTS, *numbers}))

    def reset(self, stream: Stream) -> Dag:
        start = self.draw_start(stream)
        assert isinstance(start, DagWorld)
        return Dag(self, start)


@dataclass(frozen=True, slots=True)
class DagCall:
    """The current call of a worker.

    Args:
        task: sub-task that the worker works at.
        turns: turns before the call ends.
        log: prompts and replies since the call, in turn.
    """

    task: int
    turns: int
    log: tuple[str, ...] = ()


class Dag(PaintedPlay):
    """An episode of dag_search.

    Attributes:
        start: the world.
        schedule: costs and results of its waves.
        limit: critical steps after which the episode ends.
        done_by: seat that finished each sub-task.
        calls: current calls, by the worker's seat.
        waves: the steps of each worker of each wave; 0: the worker had no sub-task.
        ended: whether all is finished, or no step is left.
        num_calls: number of sub-tasks that each worker was called for, by seat.
        history: prompts and replies of the lead, in turn.
        lead_view: the finished sub-tasks (a bit mask) and the steps left in the lead's last prompt.
    """

    def __init__(self, rules: DagSearch, start: DagWorld) -> None:
        # all of these are replaced when they change, so that a copy may share them
        self.rules, self.start, self.ended = rules, start, False
        self.schedule = rules.schedule(start)
        self.limit = math.ceil(Fraction(str(rules.slack)) * self.schedule.best().steps)
        self.done_by: dict[int, int] = {}
        self.calls: dict[int, DagCall] = {}
        self.waves: tuple[tuple[int, ...], ...] = ()
        self.steps: dict[int, int] = {}  # steps of each worker in this wave
        self.num_calls: dict[int, int] = {}
        self.ends: dict[int, ConversationEnd] = {}  # how the latest call of each worker ended
        self.lead_steps = 0
        self.history: tuple[str, ...] = (opening_text(self),)
        self.lead_view = 0, self.steps_left

    @property
    def done(self) -> bool:
        return self.ended

    @property
    def finished(self) -> int:
        """The finished sub-tasks, as a bit mask."""
        return sum(1 << task for task in self.done_by)

    @property
    def returns(self) -> tuple[float, ...]:
        """The share of sub-tasks finished, for every seat; 0 before the end."""
        value = len(self.done_by) / self.rules.tasks if self.ended else 0.0
        return (value,) * self.rules.num_seats

    @property
    def critical_steps(self) -> int:
        """The lead's steps plus those of the slowest worker of each wave."""
        return count_critical_steps(self.lead_steps, (*self.waves, tuple(self.steps.values())))

    @property
    def steps_left(self) -> int:
        """The critical steps left."""
        return max(self.limit - self.critical_steps, 0)

    def ready(self) -> list[int]:
        """Return the sub-tasks that are ready."""
        return self.schedule.ready(self.finished)

    def conversation_end(self, seat: int) -> ConversationEnd | None:
        """Return how a worker's latest conversation ended; see ``HasConversationEnd``."""
        return self.ends.get(seat)

    def parts(self) -> tuple[int, ...]:
        """Return the workers that were called for a sub-task."""
        return tuple(sorted(self.num_calls))

    def worth(self, seats: Collection[int]) -> float:
        """Return the share of sub-tasks that these workers finished, with all their needs."""
        finished: set[int] = set()
        for task, needs in enumerate(self.start.needs):  # a sub-task needs only earlier ones
            if self.done_by.get(task) in seats and finished.issuperset(needs):
                finished.add(task)
        return len(finished) / self.rules.tasks

    def own_share(self, seat: int) -> float:
        """Return the sub-tasks that a worker finished, divided by its calls."""
        return self.figures()["found"][seat] / self.num_calls[seat]

    def due(self) -> tuple[int, ...]:
        if self.ended:
            return ()
        return tuple(sorted(self.calls)) or (LEAD,)

    def legal(self, seat: int) -> tuple[str, ...]:
        """Return the legal replies of a seat, () if it is not due."""
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
                raise GameError(f"dag_search: {quoted(reply)} is illegal for seat {seat} now.")
        if self.calls:
            self._work(replies)
        else:
            self._call(int(replies[LEAD].split()[1]))
        if self.calls and self.steps_left:
            return
        is_over = not self.steps_left or len(self.done_by) == self.rules.tasks
        self.ends = {**self.ends, **dict.fromkeys(self.calls, "limit")}
        self.waves, self.ended = (*self.waves, tuple(self.steps.values())), is_over
        self.calls, self.steps = {}, {}
        self.history = (*self.history, wave_text(self))
        self.lead_view = self.finished, self.steps_left

    def _call(self, width: int) -> None:
        self.lead_steps += self.schedule.lead(width)
        self.history = (*self.history, f"{CALL} {width}")
        tasks = enumerate(self.ready()[:width], start=1)
        self.calls = {seat: DagCall(task, self.rules.turns) for seat, task in tasks}
        self.ends = {seat: end for seat, end in self.ends.items() if seat not in self.calls}
        num_calls = {seat: self.num_calls.get(seat, 0) + 1 for seat in self.calls}
        self.num_calls = {**self.num_calls, **num_calls}
        self.steps = dict.fromkeys(range(1, width + 1), 0)

    def _work(self, replies: Mapping[int, str]) -> None:
        self.done_by, self.calls = dict(self.done_by), dict(self.calls)
        self.steps = dict(self.steps)
        for seat, reply in sorted(replies.items()):
            call, (word, *arguments) = self.calls[seat], reply.split()
            log = (*call.log, self.observe(seat).prompt, reply)
            call = replace(call, turns=call.turns - 1, log=log)
            self.steps[seat] += 1
            self.calls[seat] = call
            if word == NOTE and arguments[0] == self.start.results[call.task]:
                self.done_by[call.task] = seat
            if word in (NOTE, DONE) or not call.turns:
                self.ends = {**self.ends, seat: "answered" if word in (NOTE, DONE) else "turns"}
                del self.calls[seat]

    def figures(self) -> dict[str, tuple[float, ...]]:
        """Return the figures of a finished episode and of its best schedule."""
        seats, best = self.rules.num_seats, self.schedule.best()
        figures_of_all = {
            **wave_figures(self.lead_steps, self.waves, len(self.done_by), self.rules.workers),
            "success": float(len(self.done_by) == self.rules.tasks),
            "optimal_width": float(best.width),
            "optimal_critical_steps": float(best.steps),
            "serial_critical_steps": float(self.schedule.serial()),
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
            hidden = seat is not None
            finished, steps_left = self.lead_view if hidden else (self.finished, self.steps_left)
            ready = self.schedule.ready(finished)
            rows = [("sub-task", "turns", "needs", "state", *(() if hidden else ("result",)))]
            for task, needs in enumerate(start.needs):
                state = "ready" if task in ready else "waits"
                state = "finished" if finished >> task & 1 else state
                needs_text = " ".join(str(other + 1) for other in needs) or "-"
                row = (str(task + 1), str(start.steps[task]), needs_text, state)
                rows.append((*row, *(() if hidden else (start.results[task],))))
            heading(canvas, "Sub-tasks", f"{steps_left} steps left")
            table(canvas, rows)
        paragraph(canvas, self.described(seat), colour="dim")

    def described(self, seat: int | None) -> str:
        rules = self.rules
        if seat is not None and not rules.leads(seat):
            call = self.calls.get(seat)
            if call is None:
                return f"{rules.roles[seat]} is not at work."
            first = self.start.pages[call.task][0]
            opened_pages = [reply.split()[1] for reply in call.log[1::2]]
            pages = f", has opened {', '.join(opened_pages)}" if opened_pages else ""
            return f"{rules.roles[seat]} begins at {first}{pages}; {call.turns} turns left."
        result = f" Result: {self.returns[0]:.3f}." if self.done and seat is None else ""
        number = (self.finished if seat is None else self.lead_view[0]).bit_count()
        return f"Finished: {number} of {rules.tasks}. Waves so far: {len(self.waves)}.{result}"

    def clone(self) -> Dag:
        copy = object.__new__(Dag)
        copy.__dict__.update(self.__dict__)
        return copy


dag_search = DagSearch
