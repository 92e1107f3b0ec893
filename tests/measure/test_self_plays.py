"""Plays against itself: how many differ, by hand; nonsense makes none different."""

import pytest

from sparring.core.errors import ConfigError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.measure.initial_states import every
from sparring.measure.matches import self_plays
from sparring.play.players.base import TextAgent
from sparring.play.players.random import RandomAgent
from sparring.play.players.searcher import searcher


class Plays(TextAgent):
    def __init__(self, say):
        super().__init__("plays")
        self.say = say

    def choose(self, state, seat, stream):
        return self.say(state.legal_actions(), stream)


def played(say, plays=6, seed=0):
    starts = every(make_game("tic_tac_toe"))
    return self_plays(starts, Plays(say), plays=plays, stream=Stream.from_seed(seed))


def first(legal, stream):
    return legal[0]


def drawn(legal, stream):
    return legal[stream.integer(0, len(legal))]


def test_the_first_action_always_is_one_play_of_seven_replies():
    found = played(first)  # X takes a diagonal with its fourth mark
    assert (found.game, found.starts, found.plays) == ("tic_tac_toe", "all", 6)
    assert (found.distinct, found.commonest, found.turns) == (1, 6, 7.0)
    assert found.illegal.mean == 0.0 and found.illegal.high < 1.0


def test_draws_make_plays_differ_and_a_longer_series_begins_with_the_same():
    assert played(drawn, plays=20).distinct == 20
    opening = [played(lambda legal, stream: drawn(legal[:2], stream), plays=n) for n in (4, 8, 64)]
    assert [found.distinct for found in opening] == sorted(found.distinct for found in opening)
    assert opening[-1].distinct < 64 and opening[-1].commonest > 1
    assert played(drawn, seed=1) == played(drawn, seed=1)


def test_words_that_are_no_action_make_no_play_different():
    found = played(lambda legal, stream: f"zzz{stream.integer(0, 10**6)}")
    assert (found.distinct, found.commonest, found.illegal.mean) == (1, 6, 1.0)


def test_seats_that_move_at_once_are_told_apart():
    starts = every(make_game("rock_paper_scissors"))
    found = self_plays(starts, RandomAgent("random"), plays=200, stream=Stream.from_seed(0))
    assert found.distinct == 9 and found.turns == 2.0


def test_one_play_says_nothing():
    with pytest.raises(ConfigError, match="2 or more of them, got 1; write 64"):
        played(first, plays=1)


def test_returns_by_role_and_what_an_environment_counts():
    found = played(first)
    assert {role: one.mean for role, one in found.returns.items()} == {"X": 1.0, "O": -1.0} and found.figures == {}
    starts = every(make_game("wide_search", options={"items": 4, "workers": 2, "turns": 6, "waves": 1}))
    team = self_plays(starts, searcher(), plays=3, stream=Stream.from_seed(0))
    assert {one.mean for one in team.returns.values()} == {1.0} and [*team.returns] == ["lead", "worker 1", "worker 2"]
    means = {name: one.mean for name, one in team.figures.items()}
    assert means["item_f1"] == 1.0 and means["width"] == 2.0 and means["critical_steps"] == 7.0
    assert means["found"] == pytest.approx(8 / 3) and team.figures["item_f1"].count == 3  # cells a seat, the lead's none among them


def test_plays_that_a_forfeit_ends_count_nothing():
    starts = every(make_game("wide_search", options={"items": 4, "workers": 2}, illegal={"rule": "forfeit"}))
    lost = self_plays(starts, Nonsense("nonsense"), plays=2, stream=Stream.from_seed(0))
    assert lost.figures == {} and lost.illegal.mean == 1.0


class Nonsense(TextAgent):
    def choose(self, state, seat, stream):
        return "zzz"
