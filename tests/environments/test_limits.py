"""Calls into an environment have a time limit; wrong values and exceptions become one-line errors."""

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
from sparring.measure.initial_states import Starts, _initial_state
from sparring.methods.rewards.base import outcome_gap
from sparring.play.players.base import TextAgent
from sparring.play.players.random import random
from sparring.play.replay import replay
from sparring.play.rollout import play, rollout
from sparring.play.spec import EpisodeSpec
from sparring.testing import check_environment

ACTIONS = ("left", "right")


class FaultyEnvironment(Bank):
    """An environment with a bank; each of its methods can be replaced by a faulty one."""

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

    def _result_of(self, part, default):
        return self.parts[part]() if part in self.parts else default

    def start(self, number):
        return self._result_of("start", number)

    def start_of(self, play):
        return self._result_of("start_of", play.start)

    def other_bank(self):
        return self._result_of("other_bank", {})

    def vocabulary(self):
        return self._result_of("vocabulary", ACTIONS)

    def stake(self, play, seat):
        return self._result_of("stake", 1.0)

    def reset(self, stream):
        return self._result_of("reset", FaultyPlay(self))


class FaultyPlay:
    start = 0

    def __init__(self, rules):
        self.rules, self.taken = rules, 0

    done = property(lambda self: self.taken == 2)
    # only the final returns can be faulty, as returns are read at every step
    returns = property(lambda self: self.rules._result_of("last returns", (1.0,)) if self.done else (0.0,))

    def due(self):
        return self.rules._result_of("due", () if self.done else (0,))

    def observe(self, seat):
        return self.rules._result_of("observe", Observation(prompt="say", key="k"))

    def legal(self, seat):
        return self.rules._result_of("legal", ACTIONS)

    def clone(self):
        return self.rules._result_of("clone", self)

    def sample(self, seat, stream):
        return self.rules._result_of("sample", "left")

    def step(self, replies):
        self.taken += 1
        self.rules._result_of("step", None)


def sleep_15_seconds():
    for _ in range(1500):  # about 15 seconds; without a time limit the test would fail
        time.sleep(0.01)


def raise_zero_division():
    raise ZeroDivisionError("broken")


def faulty_environment(**parts):
    return complete_environment("faulty", FaultyEnvironment(**parts))


def make_spec(game, **fields):
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


def play_valid_episode(game):
    return play([make_spec(faulty_environment())], {"a": random()})[0]


class PromptEngine:
    context = None

    class renderer:
        initial = staticmethod(tuple)

    class model:
        class tokenizer:
            decode = staticmethod(lambda ids, **_: "".join(ids))


CALLS = {  # name of a call: (faulty method, the call)
    "the vocabulary": ("vocabulary", words_of),
    "the initial state of a deal": ("reset", lambda game: _initial_state(game, Stream(1))),
    "the identity of an initial state": (
        "start_of",
        lambda game: Starts(label="unseen", game=game, is_seen=False).deal(Stream(1), 0),
    ),
    "the other bank": ("other_bank", another_bank),
    "reset in a replay": ("reset", lambda game: replay(game, play_valid_episode(game))),
    "due in a replay": ("due", lambda game: replay(game, play_valid_episode(game))),
    "legal in a replay": ("legal", lambda game: replay(game, play_valid_episode(game))),
    "clone in a replay": ("clone", lambda game: replay(game, play_valid_episode(game))),
    "step in a replay": ("step", lambda game: replay(game, play_valid_episode(game))),
    "the first prompt": ("observe", lambda game: first_prompt(PromptEngine, game, [0])),
    "returns of a forfeit": ("reset", outcome_gap),
    "step in check_environment": ("step", lambda game: check_environment(lambda: game)),
    "reset in check_environment": ("reset", lambda game: check_environment(lambda: game)),
}


@pytest.mark.parametrize("call_name", CALLS)
def test_hanging_calls_are_interrupted_and_exceptions_are_named(call_name, monkeypatch):
    method_name, call = CALLS[call_name]
    monkeypatch.setattr(guard, "CALL_LIMIT_SECONDS", 0.4)
    monkeypatch.setattr(CallWatch.__init__, "__defaults__", (0.4,))
    with (
        CallWatch(0.4),
        pytest.raises(HungError, match=r"has not returned for 0.4 seconds, the limit of call_seconds") as error,
    ):
        call(faulty_environment(**{method_name: sleep_15_seconds}))
    assert "environment" in str(error.value)
    with pytest.raises(
        PluginError, match=r"environment .* failed in test_limits.py, line \d+: ZeroDivisionError: broken"
    ):
        call(faulty_environment(**{method_name: raise_zero_division}))
    assert guard._calls == []
    call(faulty_environment()) if method_name != "other_bank" else None


@pytest.mark.parametrize("statement", ["time.sleep(60)", "1 // 0"])
def test_a_failing_constructor_is_interrupted_or_named(statement, monkeypatch, tmp_path):
    name = f"limits_{len(statement)}"
    (tmp_path / f"{name}.py").write_text(
        f'"""None."""\n\nimport time\n\nSLOT = "environments"\n\n\ndef {name}():\n    """None."""\n    {statement}\n'
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with (
        CallWatch(0.4),
        pytest.raises(HungError if "sleep" in statement else PluginError, match=f"environment '{name}.{name}'"),
    ):
        make_game(f"{name}.{name}")


def test_a_failing_openspiel_game_is_named(monkeypatch):
    monkeypatch.setattr(catalogue, "openspiel_game", lambda *_: raise_zero_division())
    with pytest.raises(PluginError, match="environment 'pig'"):
        make_game("pig")


def test_the_time_limit_of_a_tree_walk_holds_per_history(monkeypatch):
    game = make_game("kuhn_poker")
    original_state_of, call_numbers = game.state_of, itertools.count()
    monkeypatch.setattr(
        type(game),
        "state_of",
        lambda self, node: (
            time.sleep(0.03) if next(call_numbers) < 60 else sleep_15_seconds(),
            original_state_of(node),
        )[1],
    )
    start_time = time.monotonic()
    # 24 decisions of 0.03 seconds take 0.72 seconds together; the limit of 0.4 seconds holds for each one
    with CallWatch(0.4):
        assert len(enumerate_info_states(game, limit=100).queries) == 12
        assert time.monotonic() - start_time > 0.7
        with pytest.raises(HungError, match="environment 'kuhn_poker'"):
            [enumerate_info_states(game, limit=100) for _ in range(3)]


def test_an_estimate_of_histories_is_watched(monkeypatch):
    game = make_game("kuhn_poker")
    monkeypatch.setattr(type(game), "first_node", lambda self: sleep_15_seconds())
    with CallWatch(0.4), pytest.raises(HungError, match="environment 'kuhn_poker'"):
        estimate_histories(game)


def test_final_returns_have_the_time_limit():
    games = [faulty_environment(**{"last returns": sleep_15_seconds}), faulty_environment()]
    with CallWatch(0.4):
        episodes, counts = rollout(
            [make_spec(game, group_id=number, episode_id=number) for number, game in enumerate(games)], {"a": random()}
        )
    assert counts.dropped_groups == {0} and counts.retried == 0 and [episode.group_id for episode in episodes] == [1]


@pytest.mark.parametrize("vocabulary", [None, 5, "left", (1, 2), ("left", None), {"left"}])
def test_invalid_vocabularies_are_refused(vocabulary):
    with pytest.raises(GameError, match=r"faulty: vocabulary\(\) returned"):
        words_of(faulty_environment(vocabulary=lambda: vocabulary))
    assert words_of(faulty_environment()) == ACTIONS


@pytest.mark.parametrize("reply", [None, 5, ["left"], b"left"])
def test_sampled_replies_that_are_not_text_are_refused(reply):
    game = faulty_environment(legal=lambda: None, sample=lambda: reply)
    with pytest.raises(GameError, match=r"FaultyPlay in .*test_limits: sample\(0\) returned"):
        play([make_spec(game)], {"a": random()}, retries=0)
    assert random_reply(faulty_environment().reset(Stream(0)), 0, None, Stream(0)) == "left"


@pytest.mark.parametrize("method_name", ["legal", "sample"])
def test_faulty_methods_called_by_a_player_drop_only_their_group(method_name, caplog):
    parts = {"legal": lambda: None}
    calls = itertools.count()
    for fault in (sleep_15_seconds, raise_zero_division):
        parts[method_name] = (
            fault if method_name == "sample" else lambda fault=fault: fault() if next(calls) % 2 else None
        )
        games = [faulty_environment(**parts), faulty_environment()]
        specs = [make_spec(game, group_id=number, episode_id=number) for number, game in enumerate(games)]
        with CallWatch(0.4):
            if fault is sleep_15_seconds:
                with pytest.raises(HungError, match=r"player 'a'"):
                    play(specs, {"a": random()}, retries=0)
                continue
            episodes, counts = rollout(specs, {"a": random()}, retries=1)
        assert (
            counts.dropped_groups == {0} and counts.retried == 1 and [episode.group_id for episode in episodes] == [1]
        )
        assert "Game faulty of episode 0 failed" in caplog.text


def test_errors_of_players_and_missing_methods_are_named():
    class BrokenPlayer(TextAgent):
        def choose(self, state, seat, stream):
            state.legal(seat)
            raise RuntimeError("mine")

    with pytest.raises(PluginError, match=r"player 'a' .*failed in test_limits\.py.*mine"):
        play([make_spec(faulty_environment())], {"a": BrokenPlayer("a")}, retries=0)

    class BareEnvironment:
        roles, max_turns, num_seats, name = ("one",), 2, 1, "bare"

    BareEnvironment.__module__ = "sparring.environments.bare"
    with pytest.raises(GameError, match="lacks 'vocabulary', which is needed here"):
        words_of(BareEnvironment())
    assert guard._calls == []
    with pytest.raises(ConfigError, match="players"):
        make_game("kuhn_poker", options={"players": 99})


@pytest.mark.parametrize("initial_state", [[1], {}])
def test_unhashable_initial_states_are_an_error(initial_state):
    with pytest.raises(PluginError, match=r"environment 'faulty' .* unhashable"):
        _initial_state(faulty_environment(start_of=lambda: initial_state), Stream(1))
    assert _initial_state(faulty_environment(start_of=lambda: (1,)), Stream(1)) == (1,)


def test_each_call_restarts_the_time_limit():
    with CallWatch(0.4), environment_call(faulty_environment()) as call:
        for number in range(6):
            call.now = number
            time.sleep(0.15)


def test_an_outer_watch_does_not_cancel_the_inner_alarm(monkeypatch):
    """Only the alarm of the inner watch can end a call that holds Python's global lock."""
    alarm_calls = []
    monkeypatch.setattr(guard.faulthandler, "dump_traceback_later", lambda *_, **__: alarm_calls.append(True))
    monkeypatch.setattr(guard.faulthandler, "cancel_dump_traceback_later", lambda: alarm_calls.append(False))
    monkeypatch.setattr(guard, "MAX_TICK_SECONDS", 0.1)
    with CallWatch(30), CallWatch(30), PluginCall("game 'x'"):
        time.sleep(0.9)
        assert alarm_calls[-1] and sum(alarm_calls) >= 2 and len(alarm_calls) <= 20


def test_every_cli_command_is_watched(monkeypatch):
    watches = []
    monkeypatch.setattr("typer.core.TyperGroup.invoke", lambda self, ctx: watches.append(list(guard._watches)))
    Verbs(name="sparring").invoke(None)
    assert len(watches) == 1 and len(watches[0]) == 1 and guard._watches == []


def test_the_public_functions_are_watched(monkeypatch):
    monkeypatch.setattr(CallWatch.__init__, "__defaults__", (0.4,))
    monkeypatch.setattr(catalogue, "openspiel_game", lambda *_: sleep_15_seconds())
    for call in (lambda: sparring.make_environment("pig"), lambda: sparring.play_episodes("pig", ["random"] * 2)):
        with pytest.raises(HungError, match="environment 'pig'"):
            call()
    with pytest.raises(HungError):
        check_environment(lambda: faulty_environment(step=sleep_15_seconds))


def test_check_environment_raises_an_assertion_for_wrong_returns():
    with pytest.raises(AssertionError, match="returns"):
        check_environment(lambda: faulty_environment(**{"last returns": lambda: (float("nan"),)}))
    with pytest.raises(RolloutError):
        play([make_spec(faulty_environment(**{"last returns": lambda: (float("nan"),)}))], {"a": random()}, retries=0)
