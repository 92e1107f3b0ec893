"""Werewolf inside choose: teams, metrics of episodes, private information and scripted players."""

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
SMALL_WEREWOLF = {"players": 3, "say": ["result"], "rounds": 1, "tie": "none", "abstain": False}


def choose_in_werewolf(options=SMALL_WEREWOLF, **changes):
    return choose(environment={"name": "werewolf", "options": options}, **changes)


@pytest.mark.parametrize("choose_options", [{}, {"proposer": "seat"}], ids=str)
def test_results_match_werewolf_without_choose(choose_options):
    rules = choose_in_werewolf({}, **choose_options)
    teams, seats = rules.inner.teams, rules.inner.num_seats
    assert teams_of(rules) == teams * (rules.num_seats // seats) and rules.figures == rules.inner.figures
    for seed in range(4):
        episode, stream = rules.reset(Stream.from_seed(seed)), Stream.from_seed(seed).child("play")
        inner_play = episode.play.clone()
        for moment in itertools.count():
            if episode.done:
                break
            replies = {seat: random().choose(episode, seat, stream.child(moment).child(seat)) for seat in episode.due()}
            actions = {
                seat: dict(zip(episode.legal(seat), actions_meant(episode, seat, episode.legal(seat)), strict=True))[
                    reply
                ]
                for seat, reply in replies.items()
            }
            episode.step(replies)
            if max(actions) < seats:
                inner_play.step(actions)
        num_copies = rules.num_seats // seats
        assert inner_play.done and episode.returns == inner_play.returns * num_copies
        assert episode.figures() == {name: values * num_copies for name, values in inner_play.figures().items()}
        assert [episode.ending(seat) for seat in range(seats)] == [inner_play.ending(seat) for seat in range(seats)]


def test_a_recorded_episode_has_the_figures_and_notes_of_werewolf():
    game = make_game(
        "choose", options={"environment": {"name": "werewolf", "options": {**SMALL_WEREWOLF, "deduce": True}}}
    )
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
    note_turns = [turn for turn in episode.turns if turn.note]
    # 3 seats deduce before their speech and before the vote
    assert len(note_turns) == 6 and all(turn.legal_actions == () and turn.event == "ok" for turn in note_turns)
    assert all(turn.reply in ("1", "2", "3") and "1 " in turn.prompt for turn in episode.turns if not turn.note)


def test_candidates_and_choices_of_other_seats_are_hidden():
    for seed in range(6):
        episode, stream = (
            choose_in_werewolf({"players": 6, "order": "simultaneous"}).reset(Stream.from_seed(seed)),
            Stream.from_seed(seed).child("play"),
        )
        for moment in itertools.count():
            if episode.done:
                break
            for seat in range(6):
                other_episode = episode.clone()
                other_episode.candidates = {
                    other_seat: candidates if other_seat == seat else candidates[::-1]
                    for other_seat, candidates in episode.candidates.items()
                }
                other_episode.choices = {
                    other_seat: choice if other_seat == seat else (("p9",), "p9")
                    for other_seat, choice in episode.choices.items()
                }
                assert other_episode.observe(seat) == episode.observe(seat) and other_episode.described(
                    seat
                ) == episode.described(seat)
                assert moment != 2 or other_episode.draw(seat) == episode.draw(seat)
            episode.step(
                {seat: random().choose(episode, seat, stream.child(moment).child(seat)) for seat in episode.due()}
            )


def test_weights_of_biased_apply_to_the_meaning_of_candidates():
    episode = choose_in_werewolf({}, count=2).reset(ROOT)
    episode.candidates = {0: ("p2", "p1"), 1: ("claim seer", "silence")}
    player = biased(weights={"claim seer": 4.0, "p1": 2.0})
    assert player.chances(episode, 0) == pytest.approx({"1": 1 / 3, "2": 2 / 3}) and player.chances(
        episode, 1
    ) == pytest.approx({"1": 0.8, "2": 0.2})


def test_werewolf_bot_chooses_candidates_by_their_meaning():
    episode = choose_in_werewolf({}, count=2).reset(ROOT)
    episode.play = episode.play.rules.begin((0, 1, 2, 3), ROOT)
    episode.candidates = {0: ("p2", "p3"), 1: ("p1", "p3")}
    episode.step({0: "2", 1: "1"})
    episode.candidates = {0: ("claim seer", "accuse p2")}
    assert werewolf_bot().chances(episode, 0) == {"2": 1.0}
    assert werewolf_bot(style="silent").chances(episode, 0) == {"1": 0.5, "2": 0.5}  # no candidate is silence
    episode.play.step({0: "silence"})
    episode.candidates = {1: ("seer p1 good", "accuse p1")}
    assert werewolf_bot().chances(episode, 1) == {"2": 1.0}  # it has seen that p1 is a wolf
    for seat in (1, 3):
        episode.play.step({seat: "silence"})
    episode.candidates = {1: ("p4", "abstain")}
    assert werewolf_bot().chances(episode, 1) == {"1": 1.0}
