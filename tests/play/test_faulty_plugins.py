import math
import os
import signal
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from sparring.config import resolve
from sparring.config.plugins import registry
from sparring.config.plugins.guard import CallWatch
from sparring.config.recipe import to_yaml
from sparring.core.errors import (
    GameError,
    HungError,
    PluginError,
    RewardError,
    SparringError,
)
from sparring.core.records import Credit
from sparring.core.schedule import parse
from sparring.engine.local import LocalEngine
from sparring.environments.catalogue import make_game
from sparring.league.matchmakers.base import Seating
from sparring.methods.oracles.base import judge_states, make_verdict
from sparring.methods.oracles.parallel import ParallelOracle
from sparring.methods.rewards.components import WeightedReward
from sparring.play.players.scripted import scripted
from sparring.play.rollout import play
from sparring.run import checkpoint, loop
from sparring.run.folder import RunFolder
from sparring.run.step import Methods
from tests.play.plays import make_specs

CONFIG = {
    "steps": 3,
    "threads": 1,
    "environments": [{"name": "kuhn_poker", "illegal": {"rule": "random"}}],
    "rollout": {"games_per_step": 4, "group_size": 2},
    "model": {"hidden_size": 8, "layers": 1, "heads": 1},
    "evaluation": {"exact": False},
    "checkpoint": {"every": 1},
    "store": {"every": 0},
}


def bind_function(slot, function, name="mine"):
    module = SimpleNamespace(NEEDS=frozenset())
    return registry.BoundPlugin(
        plugin=registry.Plugin(slot=slot, name=name, function=function, module=module), options={}, schedules={}
    )


def train_with_plugin(path, monkeypatch, method, plugin, **keys):
    """Train with the given plug-in instead of the configured one from the second step on."""
    config, calls = resolve({**CONFIG, **keys}), []
    original = getattr(Methods.of(config), method)
    original = original["main"] if method == "credit" else original

    def work_then_fail(*args, **options):
        calls.append(1)
        original_function = original[0].bound if method == "rewards" else original
        is_working = len(calls) <= (4 if method == "rewards" else 2 if method == "matchmaker" else 1)
        return original_function(*args) if is_working else plugin(*args)

    slot = {"matchmaker": "league.matchmakers", "curriculum": "selection.curricula", "replay": "selection.replay"}.get(
        method, method
    )
    slot = "rollout.plans" if method == "plan" else slot
    new_method = bind_function(slot, work_then_fail)
    if method == "rewards":
        new_method = (WeightedReward(bound=new_method, weight=parse(1.0)),)
    new_method = {"main": new_method} if method == "credit" else new_method
    methods_of = Methods.of
    monkeypatch.setattr(
        loop, "Methods", SimpleNamespace(of=lambda *args: replace(methods_of(*args), **{method: new_method}))
    )
    with RunFolder.create(path, to_yaml(config)) as folder, CallWatch(3.0):
        loop.train(config, LocalEngine(config), folder)


def credit_with(make_values, **fields):
    return lambda turns, state: Credit(advantages=np.asarray(make_values(len(turns.reward)), dtype=float), **fields)


FORMAT_REWARD = {"rewards": [{"name": "format_bonus"}]}
FAULTS = {
    "estimator raises": (
        "credit",
        lambda *args: 1 // 0,
        "advantage estimator 'mine' .credit. failed in .*ZeroDivisionError",
    ),
    "estimator hangs": (
        "credit",
        lambda *args: time.sleep(60),
        "advantage estimator 'mine' .credit. has not returned",
    ),
    "advantages nan": ("credit", credit_with(lambda count: [math.nan] * count), "advantages nan in row 0"),
    "advantages huge": ("credit", credit_with(lambda count: [1e300] * count), "advantages 1e.300 in row 0"),
    "advantages too long": (
        "credit",
        credit_with(lambda count: [0.0] * (count + 1)),
        r"must return advantages of shape \(\d+,\) here; it returned",
    ),
    "value targets nan": (
        "credit",
        lambda turns, state: Credit(
            advantages=np.zeros(len(turns.reward)), value_targets=np.full(len(turns.reward), np.nan)
        ),
        "value_targets nan",
    ),
    "no credit": ("credit", lambda *args: None, "must return a Credit; it returned NoneType"),
    "reward raises": ("rewards", lambda episode: {}["x"], "reward 'mine' .rewards.N. failed in .*KeyError"),
    "reward hangs": ("rewards", lambda episode: time.sleep(60), "reward 'mine' .rewards.N. has not returned"),
    "reward is none": (
        "rewards",
        lambda episode: None,
        "must return a list of one number or None per turn; it returned NoneType",
    ),
    "reward is nan": ("rewards", lambda episode: [math.nan] * len(episode.turns), "nan times weight 1"),
    "selection raises": ("selection", lambda *args: [][1], "selection rule 'mine' .selection. failed in .*IndexError"),
    "mask too short": ("selection", lambda turns, stream: np.ones(1, dtype=bool), "must return a boolean per turn"),
    "curriculum raises": (
        "curriculum",
        lambda request: None.x,
        "curriculum 'mine' .curriculum. failed in .*AttributeError",
    ),
    "arm unknown": (
        "curriculum",
        lambda request: np.full(request.num_groups, 9),
        "must return an arm.s index, 0 to 0",
    ),
    "matchmaker raises": (
        "matchmaker",
        lambda request: int("x"),
        "matchmaker 'mine' .matchmaker. failed in .*ValueError",
    ),
    "a seat too few": (
        "matchmaker",
        lambda request: Seating(seats=("learner",), trained=(True,)),
        "must fill 2 seats here",
    ),
    "replay raises": ("replay", lambda request: 1 // 0, "replay rule 'mine' .replay. failed in .*ZeroDivisionError"),
    "replay is none": ("replay", lambda request: None, "must return a ReplayPlan"),
    "plan raises": ("plan", lambda *args: 1 // 0, "rollout plan 'mine' .rollout.plan. failed in .*ZeroDivisionError"),
    "plan is rubbish": ("plan", lambda *args: [3], "must return a list of Origin"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_plug_in_stops_the_run_cleanly(tmp_path, monkeypatch, name):
    method, plugin, message = FAULTS[name]
    with pytest.raises((PluginError, RewardError), match=message) as error:
        train_with_plugin(
            tmp_path / "run", monkeypatch, method, plugin, **(FORMAT_REWARD if method == "rewards" else {})
        )
    if method not in ("plan", "rewards"):
        assert "This happened in step 2 of 3" in str(error.value) and "The checkpoint of step 1 is good" in str(
            error.value
        )
        assert checkpoint.load_latest(tmp_path / "run").step == 1


def raise_key_error():
    raise KeyError("board")


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda turns: 1 // 0, "player 'bot' .bots, evaluation.opponents. failed in .*ZeroDivisionError"),
        (lambda turns: time.sleep(60), "player 'bot' .* has not returned"),
        (lambda turns: [], "must return a list of one Reply per turn, 2 here; it returned 0"),
        (lambda turns: None, "it returned NoneType"),
        (lambda turns: ["pass"] * len(turns), "it returned str"),
    ],
)
def test_a_faulty_agent_is_named(act, message):
    agent = SimpleNamespace(name="bot", renderer=None, act=act)
    with pytest.raises(PluginError, match=message), CallWatch(0.5):
        play(make_specs(make_game("kuhn_poker"), 2, name="bot"), {"bot": agent})


def test_a_game_that_cannot_be_made_is_named(monkeypatch):
    plugin = registry.load("environments", "kuhn_poker")
    broken_plugin = replace(plugin, function=lambda **options: raise_key_error())
    monkeypatch.setattr(registry, "load", lambda slot, name: broken_plugin)
    with pytest.raises(PluginError, match=r"environment 'kuhn_poker' \(environments.N\) failed in .*KeyError: 'board'"):
        make_game("kuhn_poker")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_an_oracle_with_invalid_verdicts_is_named(value):
    state = make_game("tic_tac_toe").reset(make_specs(make_game("tic_tac_toe"), 1)[0].deal)
    valid_verdict = make_verdict(state.legal_actions(), [0.0] * 9)
    for name, values in (("mine", (value,) + (0.0,) * 8), ("short", (0.0,))):
        oracle = SimpleNamespace(
            name=name, judge=lambda states, streams=None, values=values: [replace(valid_verdict, values=values)]
        )
        with pytest.raises(
            PluginError,
            match=rf"oracle '{name}' \(environments.N.oracle\) must return one finite value per legal action",
        ):
            judge_states(oracle, [state])
    for fault, judge in (
        ("failed in", lambda *args: 1 // 0),
        ("one verdict per state, 1 here; it returned 0", lambda *args: []),
    ):
        with pytest.raises(PluginError, match=fault):
            judge_states(SimpleNamespace(name="mine", judge=judge), [state])


def test_stopped_worker_processes_of_an_oracle_are_an_error():
    game = make_game("tic_tac_toe")
    states = [game.reset(make_specs(game, 1)[0].deal)]
    for move in states[0].legal_actions():
        later_state = states[0].clone()
        later_state.apply(move)
        states.append(later_state)
    oracle = ParallelOracle(oracle="mcts", options={"simulations": 4}, workers=2, least=1)
    judge_states(oracle, states[:2])
    pids = [process.pid for process in oracle._pool._processes]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    start_time = time.monotonic()
    with pytest.raises(SparringError, match=r"hang or are paused|has not returned"), CallWatch(1.0):
        judge_states(oracle, states[2:])
    assert time.monotonic() - start_time < 40
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_an_error_of_configuration_in_a_plug_in_keeps_its_class():
    """Errors that an agent raises deliberately keep their class."""
    agent = scripted(moves=["pass"])
    agent.choose = lambda *args: (_ for _ in ()).throw(GameError("not here"))
    with pytest.raises(GameError, match="not here"):
        play(make_specs(make_game("kuhn_poker"), 2, name="bot"), {"bot": agent})
    assert issubclass(HungError, PluginError)
