"""Stances in speeches and the votes that agree with them: by hand and for random speeches."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.core.rng import Stream
from sparring.environments.base import random_reply
from sparring.environments.werewolf import werewolf
from sparring.environments.werewolf.deduction import STANCE_FIGURES, stance_of
from sparring.environments.werewolf.rules import WerewolfEvent
from sparring.play.players.werewolf_bot import werewolf_bot

STREAM = Stream.from_seed(0)


@pytest.mark.parametrize(
    ("speech", "expected"),
    [
        ("accuse p2", (1, True)),
        ("seer p3 wolf", (2, True)),
        ("seer p3 good", (2, False)),
        ("support p9", (8, False)),
        ("I don't think that p2 is a wolf.", (1, False)),
        ("claim seer", None),
        ("silence", None),
        ("Good morning.", None),
    ],
)
def test_stances_of_speeches(speech, expected):
    assert stance_of(WerewolfEvent("say", 0, word=speech)) == expected


def figures_of_day(speeches, votes, **options):
    """Return the figures of one day without a death: wolf p1, seer p2, doctor p3, villagers p4 and p5."""
    play = werewolf(players=5, doctor=True, tie="none", rounds=1, **options).begin((0, 1, 2, 3, 4), STREAM)
    play.step({0: "p5", 1: "p1", 2: "p5"})
    while play.position.phase == "speak":
        play.step({seat: "" if play.position.is_deducing else speeches[seat] for seat in play.due()})
    while not play.done:
        play.step({seat: "" if play.position.is_deducing else votes[seat] for seat in play.due()})
    return {name: pytest.approx(play.figures()[name], nan_ok=True) for name in STANCE_FIGURES}


@pytest.mark.parametrize("options", [{}, {"deduce": True}, {"order": "simultaneous"}])
def test_figures_by_hand(options):
    speeches = ["accuse p2", "seer p1 wolf", "support p1", "silence", "accuse p4"]
    votes = ["p2", "p1", "p4", "p4", "abstain"]
    figures = figures_of_day(speeches, votes, **options)
    nan = math.nan
    assert (1.0, 1.0, 0.0, nan, 0.0) == figures["right_stances"]
    assert (1.0, 1.0, nan, nan, 0.0) == figures["votes_as_said"]  # p5 abstained; p4 stated nothing
    # of p2's team, p3 and p4 voted for another player and p5 for nobody; the wolf has no team
    assert (nan, 0.0, 0.5, 0.5, nan) == figures["votes_with_team"]


def test_figures_of_contrary_votes_and_unknown_players():
    figures = figures_of_day(
        ["support p2", "support p3", "accuse p2", "support p1", "accuse p1"], ["p2", "p3", "p1", "p1", "p1"]
    )
    assert figures["right_stances"] == (0.0, 1.0, 0.0, 0.0, 1.0)
    assert (math.nan, math.nan, 0.0, math.nan, 1.0) == figures["votes_as_said"]
    assert (math.nan, 0.0, 2 / 3, 2 / 3, 2 / 3) == figures["votes_with_team"]
    speeches = [
        "I am the seer and p9 is a werewolf.",
        "I think that p1 is a werewolf. So is p7.",
        "We should vote for p6 today.",
        "I trust p8.",
        "",
    ]
    figures = figures_of_day(speeches, ["p2", "p1", "p1", "p1", "p1"], speech="text", style="full")
    for name in ("right_stances", "votes_as_said"):
        assert (math.nan, 1.0, math.nan, math.nan, math.nan) == figures[name]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    options=st.sampled_from(
        [
            {"players": 7},
            {"players": 6, "deduce": True},
            {"players": 9, "wolves": 3, "order": "simultaneous"},
            {"players": 5, "speech": "text", "style": "full"},
            {"players": 7, "speech": "text", "style": "full", "wolves_talk": True},
        ]
    ),
)
def test_figures_are_shares_for_random_episodes(seed, options):
    play, stream = werewolf(**options).reset(Stream.from_seed(seed)), Stream.from_seed(seed).child("draws")
    moment = 0
    while not play.done:
        moment += 1
        replies = {
            seat: random_reply(play, seat, play.legal(seat), stream.child(moment).child(seat)) for seat in play.due()
        }
        # speeches may name players that do not exist
        if play.position.is_speaking and play.legal(play.due()[0]) is None:
            replies = {seat: text.replace("p2", "p9").replace("p3", "p6") for seat, text in replies.items()}
        assert all(
            play.gist(seat).key and werewolf_bot().chances(play, seat)
            for seat in play.due()
            if not play.position.is_deducing
        )
        play.step(replies)
    figures = play.figures()
    assert set(STANCE_FIGURES) <= set(play.rules.figures) and set(figures) == set(play.rules.figures)
    for name in STANCE_FIGURES:
        assert all(math.isnan(value) or 0 <= value <= 1 for value in figures[name]) and len(figures[name]) == len(
            play.rules.roles
        )
