"""A lead that calls workers for sub-tasks, some of which need others to be finished."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sparring.environments.bank import BANKS
from sparring.environments.dag_search.rules import DagSearch
from sparring.environments.dag_search.world import MOST_PAGES, MOST_TASKS


def dag_search(
    *,
    tasks: Annotated[int, Field(ge=1, le=MOST_TASKS)] = 6,
    workers: Annotated[int, Field(ge=1, le=16)] = 4,
    shape: Literal["independent", "chain", "random"] = "random",
    edges: Annotated[float, Field(ge=0, le=1)] = 0.3,
    pages: Annotated[int, Field(ge=1, le=MOST_PAGES)] = 3,
    turns: Annotated[int, Field(ge=2, le=1000)] = 6,
    handout: Annotated[int, Field(ge=0, le=100)] = 1,
    slack: Annotated[float, Field(ge=1, le=100)] = 1.0,
    worlds: Annotated[int, Field(ge=1, le=10_000_000)] = 100_000,
    bank: Annotated[int, Field(ge=0, lt=BANKS)] = 0,
    style: Literal["brief", "full"] = "brief",
) -> DagSearch:
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
    return DagSearch(
        tasks=tasks,
        workers=workers,
        shape=shape,
        edges=edges,
        pages=pages,
        turns=turns,
        handout=handout,
        slack=slack,
        worlds=worlds,
        bank=bank,
        style=style,
    )
