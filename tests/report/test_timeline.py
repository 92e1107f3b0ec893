"""The timeline of an episode: critical path by hand, waits, picture, and agreement with the environment's steps."""

import dataclasses
import re
from xml.etree import ElementTree

import pytest

from sparring import play_episodes
from sparring.core.errors import RunError
from sparring.core.records import Turn
from sparring.report.sample_plays import ChosenPlay, play_values
from sparring.report.timeline import (
    MAX_MOMENTS,
    summary,
    timeline,
    timeline_lines,
    timeline_of,
    timeline_svg,
    waits_text,
)

ROLES = ("lead", "one", "two")


def turns(*moments):
    return [
        Turn(seat, 0, "x", "", (), "", "go", "ok", {}, moment=moment)
        for moment, seats in enumerate(moments)
        for seat in seats
    ]


def rows(line):
    return [
        text.removeprefix(f"{role:<4}").removeprefix("  ")
        for text, role in zip(timeline_lines(line)[3:], line.roles, strict=False)
    ]


# the lead calls both workers; worker one finishes first; the lead calls worker two again
WAVES = turns([0], [1, 2], [2], [2], [0], [2])


def test_the_critical_path_contains_the_seats_that_others_waited_for():
    line = timeline(ROLES, WAVES)
    assert line.path_seats() == [0, 2, 2, 2, 0, 2]
    assert line.path == (0, 2, 3, 4, 5, 6)
    assert rows(line) == ["#...#", " =", " ###.#"]
    assert (waits_text(line, 0), waits_text(line, 1), waits_text(line, 2)) == ("3 for two", "", "1 for lead")
    assert summary(line) == "7 turns in 6 moments, up to 2 at once. The critical path: 4 of two, 2 of lead."
    line = timeline(ROLES, turns([1], [0, 2], [1]))
    assert line.path_seats() == [1, 0, 1] and waits_text(line, 1) == "1 for lead"
    line = timeline(ROLES, [turn._replace(moment=3 * turn.moment) for turn in turns([0, 0], [1])])
    assert line.moments == ((0, 1), (2,)) and line.path == (1, 2)
    assert timeline(ROLES, turns([0], [1, 2], [1, 2])).path_seats() == [0, 1, 1]
    assert timeline(ROLES, turns([0], [2], [1, 2])).path_seats() == [0, 2, 2]
    assert timeline(ROLES, turns([0], [1], [2], [1, 2])).path_seats() == [0, 1, 2, 2]


def test_episodes_without_turns_or_with_unknown_seats_are_reported():
    line = timeline(ROLES, [])
    assert summary(line) == "0 turns in 0 moments, up to 0 at once. The critical path: nobody."
    ElementTree.fromstring(timeline_svg(line))
    assert timeline_lines(line)
    (episode,) = play_episodes("kuhn_poker", ["random"] * 2, plays=1)
    strange = dataclasses.replace(episode, turns=(*episode.turns, episode.turns[0]._replace(seat=7)))
    with pytest.raises(RunError, match="turns of seat 7, but only 2 seats"):
        timeline_of(strange)
    (pair,) = play_episodes("kuhn_poker", ["random"] * 2, plays=1)
    (single,) = play_episodes("sudoku", ["random"], plays=1)
    assert "Who acts when" in play_values(ChosenPlay(when="Early", step=1, episode=pair), None)["timeline"]
    assert play_values(ChosenPlay(when="Early", step=1, episode=single), None)["timeline"] == ""


@pytest.mark.parametrize("options", ["width=3 quits=0.3", "width=1", "width=4"])
def test_moments_are_the_critical_steps_and_turns_are_all_steps(options):
    for episode in play_episodes("wide_search", [f"searcher {options}"] * 5, plays=3):
        critical, slowest = 0, {}
        for turn in episode.turns:  # the lead's turns, and of each wave those of its slowest worker
            if turn.seat == 0:
                critical, slowest = critical + 1 + max(slowest.values(), default=0), {}
            else:
                slowest[turn.seat] = slowest.get(turn.seat, 0) + 1
        line = timeline_of(episode)
        assert len(line.path) == len(line.moments) == critical + max(slowest.values(), default=0)
        assert line.path_seats().count(0) == sum(turn.seat == 0 for turn in episode.turns)


@pytest.mark.parametrize(
    ("name", "seats", "critical"), [("kuhn_poker", 2, None), ("rock_paper_scissors", 2, 1), ("sealed_auction", 2, 1)]
)
def test_timelines_exist_for_any_environment(name, seats, critical):
    line = timeline_of(play_episodes(name, ["random"] * seats, plays=1)[0])
    assert len(line.moments) == (critical or len(line.seats))


def test_the_picture_marks_the_path_escapes_roles_and_is_limited():
    text = timeline_svg(timeline(ROLES, WAVES), standalone=True)
    bars = re.findall(r"<rect[^>]*>", text)
    assert len(bars) == 7 and sum("stroke=" in bar for bar in bars) == 6
    assert text.count('stroke-dasharray="1 3"') == 3
    assert "lead waited 3 for two." in text and ElementTree.fromstring(text).get("role") == "img"
    assert "background" in text and "background" not in timeline_svg(timeline(ROLES, WAVES))
    text = timeline_svg(timeline(("<script>", "a&b", "two"), WAVES))
    assert "<script" not in text
    ElementTree.fromstring(text)
    line = timeline(ROLES, turns(*[[0], [1]] * MAX_MOMENTS))
    text = timeline_svg(line)
    assert text.count("<rect") == MAX_MOMENTS and f"The first {MAX_MOMENTS} moments are drawn." in text
    assert all(len(row) <= 100 for row in timeline_lines(line))
    assert sum(row.startswith("moments") for row in timeline_lines(line)) == -(-2 * MAX_MOMENTS // 92)
