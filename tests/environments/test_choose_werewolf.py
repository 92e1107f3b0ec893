"""Werewolf among candidates: teams, what is counted, what is private, and who sits there."""

import itertools

import pytest

from sparring.core.rng import Stream
from sparring.environments.base import teams_of
from sparring.environments.catalogue import make_game
from sparring.environments.choose import choose
from sparring.environments.reply import actions_meant
from sparring.environments.werewolf.deduction import STANCE_FIGURES
from sparring.play.players.biased import biased
from sparring.play.players.random import random
from sparring.play.players.werewolf_bot import werewolf_bot
from sparring.play.replay import figures_of
from sparring.play.rollout import play
from sparring.play.spec import EpisodeSpec

ROOT = Stream.from_seed(0)
SMALL = {"players": 3, "say": ["result"], "rounds": 1, "tie": "none", "abstain": False}


def around(options=SMALL, **changes):
    return choose(environment={"name": "werewolf", "options": options}, **changes)


@pytest.mark.parametrize("settings", [{}, {"proposer": "seat"}], ids=str)
def test_a_team_wins_as_in_werewolf_alone(settings):
    rules = around({}, **settings)
    teams, seats = rules.inner.teams, rules.inner.num_seats
    assert teams_of(rules) == teams * (rules.num_seats // seats) and rules.figures == rules.inner.figures
    for seed in range(4):
        course, draws = rules.reset(Stream.from_seed(seed)), Stream.from_seed(seed).child("play")
        alone = course.play.clone()
        for number in itertools.count():
            if course.done:
                break
            replies = {seat: random().choose(course, seat, draws.child(number).child(seat)) for seat in course.due()}
            actions = {
                seat: dict(zip(course.legal(seat), actions_meant(course, seat, course.legal(seat)), strict=True))[reply]
                for seat, reply in replies.items()
            }
            course.step(replies)
            if max(actions) < seats:
                alone.step(actions)
        times = rules.num_seats // seats
        assert alone.done and course.returns == alone.returns * times
        assert course.figures() == {name: values * times for name, values in alone.figures().items()}
        assert [course.ending(seat) for seat in range(seats)] == [alone.ending(seat) for seat in range(seats)]


def test_what_is_counted_and_seen_and_the_next_best():
    game = make_game("choose", options={"environment": {"name": "werewolf", "options": {**SMALL, "deduce": True}}})
    spec = EpisodeSpec(
        game=game,
        episode_id=0,
        group_id=0,
        deal=ROOT.child("deal"),
        stream=ROOT.child("play"),
        seats=("a",) * 3,
        trained=(True,) * 3,
    )
    (episode,) = play([spec], {"a": random()})
    figures = figures_of(game, episode)
    assert set(figures) == {
        "won",
        "survived",
        "right_votes",
        "cut",
        *STANCE_FIGURES,
        "right_roles",
        "right_roles_wolf",
        "right_roles_seer",
        "right_roles_villager",
        "malformed",
    }
    assert figures["won"] == tuple(float(value > 0) for value in episode.returns)
    noted = [turn for turn in episode.turns if turn.note]
    assert len(noted) == 6 and all(turn.legal_actions == () and turn.event == "ok" for turn in noted)
    assert all(turn.reply in ("1", "2", "3") and "1 " in turn.prompt for turn in episode.turns if not turn.note)
    for seed in range(6):
        course, draws = (
            around({"players": 6, "order": "simultaneous"}).reset(Stream.from_seed(seed)),
            Stream.from_seed(seed).child("play"),
        )
        for number in itertools.count():
            if course.done:
                break
            for seat in range(6):
                other = course.clone()
                other.candidates = {
                    other_seat: listed if other_seat == seat else listed[::-1]
                    for other_seat, listed in course.candidates.items()
                }
                other.chosen = {
                    other_seat: figures if other_seat == seat else (("p9",), "p9")
                    for other_seat, figures in course.chosen.items()
                }
                assert other.observe(seat) == course.observe(seat) and other.described(seat) == course.described(seat)
                assert number != 2 or other.draw(seat) == course.draw(seat)
            course.step({seat: random().choose(course, seat, draws.child(number).child(seat)) for seat in course.due()})
    course = around({}, count=2).reset(ROOT)
    course.candidates = {0: ("p2", "p1"), 1: ("claim seer", "silence")}
    agent = biased(weights={"claim seer": 4.0, "p1": 2.0})
    assert agent.chances(course, 0) == pytest.approx({"1": 1 / 3, "2": 2 / 3}) and agent.chances(
        course, 1
    ) == pytest.approx({"1": 0.8, "2": 0.2})
    course = around({}, count=2).reset(ROOT)
    course.play = course.play.rules.begin((0, 1, 2, 3), ROOT)
    course.candidates = {0: ("p2", "p3"), 1: ("p1", "p3")}
    course.step({0: "2", 1: "1"})
    course.candidates = {0: ("claim seer", "accuse p2")}
    assert werewolf_bot().chances(course, 0) == {"2": 1.0}
    assert werewolf_bot(style="silent").chances(course, 0) == {"1": 0.5, "2": 0.5}  # neither is silence
    course.play.step({0: "silence"})
    course.candidates = {1: ("seer p1 good", "accuse p1")}
    assert werewolf_bot().chances(course, 1) == {"2": 1.0}  # of a wolf that it has seen
    for seat in (1, 3):
        course.play.step({seat: "silence"})
    course.candidates = {1: ("p4", "abstain")}
    assert werewolf_bot().chances(course, 1) == {"1": 1.0}
