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


def turns(*seats_of_moments):
    return [
        Turn(seat, 0, "x", "", (), "", "go", "ok", {}, moment=moment)
        for moment, seats in enumerate(seats_of_moments)
        for seat in seats
    ]


def seat_rows(episode_timeline):
    return [
        text.removeprefix(f"{role:<4}").removeprefix("  ")
        for text, role in zip(timeline_lines(episode_timeline)[3:], episode_timeline.roles, strict=False)
    ]


# the lead calls both workers; worker one finishes first; the lead calls worker two again
TURNS_IN_WAVES = turns([0], [1, 2], [2], [2], [0], [2])


def test_the_critical_path_contains_the_seats_that_others_waited_for():
    episode_timeline = timeline(ROLES, TURNS_IN_WAVES)
    assert episode_timeline.path_seats() == [0, 2, 2, 2, 0, 2]
    assert episode_timeline.path == (0, 2, 3, 4, 5, 6)
    assert seat_rows(episode_timeline) == ["#...#", " =", " ###.#"]
    assert (waits_text(episode_timeline, 0), waits_text(episode_timeline, 1), waits_text(episode_timeline, 2)) == (
        "3 for two",
        "",
        "1 for lead",
    )
    assert summary(episode_timeline) == "7 turns in 6 moments, up to 2 at once. The critical path: 4 of two, 2 of lead."
    episode_timeline = timeline(ROLES, turns([1], [0, 2], [1]))
    assert episode_timeline.path_seats() == [1, 0, 1] and waits_text(episode_timeline, 1) == "1 for lead"
    episode_timeline = timeline(ROLES, [turn._replace(moment=3 * turn.moment) for turn in turns([0, 0], [1])])
    assert episode_timeline.moments == ((0, 1), (2,)) and episode_timeline.path == (1, 2)
    assert timeline(ROLES, turns([0], [1, 2], [1, 2])).path_seats() == [0, 1, 1]
    assert timeline(ROLES, turns([0], [2], [1, 2])).path_seats() == [0, 2, 2]
    assert timeline(ROLES, turns([0], [1], [2], [1, 2])).path_seats() == [0, 1, 2, 2]


def test_episodes_without_turns_or_with_unknown_seats_are_reported():
    episode_timeline = timeline(ROLES, [])
    assert summary(episode_timeline) == "0 turns in 0 moments, up to 0 at once. The critical path: nobody."
    ElementTree.fromstring(timeline_svg(episode_timeline))
    assert timeline_lines(episode_timeline)
    (episode,) = play_episodes("kuhn_poker", ["random"] * 2, plays=1)
    episode_with_seat_7 = dataclasses.replace(episode, turns=(*episode.turns, episode.turns[0]._replace(seat=7)))
    with pytest.raises(RunError, match="turns of seat 7, but only 2 seats"):
        timeline_of(episode_with_seat_7)
    (two_seat_episode,) = play_episodes("kuhn_poker", ["random"] * 2, plays=1)
    (one_seat_episode,) = play_episodes("sudoku", ["random"], plays=1)
    assert "Who acts when" in play_values(ChosenPlay(when="Early", step=1, episode=two_seat_episode), None)["timeline"]
    assert play_values(ChosenPlay(when="Early", step=1, episode=one_seat_episode), None)["timeline"] == ""


@pytest.mark.parametrize("options", ["width=3 quits=0.3", "width=1", "width=4"])
def test_moments_are_the_critical_steps_and_turns_are_all_steps(options):
    for episode in play_episodes("wide_search", [f"searcher {options}"] * 5, plays=3):
        num_critical, turns_of_worker = 0, {}
        for turn in episode.turns:  # critical: the lead's turns, and the turns of the slowest worker in each wave
            if turn.seat == 0:
                num_critical, turns_of_worker = num_critical + 1 + max(turns_of_worker.values(), default=0), {}
            else:
                turns_of_worker[turn.seat] = turns_of_worker.get(turn.seat, 0) + 1
        episode_timeline = timeline_of(episode)
        assert (
            len(episode_timeline.path)
            == len(episode_timeline.moments)
            == num_critical + max(turns_of_worker.values(), default=0)
        )
        assert episode_timeline.path_seats().count(0) == sum(turn.seat == 0 for turn in episode.turns)


@pytest.mark.parametrize(
    ("name", "seats", "num_moments"), [("kuhn_poker", 2, None), ("rock_paper_scissors", 2, 1), ("sealed_auction", 2, 1)]
)
def test_timelines_exist_for_any_environment(name, seats, num_moments):
    episode_timeline = timeline_of(play_episodes(name, ["random"] * seats, plays=1)[0])
    assert len(episode_timeline.moments) == (num_moments or len(episode_timeline.seats))


def test_the_picture_marks_the_path_escapes_roles_and_is_limited():
    picture = timeline_svg(timeline(ROLES, TURNS_IN_WAVES), standalone=True)
    bars = re.findall(r"<rect[^>]*>", picture)
    assert len(bars) == 7 and sum("stroke=" in bar for bar in bars) == 6
    assert picture.count('stroke-dasharray="1 3"') == 3
    assert "lead waited 3 for two." in picture and ElementTree.fromstring(picture).get("role") == "img"
    assert "background" in picture and "background" not in timeline_svg(timeline(ROLES, TURNS_IN_WAVES))
    picture = timeline_svg(timeline(("<script>", "a&b", "two"), TURNS_IN_WAVES))
    assert "<script" not in picture
    ElementTree.fromstring(picture)
    episode_timeline = timeline(ROLES, turns(*[[0], [1]] * MAX_MOMENTS))
    picture = timeline_svg(episode_timeline)
    assert picture.count("<rect") == MAX_MOMENTS and f"The first {MAX_MOMENTS} moments are drawn." in picture
    assert all(len(row) <= 100 for row in timeline_lines(episode_timeline))
    assert sum(row.startswith("moments") for row in timeline_lines(episode_timeline)) == -(-2 * MAX_MOMENTS // 92)
