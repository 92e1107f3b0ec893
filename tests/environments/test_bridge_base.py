"""The base of bridges, with a library that is written here."""

import asyncio
import random
import sys
import time
from typing import ClassVar

import numpy as np
import pytest

from sparring.config.plugins import registry
from sparring.config.plugins.guard import CallWatch
from sparring.core.errors import ConfigError, GameError, HungError, UnknownNameError
from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.bridges.base import BridgeEnvironment, BridgePlay, LibraryError, as_number, library_seed
from sparring.environments.catalogue import game_names, make_game
from sparring.environments.foreign import complete_environment
from sparring.play.players.random import random as random_player
from sparring.play.rollout import rollout
from sparring.play.spec import EpisodeSpec


class Dice:
    """A library that draws from the process-wide generators."""

    def __init__(self):
        self.rolls = [random.randint(1, 6), int(np.random.randint(1, 7))]  # noqa: NPY002

    def roll(self, reply):
        if reply == "crash":
            raise ValueError("the dice fell\noff the table")
        if reply == "exit":
            sys.exit(1)
        if reply == "cancel":
            raise asyncio.CancelledError
        if reply == "swallow":
            try:
                time.sleep(30)
            except Exception:
                return 1
        if reply == "hang":
            while True:
                time.sleep(0.01)
        print("rolling")  # noqa: T201
        self.rolls.append(random.randint(1, 6) + 10 * int(np.random.randint(1, 7)))  # noqa: NPY002
        return {"nan": float("nan"), "text": "3.5", "words": "much", "array": np.array([2.0])}.get(reply, 1)


class DiceRules(BridgeEnvironment):
    name, game_id, roles, num_seats, max_turns = "dice", "Dice-v0", ("one",), 1, 3
    illegal: ClassVar = {"rule": "retry"}

    def __init__(self, recovers=False, call_seconds=5.0):
        self.recovers, self.call_seconds = recovers, call_seconds

    def reset(self, stream):
        return DicePlay(self, library_seed(stream))


class DicePlay(BridgePlay):
    def begin(self):
        self.library = Dice()
        self.first_texts = str(self.library.rolls)

    def due(self):
        return () if self.done else (0,)

    def legal(self, seat):
        return None

    def observe(self, seat):
        self.add_to_knowledge(seat, "")
        return Observation(prompt=str(self.library.rolls), key=self.key(seat))

    def sample(self, seat, stream):
        return "roll"

    def advance(self, replies):
        value = self.library.roll(replies[0])
        self.returns = (self.returns[0] + as_number(value, "dice: the pay"),)
        self.done = len(self.library.rolls) == 5

    def recover(self, replies):
        if not self.rules.recovers:
            return False
        self.replay()
        self.returns = (self.returns[0] - 1.0,)
        return True


def rules(**options):
    return complete_environment("dice", DiceRules(**options))


def first_rolls(play):
    return list(play.library.rolls)


def test_equal_seeds_give_equal_plays_and_plays_do_not_disturb_one_another():
    stream = Stream.from_seed(3)
    alone = rules().reset(stream)
    alone.step({0: "roll"})
    first, other = rules().reset(stream), rules().reset(Stream.from_seed(4))
    other.step({0: "roll"})
    first.step({0: "roll"})
    assert first_rolls(alone) == first_rolls(first) != first_rolls(other)


def test_the_callers_generators_are_unchanged_by_calls_and_by_exceptions():
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    python_state, numpy_draw = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    play = rules().reset(Stream.from_seed(0))
    play.step({0: "roll"})
    with pytest.raises(LibraryError):
        play.step({0: "crash"})
    assert random.getstate() == python_state and np.random.get_state()[1].tolist() == numpy_draw  # noqa: NPY002


def test_a_copy_by_replay_goes_on_in_the_same_way_and_is_independent():
    play = rules().reset(Stream.from_seed(7))
    play.step({0: "roll"})
    copy = play.clone()
    play.step({0: "roll"})
    before = first_rolls(copy)
    assert before == first_rolls(play)[:-1]
    copy.step({0: "roll"})
    assert first_rolls(copy) == first_rolls(play) and copy.returns == play.returns == (2.0,)


def test_an_exception_of_the_library_names_the_environment_and_the_place():
    play = rules().reset(Stream.from_seed(0))
    with pytest.raises(
        LibraryError,
        match=r"dice: step of 'Dice-v0' failed in test_bridge_base.py, line \d+: ValueError: the dice fell off",
    ):
        play.step({0: "crash"})
    for reply, error in (("exit", "SystemExit"), ("cancel", "CancelledError")):
        with pytest.raises(LibraryError, match=error):
            play.step({0: reply})


def test_a_bridge_may_count_an_exception_as_a_reply_of_the_game():
    play = rules(recovers=True).reset(Stream.from_seed(0))
    play.step({0: "roll"})
    rolls = first_rolls(play)
    play.step({0: "crash"})
    assert first_rolls(play) == rolls and play.returns == (0.0,) and not play.done


def test_a_call_that_hangs_is_interrupted():
    play = rules(call_seconds=0.3).reset(Stream.from_seed(0))
    with CallWatch(60), pytest.raises(HungError, match=r"step of Dice-v0, has not returned for 0\.3 seconds"):
        play.step({0: "hang"})


def test_a_library_that_catches_the_end_of_its_time_does_not_go_on():
    play = rules(call_seconds=0.3).reset(Stream.from_seed(0))
    with CallWatch(60), pytest.raises(HungError, match="caught the end of its time"):
        play.step({0: "swallow"})


def test_what_a_library_prints_is_hidden(capsys):
    rules().reset(Stream.from_seed(0)).step({0: "roll"})
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("reply", "value"), [("text", 3.5), ("array", 2.0), ("roll", 1.0)])
def test_payoffs_may_be_numbers_texts_or_arrays(reply, value):
    play = rules().reset(Stream.from_seed(0))
    play.step({0: reply})
    assert play.returns == (value,)


@pytest.mark.parametrize("reply", ["nan", "words"])
def test_a_payoff_that_is_no_number_fails_the_episode(reply):
    play = rules().reset(Stream.from_seed(0))
    with pytest.raises(GameError, match=r"dice: the pay is .* not a finite number"):
        play.step({0: reply})


@pytest.mark.parametrize("reply", ["crash", "nan", "exit"])
def test_a_rollout_counts_failed_episodes_and_loses_no_other(reply):
    game = rules()

    specs = [
        EpisodeSpec(
            game=game,
            seats=("random",),
            episode_id=n,
            group_id=n,
            deal=Stream.from_seed(n),
            stream=Stream.from_seed(100 + n),
            trained=(False,),
        )
        for n in range(4)
    ]
    bad_play = type("BadPlay", (DicePlay,), {"sample": lambda self, seat, stream: reply if self.seed % 2 else "roll"})
    game.reset = lambda stream: bad_play(game, library_seed(stream))
    num_bad = sum(library_seed(spec.deal) % 2 for spec in specs)
    assert 0 < num_bad < 4
    result = rollout(specs, {"random": random_player()}, retries=1)
    assert len(result.counts.dropped_groups) == num_bad and len(result.episodes) == 4 - num_bad
    assert result.counts.retried == num_bad


def test_bridges_are_known_by_name_but_not_in_the_list_of_environments_that_need_nothing():
    bridges = registry.bridges("environments")
    assert bridges == ("dataset", "gymnasium", "pettingzoo", "reasoning_gym", "textarena")
    assert not set(bridges) & set(registry.names("environments")) and set(bridges) < set(game_names())
    assert registry.bridges("rewards") == ()
    with pytest.raises(UnknownNameError, match="'textarena'"):
        make_game("textarna")


@pytest.mark.parametrize("name", ["gymnasium", "pettingzoo", "reasoning_gym", "textarena"])
def test_a_library_that_is_not_installed_is_named_with_its_extra(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=rf"environments '{name}': .*pip install 'sparring\[{name}\]'"):
        make_game(name)
