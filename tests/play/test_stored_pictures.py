"""Pictures of stored plays: made again from the record alone, at any turn, for any reader."""

import sys
from dataclasses import replace

import pytest

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, GameError, PluginError, RolloutError, UnknownNameError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.play.episode_pictures import picture, sentences
from sparring.play.players.random import random
from sparring.play.replay import replay
from sparring.play.rollout import play
from sparring.play.spec import EpisodeSpec
from sparring.play.store import EpisodeStore
from sparring.testing import check_svg
from tests.cases import every_case

SECRET = '''"""Environment: two seats are told a number each and say one at once; it has no picture and no copy."""

from sparring.core.records import Observation

SLOT = "environments"


def secret(*, version: int = 1):
    return Secret(version)


class Secret:
    roles, max_turns, min_utility, max_utility = ("left", "right"), 4, 0.0, 1.0

    def __init__(self, version):
        self.version = version

    def reset(self, stream):
        return Play([f"<b>number{stream.integer(seat, 100)}</b>" for seat in (0, 1)])


class Play:
    returns = (0.0, 0.0)

    def __init__(self, numbers):
        self.numbers, self.moments = numbers, 0

    @property
    def done(self):
        return self.moments == 2

    def due(self):
        return () if self.done else (0, 1)

    def legal(self, seat):
        return None

    def sample(self, seat, stream):
        return f"I am seat{seat}"

    def observe(self, seat):
        return Observation(told=self.numbers[seat], key=self.numbers[seat])

    def step(self, replies):
        self.moments += 1
'''


def played(game, seed=0):
    stream = Stream.from_seed(seed)
    seats = ("random",) * game.num_seats
    spec = EpisodeSpec(
        game=game, episode_id=7, group_id=0, deal=stream.child("deal"), stream=stream, seats=seats, trained=(False,) * game.num_seats
    )
    (episode,) = play([spec], {"random": random()}, retries=0)
    return episode


@pytest.fixture
def secret(tmp_path, monkeypatch):
    (tmp_path / "secret.py").write_text(SECRET)
    monkeypatch.syspath_prepend(tmp_path)
    registry.forget()
    yield make_game("secret.secret")
    sys.modules.pop("secret", None)
    registry.forget()


@every_case("name", registry.built_in("environments"))
def test_the_first_a_middle_and_the_last_turn_of_every_environment(name):
    game = make_game(name)
    episode = played(game)
    live, said = replay(game, episode), list(sentences(episode))
    assert len(said) == len(episode.turns) + 1 and said[-1] != said[0]
    for turn in {0, len(episode.turns) // 2, len(episode.turns)}:
        for seat in (None, *range(game.num_seats)):
            drawn = picture(episode, turn, seat, "dark")
            check_svg(drawn.svg)
            assert drawn.said.strip()
            if turn < len(live):
                assert drawn == (live[turn].draw(seat, "dark"), live[turn].described(seat))
        assert picture(episode, turn).said == said[turn]


def test_a_play_from_the_store_has_the_picture_of_the_play(tmp_path):
    episode = played(make_game("repeated", options={"environment": {"name": "kuhn_poker"}}))
    store = EpisodeStore(tmp_path / "episodes")
    store.append(1, [episode])
    ((_, read),) = store.episodes(lambda step: True)
    for turn in range(len(episode.turns) + 1):
        assert picture(read, turn, 1) == picture(episode, turn, 1)


def test_an_environment_without_a_picture_is_a_timeline_of_what_was_told_and_said(secret):
    episode = played(secret)
    numbers = [turn.told[3:-4] for turn in episode.turns[:2]]
    for turn in range(5):
        drawn = [picture(episode, turn, seat) for seat in (None, 0, 1)]
        for one in drawn:
            check_svg(one.svg)
        assert all(number in drawn[0].svg for number in numbers) or turn == 4
        for seat in (0, 1):
            assert numbers[1 - seat] not in drawn[1 + seat].svg + drawn[1 + seat].said
            assert f"I am seat{1 - seat}" not in drawn[1 + seat].svg + drawn[1 + seat].said
    assert "I am seat0" in picture(episode, 1, 0).svg and "I am seat0" not in picture(episode, 0, 0).svg
    assert "&lt;b&gt;number" in picture(episode, 4, 0).svg and "left said last: I am seat0" in picture(episode, 4, 0).said


def test_what_cannot_be_played_again_is_refused_in_a_line(secret, monkeypatch):
    kuhn = played(make_game("kuhn_poker"))
    other = replace(kuhn, environment=replace(kuhn.environment, version=9))
    unnamed = replace(kuhn, environment=None)
    gone = replace(kuhn, environment=replace(kuhn.environment, name="no_such_game"))
    foreign = replace(kuhn, environment=replace(kuhn.environment, name="tic_tac_toe"))
    for episode, error, said in (
        (other, GameError, "has version 1 here, and version 9"),
        (unnamed, RolloutError, "does not say what it was played by"),
        (gone, UnknownNameError, "no_such_game"),
        (foreign, RolloutError, "no game of these rules"),
    ):
        for made in (lambda episode=episode: picture(episode, 1), lambda episode=episode: list(sentences(episode))):
            with pytest.raises(error, match=said) as raised:
                made()
            assert "\n" not in str(raised.value)
    hidden = played(secret)
    monkeypatch.setattr(sys.modules["secret"].Play, "observe", lambda play, seat: 1 / 0)
    with pytest.raises(PluginError, match="ZeroDivisionError"):
        picture(hidden, 0)


@pytest.mark.parametrize(("asked", "said"), [((9,), "no turn 9; write one of 0 to"), ((-1,), "no turn -1"), ((0, 2), "no seat 2; write one of 0 to 1")])
def test_turns_and_seats_that_are_not_there_are_refused(asked, said):
    with pytest.raises(ConfigError, match=said):
        picture(played(make_game("kuhn_poker")), *asked)


def test_replies_that_were_tried_again_do_not_move_the_position():
    game = make_game("kuhn_poker", illegal={"rule": "retry", "retries": 2})
    episode = played(game)
    first = episode.turns[0]
    wrong = first._replace(reply="nonsense", action=None, event="illegal")
    tried = replace(episode, turns=(wrong, *episode.turns))
    assert picture(tried, 1) == picture(tried, 0) == picture(episode, 0)
    assert picture(tried, 2) == picture(episode, 1)
