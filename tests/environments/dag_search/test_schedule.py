"""The best schedule against all schedules: by hand, by brute force over plays, and what it can never be."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.environments.dag_search import (
    RESULTS,
    BestSchedule,
    Dag,
    DagWorld,
    WaveOutcome,
    WaveSchedule,
    dag_search,
)
from sparring.environments.wide_search.world import NAMES


def world_of(steps, needs):
    ends = [sum(count - 1 for count in steps[: number + 1]) for number in range(len(steps))]
    pages = tuple(tuple(NAMES[begin:end]) for begin, end in pairwise((0, *ends)))
    return DagWorld(pages, tuple(RESULTS[number % 8] for number in range(len(steps))), tuple(needs))


def worked(play, width):
    """Return a copy of a play after a wave of so many workers without faults."""
    play = play.clone()
    play.step({0: f"call {width}"})
    while play.calls:
        replies = {}
        for seat, call in play.calls.items():
            pages, at = play.start.pages[call.task], len(call.log) // 2
            replies[seat] = f"open {pages[at]}" if at < len(pages) else f"note {play.start.results[call.task]}"
        play.step(replies)
    return play


def tried(play):
    """Return every play that waves of any width, the useless ones too, can end in."""
    if play.done:
        return [play]
    return [end for width in range(1, play.rules.workers + 1) for end in tried(worked(play, width))]


def new_play(steps, needs, slack=1.0, **options):
    return Dag(
        dag_search(tasks=len(steps), **{"pages": 4, "turns": 6, "slack": slack, **options}), world_of(steps, needs)
    )


def test_schedules_by_hand():
    # Sub-task 3 takes 5 turns and needs 1, of 2 turns; 2 takes 5. Both at first: 1 + 2 + 5, then 1 + 1 + 5.
    # One at first: 1 + 1 + 2, then both others: 1 + 2 + 5.
    schedule = WaveSchedule((2, 5, 5), ((), (), (0,)), 2, 1)
    assert (
        schedule.best() == BestSchedule(12, 2)
        and schedule.best(0b001) == BestSchedule(8, 2)
        and schedule.best(0b011) == BestSchedule(7, 1)
    )
    assert schedule.ready(0) == [0, 1] and schedule.ready(0b001) == [1, 2] and schedule.ready(0b111) == []
    assert schedule.after(0, 12, 1) == WaveOutcome(0b001, 8) and schedule.after(0, 12, 2) == WaveOutcome(0b011, 4)
    # with twelve steps: all, or the two of the first wave
    assert schedule.values(0, 12, (1, 2)) == [1.0, pytest.approx(2 / 3)]
    # the lead's own steps are more than are left
    assert schedule.after(0, 3, 2) == WaveOutcome(0, 0) and schedule.value(0b001, 0) == pytest.approx(1 / 3)
    page = (Path(__file__).parents[3] / "docs" / "teams.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `call (\d)` \| (all|two of three)", page, re.MULTILINE)
    schedule = WaveSchedule((2, 5, 5), ((), (), (0,)), 3, 1)
    worth = {"all": 1.0, "two of three": 2 / 3}
    assert "12 critical steps" in page and [int(width) for width, _ in rows] == [1, 2, 3]
    assert schedule.values(0, 12, (1, 2, 3)) == [pytest.approx(worth[entry]) for _, entry in rows]


@pytest.mark.parametrize(
    ("needs", "handout", "expected"),
    [
        (((), (), (), ()), 1, BestSchedule(1 + 4 + 3, 4)),  # independent: one wave of four
        (((), (0,), (1,), (2,)), 1, BestSchedule(4 * (2 + 3), 1)),  # a chain: four of one
        (((), (0,), (0,), (1, 2)), 0, BestSchedule(3 * (1 + 3), 2)),  # a diamond
    ],
)
def test_shapes_by_hand(needs, handout, expected):
    assert WaveSchedule((3,) * 4, needs, 4, handout).best() == expected


DAGS = st.integers(1, 5).flatmap(
    lambda size: st.tuples(
        st.lists(st.integers(2, 5), min_size=size, max_size=size).map(tuple),
        st.tuples(
            *(st.sets(st.integers(0, task - 1)).map(sorted).map(tuple) if task else st.just(()) for task in range(size))
        ),
    )
)


@settings(max_examples=40, deadline=None)
@given(dag=DAGS, workers=st.integers(1, 3), handout=st.integers(0, 2))
def test_the_best_is_the_best_of_all_plays(dag, workers, handout):
    """Every play with time enough finishes all; the quickest takes what is said, and the narrowest of these is as wide."""
    play = new_play(*dag, slack=100.0, workers=workers, handout=handout)
    ends = tried(play)
    assert all(end.returns[0] == 1.0 for end in ends)
    quickest = min(end.critical_steps for end in ends)
    narrowest = min(max(map(len, end.waves)) for end in ends if end.critical_steps == quickest)
    assert play.schedule.best() == BestSchedule(quickest, narrowest)
    figures = ends[0].figures()
    assert (figures["optimal_critical_steps"][0], figures["optimal_width"][0]) == (quickest, narrowest)


@settings(max_examples=40, deadline=None)
@given(dag=DAGS, workers=st.integers(1, 3), handout=st.integers(0, 2), short=st.integers(0, 6))
def test_values_are_the_best_returns_of_all_plays_that_go_on_so(dag, workers, handout, short):
    play = new_play(*dag, workers=workers, handout=handout)
    play.limit = max(play.limit - short, 1)
    widths = range(1, workers + 1)
    values = play.schedule.values(0, play.steps_left, widths)
    assert values == [max(end.returns[0] for end in tried(worked(play, width))) for width in widths]
    if not short:
        assert max(values) == 1.0
