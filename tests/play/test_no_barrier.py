"""A play goes on as soon as its own replies are there, in whatever order they come."""

import random as chance

import pytest

from sparring.config.plugins.guard import Watch
from sparring.core.errors import HungError, ModelError, PluginError
from sparring.environments.catalogue import make_game
from sparring.models.samplers.base import sample
from sparring.play.episode import Candidates
from sparring.play.players.base import Reply
from sparring.play.players.random import random
from sparring.play.rollout import play
from tests.play.plays import learner, specs


class Late:
    """Answers the turns of one stream when nobody has asked for a while; all others at once."""

    renderer, name = None, "late"

    def __init__(self, late):
        self.inner, self.late, self.log = random(), late, []

    def act(self, turns):
        raise AssertionError("submit is asked in its place")

    def submit(self, turns):
        self.log.append(len(turns))
        replies = self.inner.act(turns)
        return self.coming(replies, [place for place, turn in enumerate(turns) if turn.stream.key in self.late])

    def coming(self, replies, slow):
        yield [(place, reply) for place, reply in enumerate(replies) if place not in slow]
        asked = 0
        while slow and asked < len(self.log):
            asked = len(self.log)
            yield []
        yield [(place, replies[place]) for place in slow]


def test_a_play_does_not_wait_for_the_reply_of_another():
    """The first decision of play 0 is answered last: all others are over by then."""
    game = make_game("tic_tac_toe", illegal={"rule": "random"})
    asked = specs(game, 5, name="late")
    ends = []
    agent = Late({asked[0].stream.child(1).key})
    found = play(asked, {"late": agent}, on_finished=ends.append)
    assert found == play(specs(game, 5, name="late"), {"late": random()})
    assert 4 in ends and ends[-1] == 5  # four had ended while the fifth waited for its first reply
    assert agent.log[0] == 5 and agent.log.count(1) >= 4


def test_what_is_still_asked_is_given_up_when_a_rollout_fails():
    class Patient(Late):
        def coming(self, replies, slow):
            try:
                while True:
                    yield []
            finally:
                self.log.append("given up")

    class Failing(Late):
        def coming(self, replies, slow):
            yield []
            raise ModelError("no reply")

    game, patient = make_game("kuhn_poker"), Patient(set())
    asked = [*specs(game, 1, name="patient"), *specs(game, 1, name="failing")]
    with pytest.raises(ModelError, match="no reply") as raised:
        play(asked, {"patient": patient, "failing": Failing(set())})
    assert patient.log == [1, "given up"], "at once, while the error still holds the rollout"
    assert raised.tb is not None


def test_an_act_of_ones_own_goes_before_a_submit_that_was_there_before():
    class Mine(Late):
        def act(self, turns):
            self.log.append("act")
            return self.inner.act(turns)

    class Again(Mine):
        submit = Late.submit

    specs_of = specs(make_game("kuhn_poker", illegal={"rule": "random"}), 3, name="late")
    for agent, by_act in ((Mine(set()), True), (Again(set()), False)):
        play(specs_of, {"late": agent})
        assert ("act" in agent.log) is by_act
    changed = Late(set())
    changed.act = random().act
    play(specs_of, {"late": changed})
    assert changed.log == []


class Scattered:
    """A sampler that finishes replies one at a time, out of order, with pauses in which nothing is there."""

    def __init__(self, inner, seed):
        self.inner, self.order = inner, chance.Random(seed)

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def submit(self, requests, params, stop_ids):
        results = sample(self.inner, requests, params, stop_ids)
        return self.coming(results)

    def coming(self, results):
        places = list(range(len(results)))
        self.order.shuffle(places)
        for place in places:
            if self.order.random() < 0.4:
                yield []
            yield [(place, results[place])]


def by_length(episodes):
    return [[float(len(turn.reply)) for turn in episode.turns] for episode in episodes]


@pytest.mark.parametrize("candidates", [None, Candidates(3, by_length)])
@pytest.mark.parametrize("seed", range(3))
def test_a_sampler_that_is_slow_and_disordered_gives_the_same_plays(seed, candidates, monkeypatch):
    game = make_game("tic_tac_toe", illegal={"rule": "random"})
    player, _ = learner(game)
    expected = play(specs(game, 8), {"learner": player}, candidates=candidates)
    player.sampler = Scattered(learner(game)[0].sampler, seed)
    assert play(specs(game, 8), {"learner": player}, in_flight=5, candidates=candidates) == expected


def test_a_player_that_gives_no_reply_is_an_error_that_says_so():
    class Silent(Late):
        def coming(self, replies, slow):
            while True:
                yield []

    with Watch(0.3), pytest.raises(HungError, match=r"'late'.* has given no reply for 0.3 seconds"):
        play(specs(make_game("kuhn_poker"), 2, name="late"), {"late": Silent(set())})


@pytest.mark.parametrize(
    ("coming", "said"),
    [
        (lambda count: iter(()), "gave no reply to turn 0"),
        (lambda count: iter([[(0, Reply("bet"))] * 2]), "for place 0"),
        (lambda count: iter([[(count, Reply("bet"))]]), f"for place {2}"),
        (lambda count: iter([[(0, "bet")]]), "gave str for place 0"),
        (lambda count: 1 / 0, "ZeroDivisionError"),
        (lambda count: (1 / 0 for _ in range(3)), "ZeroDivisionError"),
    ],
)
def test_what_submit_gives_wrongly_is_named(coming, said):
    class Wrong(Late):
        def submit(self, turns):
            return coming(len(turns))

    with pytest.raises(PluginError, match=said):
        play(specs(make_game("kuhn_poker"), 2, name="late"), {"late": Wrong(set())})


def test_a_sampler_that_forgets_a_request_is_named():
    player, _ = learner(make_game("kuhn_poker"))

    class Forgets(Scattered):
        def coming(self, results):
            yield [(0, results[0])]

    player.sampler = Forgets(player.sampler, 0)
    with pytest.raises(ModelError, match="Forgets gave no reply for request 1 of 4"):
        play(specs(make_game("kuhn_poker"), 4), {"learner": player})
