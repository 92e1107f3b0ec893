"""The public checks accept plug-ins that keep their contract and name the rule that others break."""

import copy
import itertools
import random
import re
from pathlib import Path

import numpy as np
import pytest

from sparring.core.errors import ConfigError, PluginError
from sparring.core.records import Credit
from sparring.core.rng import Stream
from sparring.environments.kuhn_poker import kuhn_poker
from sparring.league.keeping.newest import newest
from sparring.league.keeping.spread import spread
from sparring.league.matchmakers.base import Seating
from sparring.testing import (
    check_environment,
    check_estimator,
    check_keeping,
    check_matchmaker,
    check_reward,
    random_episode,
)

NEEDS = {"value"}  # what the estimators below read, declared as in the module of a plug-in
CALLS = itertools.count()


def short_replies(episode, *, most: int = 3):
    """Give a reward of 1 to every reply of at most ``most`` characters."""
    return [float(len(turn.reply) <= most) for turn in episode.turns]


def reward_that_changes_the_episode(episode):
    for turn in episode.turns:
        turn.rewards["game"] = 0.0
    return [0.0 for turn in episode.turns]


BAD_REWARDS = [
    (
        lambda episode: [0.0 for turn in episode.turns[1:]],
        AssertionError,
        r"returned \d+ numbers for an episode of \d+ turns",
    ),
    (lambda episode: [float("inf") for turn in episode.turns], AssertionError, "returned inf for turn 0"),
    (
        lambda episode: [float(next(CALLS)) for turn in episode.turns],
        AssertionError,
        "must return equal rewards for equal episodes",
    ),
    (reward_that_changes_the_episode, AssertionError, "changed the episode"),
    (lambda episode: 1.0, PluginError, ""),
    (lambda episode: [1 / 0 for turn in episode.turns], PluginError, ""),
]


@pytest.mark.parametrize(("reward", "error", "message"), BAD_REWARDS)
def test_a_bad_reward_is_refused_as_in_a_run(reward, error, message):
    with pytest.raises(error, match=message or None):
        check_reward(reward)


def test_a_random_episode_has_its_seed_and_length():
    stream = Stream.from_seed(3)
    assert (
        random_episode(stream, turns=5) == random_episode(stream, turns=5) != random_episode(stream.child(1), turns=5)
    )
    assert [len(random_episode(stream, turns=count).turns) for count in range(4)] == [0, 1, 2, 3]


def credit_with_targets(advantages, turns, state):
    return Credit(advantages=advantages, state=state, value_targets=turns.reward)


def estimator_with_targets(turns, state):
    return credit_with_targets(turns.reward - turns.value, turns, dict(state))


def estimator_without_targets(turns, state):
    return Credit(advantages=turns.reward - turns.value, state=dict(state))


def estimator_of_an_undeclared_column(turns, state):
    return credit_with_targets(turns.reward - turns.action_value, turns, dict(state))


def estimator_per_trajectory(turns, state):
    return credit_with_targets(turns.reward[turns.done], turns, dict(state))


def estimator_with_infinities(turns, state):
    return credit_with_targets(turns.reward / 0.0, turns, dict(state))


def estimator_that_changes_its_state(turns, state):
    state["steps"] = state.get("steps", 0) + 1
    return credit_with_targets(turns.reward, turns, state)


def estimator_that_changes_a_column(turns, state):
    turns.reward[:] = 0.0
    return credit_with_targets(turns.reward, turns, dict(state))


def estimator_with_random_advantages(turns, state):
    return credit_with_targets(turns.reward + random.random(), turns, dict(state))


def estimator_with_tuples_as_state(turns, state):
    lengths = state.get("seen", ())
    return credit_with_targets(
        turns.reward, turns, {"seen": (*lengths, len(turns.reward)) if isinstance(lengths, tuple) else ()}
    )


@pytest.mark.parametrize(
    ("estimator", "error", "message"),
    [
        (estimator_without_targets, AssertionError, "must return value_targets"),
        (estimator_that_changes_its_state, AssertionError, "changed the state"),
        (estimator_that_changes_a_column, AssertionError, "changed the column 'reward'"),
        (
            estimator_with_random_advantages,
            AssertionError,
            "other advantages for the same table|other advantages after its state",
        ),
        (estimator_with_tuples_as_state, AssertionError, "another state after its state was written as JSON"),
        (estimator_per_trajectory, PluginError, r"must return advantages of shape \(\d+,\)"),
        (estimator_with_infinities, PluginError, "must be finite"),
        (
            estimator_of_an_undeclared_column,
            PluginError,
            "as an array of numbers|TypeError",
        ),  # NEEDS does not declare the column that it reads
    ],
)
def test_a_bad_estimator_is_refused_as_in_a_run(estimator, error, message):
    with np.errstate(all="ignore"), pytest.raises(error, match=message):
        check_estimator(estimator)


def seating_of(*seats, trained=None):
    # names as text
    return Seating(seats=seats, trained=trained or tuple(str(seat).startswith("learner") for seat in seats))


def against(name):
    return lambda request: seating_of("learner", *(name,) * (request.num_seats - 1))


def in_every_seat(name, **options):
    return lambda request: seating_of(
        *(name,) * request.num_seats, **{key: value * request.num_seats for key, value in options.items()}
    )


@pytest.mark.parametrize(
    ("matchmaker", "error", "message"),
    [
        (in_every_seat("bot-random"), AssertionError, "trains learner in no seat"),
        (
            lambda request: against(random.choice(("bot-random", "bot-mcts")))(request),
            AssertionError,
            "must answer equal requests equally",
        ),
        (
            in_every_seat("learnr"),
            PluginError,
            "put 'learnr' into seat 0, and there is no such player. Did you mean 'learner'",
        ),
        (against("past-000999"), PluginError, "put 'past-000999' into seat 1"),
        (
            against("bot-randm"),
            PluginError,
            "put 'bot-randm' into seat 1, and there is no such player. Did you mean 'bot-random'",
        ),
        (in_every_seat("policy"), PluginError, "put 'policy' into seat 0"),
        (
            in_every_seat("bot-random", trained=(True,)),
            PluginError,
            "trains 'bot-random' in seat 0; only 'learner' is trained",
        ),
        (
            lambda request: seating_of(*range(request.num_seats)),
            ConfigError,
            "0 is not a player; write a PlayerRef, or a name",
        ),
    ],
)
def test_a_bad_matchmaker_is_refused_as_in_a_run(matchmaker, error, message):
    with pytest.raises(error, match=re.escape(message)):
        check_matchmaker(matchmaker)


def keep_by_call(request):
    members = tuple(request.members)
    return (members[next(CALLS) % len(members)],) if len(members) > request.keep else members


@pytest.mark.parametrize(
    ("rule", "error", "message"),
    [
        (lambda request: (), AssertionError, "keeps none of the snapshots of steps"),
        (lambda request: tuple(request.members[-max(request.keep - 1, 1) :]), AssertionError, "may stay; all may stay"),
        (keep_by_call, AssertionError, "must answer equal requests equally"),
        (lambda request: tuple(request.members), PluginError, r"at most \d snapshots \(league.keep\)"),
        (lambda request: None, PluginError, "must return the snapshots that stay"),
    ],
)
def test_a_bad_keeping_rule_is_refused(rule, error, message):
    with pytest.raises(error, match=message):
        check_keeping(rule)


def test_a_keeping_rule_is_checked_with_few_and_many_members():
    requests = []

    def noting(request):
        requests.append(request)
        return newest(request)

    check_keeping(noting, requests=100)
    assert {len(request.members) for request in requests} == set(range(1, 10)) == {request.keep for request in requests}
    assert any(not request.payoffs.rows for request in requests) and any(
        len(request.payoffs.rows) > 3 for request in requests
    )
    assert all(
        list(request.steps) == sorted(set(request.steps)) and request.step == request.steps[-1] for request in requests
    )


class BrokenGame:
    def __init__(self, **changes):
        self._game, self._changes = kuhn_poker(), changes

    def __getattr__(self, name):
        return self._changes[name] if name in self._changes else getattr(self._game, name)

    def reset(self, stream):
        return BrokenState(self._game.reset(stream), self._changes)


class BrokenState:
    def __init__(self, state, changes):
        self._state, self._changes = state, changes

    def __getattr__(self, name):
        if name == "clone":
            return lambda: BrokenState(self._state.clone(), self._changes)
        change = self._changes.get(name)
        value = getattr(self._state, name)
        return change(value) if change else value


def broken_environment(**changes):
    def environment():
        return BrokenGame(**changes)

    return environment


def test_plug_ins_that_keep_their_contract_pass():
    for options in ({}, {"most": 5}):
        check_reward(short_replies, **options)
    check_reward(lambda episode: tuple(0.5 for turn in episode.turns))
    check_estimator(estimator_with_targets)
    check_matchmaker(lambda request: seating_of(*(str(request.learner),) * request.num_seats))
    check_keeping(newest)
    check_keeping(spread)
    check_environment(kuhn_poker)
    check_environment(kuhn_poker, players=3, plays=5)
    check_environment(broken_environment(), plays=5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_turns": 1}, "max_turns = 1 is too small"),
        ({"roles": ("a", "a")}, "2 seats have the roles"),
        ({"legal": lambda original: lambda seat: (*original(seat), *original(seat))}, "with each action once"),
        ({"legal": lambda original: lambda seat: ()}, "with each action once"),
        ({"legal": lambda original: lambda seat: list(original(seat))}, "return a tuple"),
        ({"read": lambda original: lambda *a: "bet"}, "is read as 'bet'"),
        ({"read": lambda original: lambda *a: original(*a) or "bet"}, "'zzzqqq' is read as 'bet'"),
        (
            {"observe": lambda original: lambda seat: original(seat)._replace(prompt=" ")},
            "return an Observation with a text",
        ),
        ({"observe": lambda original: lambda seat: original(seat).text}, "return an Observation with a text"),
        ({"returns": lambda original: original[:1]}, "1 returns for 2 seats"),
        ({"returns": lambda original: (float("nan"), *original[1:])}, "not finite"),
        ({"returns": lambda original: (9.0, -9.0)}, "outside min_utility = -2.0"),
        ({"returns": lambda original: (1.0, 1.0)}, "zero_sum is true, and the returns .* sum to 2"),
        ({"due": lambda original: lambda: (5,)}, "return the due seats, ascending, from 0 to 1"),
        ({"due": lambda original: lambda: ()}, "before the end"),
        ({"due": lambda original: lambda: (*original(), *original())}, "ascending"),
        (
            {"observe": lambda original: lambda seat: original(seat)._replace(prompt=str(random.random()))},
            "changed at the second call",
        ),
    ],
)
def test_a_bad_environment_is_refused(changes, message):
    with pytest.raises(AssertionError, match=message):
        check_environment(broken_environment(**changes), plays=5)


def free_text(**changes):
    from sums import Play, sums

    play = type("OddPlay", (Play,), {"clone": lambda self: copy.deepcopy(self), **changes})

    class Environment(sums):
        roles = ("pupil", "other") if "due" in changes else sums.roles
        max_turns = 6

        def reset(self, stream):
            return play(super().reset(stream).pairs)

    return Environment


TWO_SEATS = {
    "due": lambda self: () if self.done else (0, 1),
    "returns": property(lambda self: (self.num_right / 3, 0.0)),
    # the second seat's text is read as it is, and int() refuses ""
    "read": lambda self, seat, reply, exact: reply if seat else "1",
    "step": lambda self, replies: (int(replies[1]), super(type(self), self).step(replies)),
}


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({}, None, ""),
        (TWO_SEATS, PluginError, "ValueError"),
        ({"read": lambda self, seat, reply, exact: 3}, AssertionError, "returned 3; return a text, or None"),
        # int() refuses "", which this read lets pass
        ({"read": lambda self, seat, reply, exact: reply}, PluginError, "ValueError"),
    ],
)
def test_odd_replies_to_an_environment_of_free_text_are_tried(monkeypatch, changes, error, message):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples"))
    if error is None:
        check_environment(free_text(**changes), plays=3)
    else:
        with pytest.raises(error, match=message):
            check_environment(free_text(**changes), plays=3)
