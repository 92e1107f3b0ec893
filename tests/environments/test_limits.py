"""Every call into an environment has a limit in time; what it gives wrongly is named; what it raises is an error of one line."""

import itertools
import time

import pytest

import sparring
from sparring.cli.verbs import Verbs
from sparring.config.plugins import guard
from sparring.config.plugins.guard import CallWatch, PluginCall
from sparring.core.errors import ConfigError, GameError, HungError, PluginError, RolloutError
from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.engine.exported_policy import first_prompt
from sparring.environments import catalogue
from sparring.environments.bank import Bank
from sparring.environments.base import IllegalRule, random_reply
from sparring.environments.catalogue import another_bank, make_game
from sparring.environments.foreign import complete_environment, environment_call, words_of
from sparring.measure.info_states import enumerate_info_states, estimate_histories
from sparring.measure.initial_states import Starts, _start
from sparring.methods.rewards.base import outcome_gap
from sparring.play.players.base import TextAgent
from sparring.play.players.random import random
from sparring.play.replay import replay
from sparring.play.rollout import play, rollout
from sparring.play.spec import EpisodeSpec
from sparring.testing import check_environment

WORDS = ("left", "right")


class FaultyEnvironment(Bank):
    """An environment with a bank, of which one part may be at fault."""

    roles, min_utility, max_utility, brief, max_turns, counted, starts_, bank = (
        ("one",),
        -1.0,
        1.0,
        True,
        2,
        "starts_",
        3,
        0,
    )
    name = "faulty"

    def __init__(self, **parts):
        self.parts, self.illegal = parts, IllegalRule()

    def _or(self, part, otherwise):
        return self.parts[part]() if part in self.parts else otherwise

    def start(self, number):
        return self._or("start", number)

    def start_of(self, play):
        return self._or("start_of", play.start)

    def other_bank(self):
        return self._or("other_bank", {})

    def vocabulary(self):
        return self._or("vocabulary", WORDS)

    def stake(self, play, seat):
        return self._or("stake", 1.0)

    def reset(self, stream):
        return self._or("reset", Course(self))


class Course:
    start = 0

    def __init__(self, rules):
        self.rules, self.taken = rules, 0

    done = property(lambda self: self.taken == 2)
    # asked for before each moment too: at fault at the end alone
    returns = property(lambda self: self.rules._or("last returns", (1.0,)) if self.done else (0.0,))

    def due(self):
        return self.rules._or("due", () if self.done else (0,))

    def observe(self, seat):
        return self.rules._or("observe", Observation(prompt="say", key="k"))

    def legal(self, seat):
        return self.rules._or("legal", WORDS)

    def clone(self):
        return self.rules._or("clone", self)

    def sample(self, seat, stream):
        return self.rules._or("sample", "left")

    def step(self, replies):
        self.taken += 1
        self.rules._or("step", None)


def hang():
    for _ in range(1500):  # not for ever: without a limit a test is to fail
        time.sleep(0.01)


def fail():
    raise ZeroDivisionError("broken")


def faulty(**parts):
    return complete_environment("faulty", FaultyEnvironment(**parts))


def spec(game, **fields):
    root = Stream.from_seed(0)
    return EpisodeSpec(
        **{
            "game": game,
            "episode_id": 0,
            "group_id": 0,
            "deal": root,
            "stream": root,
            "seats": ("a",),
            "trained": (True,),
            **fields,
        }
    )


def mended(game):
    return play([spec(faulty())], {"a": random()})[0]


class PromptEngine:
    context = None

    class renderer:
        initial = staticmethod(tuple)

    class model:
        class tokenizer:
            decode = staticmethod(lambda ids, **_: "".join(ids))


SELDOM = {  # (who asks, the part at fault): the question
    "the vocabulary": ("vocabulary", words_of),
    "the start of a deal": ("reset", lambda game: _start(game, Stream(1))),
    "what tells starts apart": (
        "start_of",
        lambda game: Starts(label="unseen", game=game, is_seen=False).deal(Stream(1), 0),
    ),
    "the other bank": ("other_bank", another_bank),
    "a play again": ("reset", lambda game: replay(game, mended(game))),
    "its moments": ("due", lambda game: replay(game, mended(game))),
    "its lists": ("legal", lambda game: replay(game, mended(game))),
    "its copies": ("clone", lambda game: replay(game, mended(game))),
    "its steps": ("step", lambda game: replay(game, mended(game))),
    "the first prompt": ("observe", lambda game: first_prompt(PromptEngine, game, [0])),
    "what a forfeit pays": ("reset", outcome_gap),
    "the public check": ("step", lambda game: check_environment(lambda: game)),
    "the public check of starts": ("reset", lambda game: check_environment(lambda: game)),
}


@pytest.mark.parametrize("question", SELDOM)
def test_what_hangs_is_interrupted_and_what_raises_is_named(question, monkeypatch):
    part, ask = SELDOM[question]
    monkeypatch.setattr(guard, "LIMIT", 0.4)
    monkeypatch.setattr(CallWatch.__init__, "__defaults__", (0.4,))
    with (
        CallWatch(0.4),
        pytest.raises(HungError, match=r"has not come back for 0.4 seconds, the limit of call_seconds") as caught,
    ):
        ask(faulty(**{part: hang}))
    assert "environment" in str(caught.value)
    with pytest.raises(
        PluginError, match=r"environment .* failed in test_limits.py, line \d+: ZeroDivisionError: broken"
    ):
        ask(faulty(**{part: fail}))
    assert guard._calls == []
    ask(faulty()) if part != "other_bank" else None


@pytest.mark.parametrize("what", ["time.sleep(60)", "1 // 0"])
def test_an_environment_that_does_not_get_made(what, monkeypatch, tmp_path):
    name = f"limits_{len(what)}"
    (tmp_path / f"{name}.py").write_text(
        f'"""None."""\n\nimport time\n\nSLOT = "environments"\n\n\ndef {name}():\n    """None."""\n    {what}\n'
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with (
        CallWatch(0.4),
        pytest.raises(HungError if "sleep" in what else PluginError, match=f"environment '{name}.{name}'"),
    ):
        make_game(f"{name}.{name}")


def test_a_game_of_openspiel_that_does_not_get_made(monkeypatch):
    monkeypatch.setattr(catalogue, "openspiel_game", lambda *_: fail())
    with pytest.raises(PluginError, match="environment 'pig'"):
        make_game("pig")


def test_a_walk_of_all_histories_has_the_limit_for_each_of_them(monkeypatch):
    game = make_game("kuhn_poker")
    first, calls = game.state_of, itertools.count()
    monkeypatch.setattr(
        type(game), "state_of", lambda self, node: (time.sleep(0.03) if next(calls) < 60 else hang(), first(node))[1]
    )
    began = time.monotonic()
    # 24 decisions of 0.03 seconds each: longer than the limit together, and none of them alone
    with CallWatch(0.4):
        assert len(enumerate_info_states(game, limit=100).queries) == 12
        assert time.monotonic() - began > 0.7
        with pytest.raises(HungError, match="environment 'kuhn_poker'"):
            [enumerate_info_states(game, limit=100) for _ in range(3)]


def test_an_estimate_of_histories_is_watched(monkeypatch):
    game = make_game("kuhn_poker")
    monkeypatch.setattr(type(game), "first_node", lambda self: hang())
    with CallWatch(0.4), pytest.raises(HungError, match="environment 'kuhn_poker'"):
        estimate_histories(game)


def test_the_returns_at_the_end_have_the_limit_too():
    games = [faulty(**{"last returns": hang}), faulty()]
    with CallWatch(0.4):
        episodes, counts = rollout(
            [spec(game, group_id=number, episode_id=number) for number, game in enumerate(games)], {"a": random()}
        )
    assert counts.dropped_groups == {0} and counts.retried == 0 and [episode.group_id for episode in episodes] == [1]


@pytest.mark.parametrize("answer", [None, 5, "left", (1, 2), ("left", None), {"left"}])
def test_words_that_are_none_are_named(answer):
    with pytest.raises(GameError, match=r"faulty: vocabulary\(\) gave"):
        words_of(faulty(vocabulary=lambda: answer))
    assert words_of(faulty()) == WORDS


@pytest.mark.parametrize("answer", [None, 5, ["left"], b"left"])
def test_a_reply_at_random_that_is_no_text_is_named(answer):
    game = faulty(legal=lambda: None, sample=lambda: answer)
    with pytest.raises(GameError, match=r"Course in .*test_limits: sample\(0\) gave"):
        play([spec(game)], {"a": random()}, retries=0)
    assert random_reply(faulty().reset(Stream(0)), 0, None, Stream(0)) == "left"


@pytest.mark.parametrize("part", ["legal", "sample"])
def test_what_a_bot_asks_has_the_limit_and_what_it_raises_costs_the_group_alone(part, caplog):
    parts = {"legal": lambda: None}
    calls = itertools.count()
    for fault in (hang, fail):
        parts[part] = fault if part == "sample" else lambda fault=fault: fault() if next(calls) % 2 else None
        games = [faulty(**parts), faulty()]
        specs = [spec(game, group_id=number, episode_id=number) for number, game in enumerate(games)]
        with CallWatch(0.4):
            if fault is hang:
                with pytest.raises(HungError, match=r"player 'a'"):
                    play(specs, {"a": random()}, retries=0)
                continue
            episodes, counts = rollout(specs, {"a": random()}, retries=1)
        assert (
            counts.dropped_groups == {0} and counts.retried == 1 and [episode.group_id for episode in episodes] == [1]
        )
        assert "Game faulty of episode 0 failed" in caplog.text


def test_what_an_environment_or_a_bot_lacks_is_named():
    class BrokenPlayer(TextAgent):
        def choose(self, state, seat, stream):
            state.legal(seat)
            raise RuntimeError("mine")

    with pytest.raises(PluginError, match=r"player 'a' .*failed in test_limits\.py.*mine"):
        play([spec(faulty())], {"a": BrokenPlayer("a")}, retries=0)

    class BareEnvironment:
        roles, max_turns, num_seats, name = ("one",), 2, 1, "bare"

    BareEnvironment.__module__ = "sparring.environments.bare"
    with pytest.raises(GameError, match="lacks 'vocabulary', which is needed here"):
        words_of(BareEnvironment())
    assert guard._calls == []
    with pytest.raises(ConfigError, match="players"):
        make_game("kuhn_poker", options={"players": 99})


@pytest.mark.parametrize("answer", [[1], {}])
def test_starts_that_cannot_be_told_apart_are_an_error(answer):
    with pytest.raises(PluginError, match=r"environment 'faulty' .* unhashable"):
        _start(faulty(start_of=lambda: answer), Stream(1))
    assert _start(faulty(start_of=lambda: (1,)), Stream(1)) == (1,)


def test_a_part_that_is_asked_often_begins_its_time_anew():
    with CallWatch(0.4), environment_call(faulty()) as call:
        for number in range(6):
            call.now = number
            time.sleep(0.15)


def test_an_inner_watch_keeps_its_last_resort(monkeypatch):
    """The outer watch must not put the inner one's alarm off: it alone ends a call that holds Python's lock."""
    armed = []
    monkeypatch.setattr(guard.faulthandler, "dump_traceback_later", lambda *_, **__: armed.append(True))
    monkeypatch.setattr(guard.faulthandler, "cancel_dump_traceback_later", lambda: armed.append(False))
    monkeypatch.setattr(guard, "TICK", 0.1)
    with CallWatch(30), CallWatch(30), PluginCall("game 'x'"):
        time.sleep(0.9)
        assert armed[-1] and sum(armed) >= 2 and len(armed) <= 20


def test_every_verb_is_watched(monkeypatch):
    seen = []
    monkeypatch.setattr("typer.core.TyperGroup.invoke", lambda self, ctx: seen.append(list(guard._watches)))
    Verbs(name="sparring").invoke(None)
    assert len(seen) == 1 and len(seen[0]) == 1 and guard._watches == []


def test_the_public_functions_are_watched(monkeypatch):
    monkeypatch.setattr(CallWatch.__init__, "__defaults__", (0.4,))
    monkeypatch.setattr(catalogue, "openspiel_game", lambda *_: hang())
    for ask in (lambda: sparring.make_environment("pig"), lambda: sparring.play_episodes("pig", ["random"] * 2)):
        with pytest.raises(HungError, match="environment 'pig'"):
            ask()
    with pytest.raises(HungError):
        check_environment(lambda: faulty(step=hang))


def test_a_wrong_answer_of_the_public_check_stays_an_assertion():
    with pytest.raises(AssertionError, match="returns"):
        check_environment(lambda: faulty(**{"last returns": lambda: (float("nan"),)}))
    with pytest.raises(RolloutError):
        play([spec(faulty(**{"last returns": lambda: (float("nan"),)}))], {"a": random()}, retries=0)
