"""A lead that calls workers for sub-tasks, some of which need others to be finished."""

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
from sparring.environments.wide_search.scoring import FIGURES, counted, critical_steps
from sparring.environments.wide_search.world import NAMES, VALUES

Shape = Literal["independent", "chain", "random"]
RESULTS = VALUES["colour"]  # what the last page of a sub-task can say
MOST_PAGES = 4
MOST_TASKS = len(NAMES) // MOST_PAGES


@dataclass(frozen=True, slots=True)
class World:
    """Sub-tasks in the order in which they are handed out.

    Attributes:
        pages: names of the pages of each sub-task; each page tells the next one.
        results: what the last page of each says.
        needs: of each the earlier sub-tasks that must be finished before.
    """

    pages: tuple[tuple[str, ...], ...]
    results: tuple[str, ...]
    needs: tuple[tuple[int, ...], ...]

    @property
    def steps(self) -> tuple[int, ...]:
        """Turns that each takes: one for a page, and one to note the result."""
        return tuple(len(own) + 1 for own in self.pages)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all pages, sorted, so that their order tells nothing."""
        return tuple(sorted(name for own in self.pages for name in own))

    def after(self, name: str) -> tuple[str, bool]:
        """Return what a page says: the next page, or a result and that it is one."""
        for own, result in zip(self.pages, self.results, strict=True):
            if name in own:
                place = own.index(name)
                return (result, True) if place == len(own) - 1 else (own[place + 1], False)
        raise ValueError(f"no page {name!r}")


@lru_cache(maxsize=4096)
def world(stream: Stream, tasks: int, pages: int, shape: Shape, edges: float) -> World:
    """Return the world of a stream.

    Args:
        stream: what is drawn from.
        tasks: how many.
        pages: most of one.
        shape: "independent": nothing depends on anything; "chain": each on the one before;
            "random": on each earlier one with probability ``edges``.
        edges: see above.
    """
    lengths = [1 + stream.child("pages").integer(task, pages) for task in range(tasks)]
    names = stream.child("names").shuffled(NAMES, sum(lengths))
    ends = [sum(lengths[: task + 1]) for task in range(tasks)]
    results, needed = stream.child("results"), stream.child("needs")

    def needs(task: int) -> tuple[int, ...]:
        if shape == "random":
            return tuple(
                other for other in range(task) if needed.uniform(task * tasks + other) < edges
            )
        return (task - 1,) if shape == "chain" and task else ()

    return World(
        pages=tuple(
            tuple(names[end - length : end]) for end, length in zip(ends, lengths, strict=True)
        ),
        results=tuple(RESULTS[results.integer(task, len(RESULTS))] for task in range(tasks)),
        needs=tuple(map(needs, range(tasks))),
    )


Needs = tuple[tuple[int, ...], ...]


class Best(NamedTuple):
    """The fewest critical steps to the end, and the widest wave of the narrowest such schedule."""

    steps: int
    width: int


class After(NamedTuple):
    """Where a wave leads: the finished sub-tasks as bits, and the critical steps that are left."""

    done: int
    left: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """What waves of faultless workers cost and finish.

    A set of finished sub-tasks is a number: bit i stands for sub-task i.

    Attributes:
        steps: turns that each sub-task takes.
        needs: of each those that must be finished before.
        workers: most of a wave.
        handout: steps of the lead for each worker that it calls, beside one for the call.
    """

    steps: tuple[int, ...]
    needs: Needs
    workers: int
    handout: int

    @property
    def all(self) -> int:
        """The set of all sub-tasks."""
        return (1 << len(self.steps)) - 1

    def ready(self, done: int) -> list[int]:
        """Return the sub-tasks that can be worked at, in the order in which they are given."""
        return [
            task
            for task, needs in enumerate(self.needs)
            if not done >> task & 1 and all(done >> other & 1 for other in needs)
        ]

    def lead(self, width: int) -> int:
        """Return the lead's steps for a wave of so many workers."""
        return 1 + self.handout * width

    def after(self, done: int, left: int, width: int) -> After:
        """Return where a wave leads from here; with nothing left the play is over."""
        left = max(left - self.lead(width), 0)
        given = self.ready(done)[:width]
        finished = [task for task in given if self.steps[task] <= left]
        slowest = max((self.steps[task] for task in given), default=0)
        return After(done | sum(1 << task for task in finished), max(left - slowest, 0))

    def best(self, done: int = 0) -> Best:
        """Return the fewest critical steps in which the rest can be finished."""
        return _best(self, done)

    def serial(self) -> int:
        """Return the critical steps of one worker at a time, to the end of all."""
        return len(self.steps) * self.lead(1) + sum(self.steps)

    def value(self, done: int, left: int) -> float:
        """Return the largest share of all sub-tasks that can be finished in the steps left."""
        return _most(self, done, left) / len(self.steps)

    def values(self, done: int, left: int, widths: Sequence[int]) -> list[float]:
        """Return what a wave of each width, and the best waves after it, will have finished."""
        return [self.value(*self.after(done, left, width)) for width in widths]


@lru_cache(maxsize=100_000)
def _best(schedule: Schedule, done: int) -> Best:
    """Return the best of all widths; a worker with nothing to do is of no use."""
    ready = schedule.ready(done)
    found = [Best(0, 0)] if done == schedule.all else []
    for width in range(1, min(schedule.workers, len(ready)) + 1):
        given = ready[:width]
        rest = _best(schedule, done | sum(1 << task for task in given))
        slowest = max(schedule.steps[task] for task in given)
        found.append(Best(schedule.lead(width) + slowest + rest.steps, max(width, rest.width)))
    return min(found)


@lru_cache(maxsize=100_000)
def _most(schedule: Schedule, done: int, left: int) -> int:
    best = schedule.best(done)
    if best.steps <= left:
        return len(schedule.steps)
    if not left:
        return done.bit_count()
    widths = range(1, min(schedule.workers, len(schedule.ready(done))) + 1)
    return max(_most(schedule, *schedule.after(done, left, width)) for width in widths)


WORDS = (
    *("lead", "worker", "workers", "task", "takes", "needs", "ready", "of", "left", "finished"),
    *("call", "begin", "open", "note", "done", "page", "next", "result", "nothing"),
)


def opening_text(play: Dag) -> str:
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


def wave_text(play: Dag) -> str:
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
    return " ".join(str(task + 1) for task in tasks)


def worker_observation(play: Dag, seat: int, call: Call) -> Observation:
    """Return what a worker is told: its first page at first, then what the last one says."""
    brief, role, fresh = play.rules.brief, play.rules.roles[seat], not call.told
    if fresh:
        first = play.start.pages[call.task][0]
        told = (
            f"{role} begin {first}"
            if brief
            else f"You are {role}. Open the page of {first}. Each page names the next one, and the "
            "last one says a result: note it. That ends your work, and so does done."
        )
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


LEAD = 0
CALL, OPEN, NOTE, DONE = "call", "open", "note", "done"


@dataclass(kw_only=True, eq=False)
class DagSearch(Bank):
    """Sub-tasks depend on one another: a lead says wave by wave how many workers it calls.

    What: the lead is told what every sub-task takes and needs, which are ready, and how many steps
    are left. It calls workers; the first ready sub-tasks are handed out in the order of their
    numbers, one to each, and all are waited for. A worker begins a fresh conversation. It opens a
    page, which names the next one, up to the last, which says the result, and notes that. A right
    note finishes the sub-task; after any note, ``done``, or ``turns`` turns the call is over. The
    play ends when all is finished or no step is left.
    When to use: to train who decides how much to do at once (Agent Swarm). Not to parallelise is
    right in a chain, and where a short sub-task opens the way for others while a long one would
    be waited for.
    Mathematics: the return of every seat is the share of sub-tasks finished in the limit L:

        critical steps = sum over waves t of (1 + handout w_t + max over i of turns of worker i)
        L = ceil(slack D(0)),  D(S) = min over w of [1 + handout w + max over i in F(S, w) of d_i
                                                     + D(S + F(S, w))],  D(all) = 0

    with w_t the workers called, a worker too many included; d_i the turns of sub-task i, its pages
    and one; F(S, w) the first w sub-tasks that are ready when S is finished. D is worked out over
    the sets S that can come about.
    Figures: waves, width (of the widest wave), critical_steps, total_steps, called (how often a
    worker was), finished, parallel (width as a share of what it may be, from 0 for one worker),
    finished_share (of the calls), success (all is finished), optimal_critical_steps, D(0),
    serial_critical_steps, what one worker at a time takes to finish all, and optimal_width, the
    widest wave of a schedule that takes D(0); of several the narrowest. Of each seat found, the
    sub-tasks that it finished.
    Pitfalls: with ``slack`` 1 one wasted step costs a sub-task. The best schedule is that of
    workers without faults. A result can be guessed without its pages, 1 time in 8. With
    ``handout: 0`` a worker too many costs nothing.
    Reference: Kimi K2.5, Agent Swarm (arXiv 2602.02276): critical steps, and budgets in them. The
    sub-tasks, the hand-out steps and the limit are ours.
    Verified by: tests/environments/dag_search/test_dag_search.py,
    tests/environments/dag_search/test_schedule.py.

    Args:
        tasks: sub-tasks of a play, 1 to 12.
        workers: most of a call, 1 to 16.
        shape: "random" (default): a sub-task needs each earlier one with probability ``edges``;
            "independent": none; "chain": the one before.
        edges: see ``shape``, in [0, 1]; the other shapes do not read it.
        pages: most pages of a sub-task, 1 to 4; each has 1 to so many, equally likely.
        turns: of a worker at each call, more than ``pages``.
        handout: steps of the lead for each worker that it calls, 0 to 100.
        slack: limit of critical steps as a multiple of what the best schedule takes, 1 to 100.
        worlds: worlds in the bank, 1 to 10,000,000.
        bank: number of the bank, below 2^31; another one has other worlds.
        style: "brief" (default): words for a tiny model. "full": sentences for a language model.
    """

    tasks: Annotated[int, Field(ge=1, le=MOST_TASKS)] = 6
    workers: Annotated[int, Field(ge=1, le=16)] = 4
    shape: Literal["independent", "chain", "random"] = "random"
    edges: Annotated[float, Field(ge=0, le=1)] = 0.3
    pages: Annotated[int, Field(ge=1, le=MOST_PAGES)] = 3
    turns: Annotated[int, Field(ge=2, le=1000)] = 6
    handout: Annotated[int, Field(ge=0, le=100)] = 1
    slack: Annotated[float, Field(ge=1, le=100)] = 1.0
    worlds: Annotated[int, Field(ge=1, le=10_000_000)] = 100_000
    bank: Annotated[int, Field(ge=0, lt=BANKS)] = 0
    style: Literal["brief", "full"] = "brief"

    name, counted = "dag_search", "worlds"
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
        """Return whether a seat calls workers, and searches nothing itself."""
        return seat == LEAD

    def start(self, number: int) -> World:
        """Return a world of the bank."""
        return world(self.bank_stream(number), self.tasks, self.pages, self.shape, self.edges)

    def schedule(self, start: World) -> Schedule:
        """Return what waves cost in a world."""
        return Schedule(start.steps, start.needs, self.workers, self.handout)

    def vocabulary(self) -> tuple[str, ...]:
        longest = self.max_turns // self.num_seats
        numbers = map(str, range(max(longest, self.turns, self.tasks, self.workers) + 1))
        return tuple(sorted({*WORDS, *NAMES, *RESULTS, *numbers}))

    def reset(self, stream: Stream) -> Dag:
        found = self.draw_start(stream)
        assert isinstance(found, World)
        return Dag(self, found)


@dataclass(frozen=True, slots=True)
class Call:
    """What a worker was called for, and how far it is.

    Args:
        task: that it works at.
        left: turns.
        told: its conversation since the call.
    """

    task: int
    left: int
    told: tuple[str, ...] = ()


class Dag(PaintedPlay):
    """One play.

    Attributes:
        start: the world.
        schedule: what waves cost in it.
        limit: critical steps after which the play ends.
        done_by: seat that finished each sub-task.
        calls: workers that are at work, by seat.
        waves: of each wave the steps that each of its workers took; 0: it had nothing to do.
        ended: whether all is finished, or no step is left.
        asked: how many sub-tasks each worker was called for, by seat.
        said: what the lead was told and has said, in turn.
        told: the finished sub-tasks, as bits, and the steps left that the lead was told of last.
    """

    def __init__(self, rules: DagSearch, start: World) -> None:
        # all of these are replaced when they change, so that a copy may share them
        self.rules, self.start, self.ended = rules, start, False
        self.schedule = rules.schedule(start)
        self.limit = math.ceil(Fraction(str(rules.slack)) * self.schedule.best().steps)
        self.done_by: dict[int, int] = {}
        self.calls: dict[int, Call] = {}
        self.waves: tuple[tuple[int, ...], ...] = ()
        self.spent: dict[int, int] = {}  # steps of the workers of this wave
        self.asked: dict[int, int] = {}
        self.ends: dict[int, ConversationEnd] = {}  # how the latest call of each worker has ended
        self.lead_steps = 0
        self.said: tuple[str, ...] = (opening_text(self),)
        self.told = 0, self.left

    @property
    def done(self) -> bool:
        return self.ended

    @property
    def finished(self) -> int:
        """The finished sub-tasks, as bits."""
        return sum(1 << task for task in self.done_by)

    @property
    def returns(self) -> tuple[float, ...]:
        """Share of the sub-tasks that are finished, for every seat; 0 before the end."""
        value = len(self.done_by) / self.rules.tasks if self.ended else 0.0
        return (value,) * self.rules.num_seats

    @property
    def critical_steps(self) -> int:
        """The lead's steps, and those of the slowest worker of each wave."""
        return critical_steps(self.lead_steps, (*self.waves, tuple(self.spent.values())))

    @property
    def left(self) -> int:
        """Critical steps that are left."""
        return max(self.limit - self.critical_steps, 0)

    def ready(self) -> list[int]:
        """Return the sub-tasks that can be worked at."""
        return self.schedule.ready(self.finished)

    def closed(self, seat: int) -> ConversationEnd | None:
        """Return how a worker's latest conversation has ended; see ``Closing``."""
        return self.ends.get(seat)

    def parts(self) -> tuple[int, ...]:
        """Return the workers that were called for a sub-task."""
        return tuple(sorted(self.asked))

    def worth(self, seats: Collection[int]) -> float:
        """Return the share of sub-tasks that these workers finished, with all that they need."""
        done: set[int] = set()
        for task, needs in enumerate(self.start.needs):  # a sub-task needs earlier ones alone
            if self.done_by.get(task) in seats and done.issuperset(needs):
                done.add(task)
        return len(done) / self.rules.tasks

    def own_share(self, seat: int) -> float:
        """Return the sub-tasks that a worker finished, over those that it was called for."""
        return self.figures()["found"][seat] / self.asked[seat]

    def due(self) -> tuple[int, ...]:
        if self.ended:
            return ()
        return tuple(sorted(self.calls)) or (LEAD,)

    def legal(self, seat: int) -> tuple[str, ...]:
        """Return what a seat may say; nothing where it is not due."""
        if seat not in self.due():
            return ()
        if seat == LEAD:
            return tuple(f"{CALL} {width}" for width in range(1, self.rules.workers + 1))
        pages = (f"{OPEN} {name}" for name in self.start.names)
        notes = (f"{NOTE} {result}" for result in RESULTS)
        return (*pages, *notes, DONE)

    def observe(self, seat: int) -> Observation:
        """Return what a seat has not been told; a worker's conversation begins at each call."""
        if seat == LEAD:
            told = self.said[-1]
            ask = "" if self.rules.brief else "Reply call N, with a number of workers."
            return Observation(told=told, ask=ask, key=f"lead | {' | '.join(self.said)}", view=told)
        if seat in self.calls:
            return worker_observation(self, seat, self.calls[seat])
        return Observation(told="", key=f"{self.rules.roles[seat]} idle")

    def step(self, replies: Mapping[int, str]) -> None:
        for seat, reply in replies.items():
            if reply not in self.legal(seat):
                raise GameError(f"dag_search: {quoted(reply)} is no action of seat {seat} now.")
        if self.calls:
            self._work(replies)
        else:
            self._call(int(replies[LEAD].split()[1]))
        if self.calls and self.left:
            return
        over = not self.left or len(self.done_by) == self.rules.tasks
        self.ends = {**self.ends, **dict.fromkeys(self.calls, "limit")}
        self.waves, self.ended = (*self.waves, tuple(self.spent.values())), over
        self.calls, self.spent = {}, {}
        self.said, self.told = (*self.said, wave_text(self)), (self.finished, self.left)

    def _call(self, width: int) -> None:
        self.lead_steps += self.schedule.lead(width)
        self.said = (*self.said, f"{CALL} {width}")
        given = enumerate(self.ready()[:width], start=1)
        self.calls = {seat: Call(task, self.rules.turns) for seat, task in given}
        self.ends = {seat: how for seat, how in self.ends.items() if seat not in self.calls}
        self.asked = {**self.asked, **{seat: self.asked.get(seat, 0) + 1 for seat in self.calls}}
        self.spent = dict.fromkeys(range(1, width + 1), 0)

    def _work(self, replies: Mapping[int, str]) -> None:
        self.done_by, self.calls = dict(self.done_by), dict(self.calls)
        self.spent = dict(self.spent)
        for seat, reply in sorted(replies.items()):
            call, (word, *rest) = self.calls[seat], reply.split()
            told = (*call.told, self.observe(seat).told, reply)
            call = replace(call, left=call.left - 1, told=told)
            self.spent[seat] += 1
            self.calls[seat] = call
            if word == NOTE and rest[0] == self.start.results[call.task]:
                self.done_by[call.task] = seat
            if word in (NOTE, DONE) or not call.left:
                self.ends = {**self.ends, seat: "answered" if word in (NOTE, DONE) else "turns"}
                del self.calls[seat]

    def figures(self) -> dict[str, tuple[float, ...]]:
        """Return the figures of a play that is over: of its waves, and of the best schedule."""
        seats, best = self.rules.num_seats, self.schedule.best()
        of_all = {
            **counted(self.lead_steps, self.waves, len(self.done_by), self.rules.workers),
            "success": float(len(self.done_by) == self.rules.tasks),
            "optimal_width": float(best.width),
            "optimal_critical_steps": float(best.steps),
            "serial_critical_steps": float(self.schedule.serial()),
        }
        by = list(self.done_by.values())
        return {
            **{name: (value,) * seats for name, value in of_all.items()},
            "found": tuple(float(by.count(seat)) for seat in range(seats)),
        }

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        start, due = self.start, self.due()
        seats(canvas, self.rules.roles, due if seat is None else tuple({seat} & set(due)))
        if seat is None or self.rules.leads(seat):
            hidden = seat is not None
            done, left = self.told if hidden else (self.finished, self.left)
            ready = self.schedule.ready(done)
            rows = [("sub-task", "turns", "needs", "state", *(() if hidden else ("result",)))]
            for task, needs in enumerate(start.needs):
                state = "finished" if done >> task & 1 else "ready" if task in ready else "waits"
                wants = " ".join(str(other + 1) for other in needs) or "-"
                own = (str(task + 1), str(start.steps[task]), wants, state)
                rows.append((*own, *(() if hidden else (start.results[task],))))
            heading(canvas, "Sub-tasks", f"{left} steps left")
            table(canvas, rows)
        paragraph(canvas, self.described(seat), colour="dim")

    def described(self, seat: int | None) -> str:
        rules = self.rules
        if seat is not None and not rules.leads(seat):
            call = self.calls.get(seat)
            if call is None:
                return f"{rules.roles[seat]} is not at work."
            first = self.start.pages[call.task][0]
            opened = [reply.split()[1] for reply in call.told[1::2]]
            said = f", has opened {', '.join(opened)}" if opened else ""
            return f"{rules.roles[seat]} begins at {first}{said}; {call.left} turns left."
        over = f" Result: {self.returns[0]:.3f}." if self.done and seat is None else ""
        number = (self.finished if seat is None else self.told[0]).bit_count()
        return f"Finished: {number} of {rules.tasks}. Waves so far: {len(self.waves)}.{over}"

    def clone(self) -> Dag:
        twin = object.__new__(Dag)
        twin.__dict__.update(self.__dict__)
        return twin


dag_search = DagSearch
