"""The best schedule by hand and against brute force over all episodes."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.environments.dag_search import (
    RESULTS,
    BestSchedule,
    DagPlay,
    DagWorld,
    WaveOutcome,
    WaveSchedule,
    dag_search,
)
from sparring.environments.wide_search.world import NAMES


def make_world(steps, needs):
    page_ends = [sum(count - 1 for count in steps[: number + 1]) for number in range(len(steps))]
    pages = tuple(tuple(NAMES[start:end]) for start, end in pairwise((0, *page_ends)))
    return DagWorld(pages, tuple(RESULTS[number % 8] for number in range(len(steps))), tuple(needs))


def run_wave(play, width):
    """Return a copy of a play after a wave of ``width`` workers that make no mistakes."""
    play = play.clone()
    play.step({0: f"call {width}"})
    while play.calls:
        replies = {}
        for seat, call in play.calls.items():
            pages, num_opened = play.start.pages[call.task], len(call.log) // 2
            replies[seat] = (
                f"open {pages[num_opened]}" if num_opened < len(pages) else f"note {play.start.results[call.task]}"
            )
        play.step(replies)
    return play


def final_plays(play):
    """Return the final play of every sequence of wave widths."""
    if play.done:
        return [play]
    return [
        final_play for width in range(1, play.rules.workers + 1) for final_play in final_plays(run_wave(play, width))
    ]


def new_episode(steps, needs, slack=1.0, **options):
    return DagPlay(
        dag_search(tasks=len(steps), **{"pages": 4, "turns": 6, "slack": slack, **options}), make_world(steps, needs)
    )


def test_schedules_by_hand():
    # Sub-tasks 1, 2, 3 take 2, 5, 5 turns; 3 needs 1. Waves of 2 and 1 workers: (1 + 2 + 5) + (1 + 1 + 5) = 15.
    # Waves of 1 and 2 workers: (1 + 1 + 2) + (1 + 2 + 5) = 12.
    schedule = WaveSchedule((2, 5, 5), ((), (), (0,)), 2, 1)
    assert (
        schedule.best() == BestSchedule(12, 2)
        and schedule.best(0b001) == BestSchedule(8, 2)
        and schedule.best(0b011) == BestSchedule(7, 1)
    )
    assert (
        schedule.ready_tasks(0) == [0, 1]
        and schedule.ready_tasks(0b001) == [1, 2]
        and schedule.ready_tasks(0b111) == []
    )
    assert schedule.after(0, 12, 1) == WaveOutcome(0b001, 8) and schedule.after(0, 12, 2) == WaveOutcome(0b011, 4)
    # with 12 steps: all 3 sub-tasks, or only the 2 of the first wave
    assert schedule.values(0, 12, (1, 2)) == [1.0, pytest.approx(2 / 3)]
    # the 3 steps of the lead use up the remaining steps
    assert schedule.after(0, 3, 2) == WaveOutcome(0, 0) and schedule.value(0b001, 0) == pytest.approx(1 / 3)
    docs_page = (Path(__file__).parents[3] / "docs" / "teams.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `call (\d)` \| (all|two of three)", docs_page, re.MULTILINE)
    schedule = WaveSchedule((2, 5, 5), ((), (), (0,)), 3, 1)
    share_finished = {"all": 1.0, "two of three": 2 / 3}
    assert "12 critical steps" in docs_page and [int(width) for width, _ in rows] == [1, 2, 3]
    assert schedule.values(0, 12, (1, 2, 3)) == [pytest.approx(share_finished[finished]) for _, finished in rows]


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
def test_best_schedule_matches_brute_force(dag, workers, handout):
    """Every episode has enough steps; the best schedule is the narrowest of the quickest ones."""
    play = new_episode(*dag, slack=100.0, workers=workers, handout=handout)
    finished_plays = final_plays(play)
    assert all(final_play.returns[0] == 1.0 for final_play in finished_plays)
    quickest = min(final_play.critical_steps for final_play in finished_plays)
    narrowest = min(
        max(map(len, final_play.waves)) for final_play in finished_plays if final_play.critical_steps == quickest
    )
    assert play.schedule.best() == BestSchedule(quickest, narrowest)
    figures = finished_plays[0].figures()
    assert (figures["optimal_critical_steps"][0], figures["optimal_width"][0]) == (quickest, narrowest)


@settings(max_examples=40, deadline=None)
@given(dag=DAGS, workers=st.integers(1, 3), handout=st.integers(0, 2), missing_steps=st.integers(0, 6))
def test_values_match_brute_force(dag, workers, handout, missing_steps):
    play = new_episode(*dag, workers=workers, handout=handout)
    play.limit = max(play.limit - missing_steps, 1)
    widths = range(1, workers + 1)
    values = play.schedule.values(0, play.steps_left, widths)
    assert values == [
        max(final_play.returns[0] for final_play in final_plays(run_wave(play, width))) for width in widths
    ]
    if not missing_steps:
        assert max(values) == 1.0
