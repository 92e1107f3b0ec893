"""The public checks pass what keeps the contract and say in a sentence what does not."""

import itertools
import random
import re

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

NEEDS = {"value"}  # of the estimators below: this module declares them, as a plug-in's does
CALLS = itertools.count()


# -- rewards


def short(episode, *, most: int = 3):
    """Pay every reply of at most ``most`` characters 1."""
    return [float(len(turn.reply) <= most) for turn in episode.turns]


def one_short(episode):
    return [0.0 for turn in episode.turns[1:]]


def infinite(episode):
    return [float("inf") for turn in episode.turns]


def moody(episode):
    return [float(next(CALLS)) for turn in episode.turns]


def scribbling(episode):
    for turn in episode.turns:
        turn.rewards["game"] = 0.0
    return [0.0 for turn in episode.turns]


def no_row(episode):
    return 1.0


def raising(episode):
    return [1 / 0 for turn in episode.turns]


def test_a_good_reward_passes_and_takes_its_options():
    check_reward(short)
    check_reward(short, most=5)
    check_reward(lambda_named)


def lambda_named(episode):
    return tuple(0.5 for turn in episode.turns)


@pytest.mark.parametrize(
    ("reward", "said"),
    [
        (one_short, r"gave \d+ numbers for an episode of \d+ turns"),
        (infinite, "gave inf for turn 0"),
        (moody, "must say the same of the same episode"),
        (scribbling, "changed the episode"),
    ],
)
def test_a_bad_reward_is_told(reward, said):
    with pytest.raises(AssertionError, match=said):
        check_reward(reward)


@pytest.mark.parametrize("reward", [no_row, raising])
def test_a_reward_that_cannot_be_used_is_told_as_in_a_run(reward):
    with pytest.raises(PluginError):
        check_reward(reward)


def test_random_episodes_are_of_a_seed_and_of_the_length_asked_for():
    stream = Stream.from_seed(3)
    assert random_episode(stream, turns=5) == random_episode(stream, turns=5) != random_episode(stream.child(1), turns=5)
    assert [len(random_episode(stream, turns=count).turns) for count in range(4)] == [0, 1, 2, 3]


# -- estimators


def with_critic(turns, state):
    return Credit(advantages=turns.reward - turns.value, state=dict(state), value_targets=turns.reward)


def without_targets(turns, state):
    return Credit(advantages=turns.reward - turns.value, state=dict(state))


def undeclared(turns, state):
    return Credit(advantages=turns.reward - turns.action_value, state=dict(state), value_targets=turns.reward)


def per_trajectory(turns, state):
    return Credit(advantages=turns.reward[turns.done], state=dict(state), value_targets=turns.reward)


def unfinished(turns, state):
    return Credit(advantages=turns.reward / 0.0, state=dict(state), value_targets=turns.reward)


def hoarding(turns, state):
    state["steps"] = state.get("steps", 0) + 1
    return Credit(advantages=turns.reward, state=state, value_targets=turns.reward)


def in_place(turns, state):
    turns.reward[:] = 0.0
    return Credit(advantages=turns.reward, state=dict(state), value_targets=turns.reward)


def gambling(turns, state):
    return Credit(advantages=turns.reward + random.random(), state=dict(state), value_targets=turns.reward)


def forgetful(turns, state):
    kept = state.get("seen", ())
    seen = (*kept, len(turns.reward)) if isinstance(kept, tuple) else ()
    return Credit(advantages=turns.reward, state={"seen": seen}, value_targets=turns.reward)


def test_a_good_estimator_passes():
    check_estimator(with_critic)


@pytest.mark.parametrize(
    ("estimator", "said"),
    [
        (without_targets, "must give value_targets"),
        (hoarding, "changed the state"),
        (in_place, "changed the column 'reward'"),
        (gambling, "other advantages for the same table|goes on otherwise"),
        (forgetful, "another state from one that went to JSON"),
    ],
)
def test_a_bad_estimator_is_told(estimator, said):
    with np.errstate(all="ignore"), pytest.raises(AssertionError, match=said):
        check_estimator(estimator)


@pytest.mark.parametrize(
    ("estimator", "said"),
    [
        (per_trajectory, r"must give advantages of shape \(\d+,\)"),
        (unfinished, "must be finite"),
        (undeclared, "as an array of numbers|TypeError"),  # it reads a column that it did not ask for, which is not there
    ],
)
def test_an_estimator_that_cannot_be_used_is_told_as_in_a_run(estimator, said):
    with np.errstate(all="ignore"), pytest.raises(PluginError, match=said):
        check_estimator(estimator)


# -- matchmakers


def seated(*seats, trained=None):
    return Seating(seats=seats, trained=trained or tuple(str(seat).startswith("learner") for seat in seats))  # plain names are read


def mirror(request):
    return seated(*(str(request.learner),) * request.num_seats)


def stranger(request):
    return seated(*("learnr",) * request.num_seats)


def from_the_future(request):
    return seated("learner", *("past-000999",) * (request.num_seats - 1))


def idle(request):
    return seated(*("bot-random",) * request.num_seats)


def teaching_bots(request):
    return seated(*("bot-random",) * request.num_seats, trained=(True,) * request.num_seats)


def whimsical(request):
    return seated("learner", *(random.choice(("bot-random", "bot-mcts")),) * (request.num_seats - 1))


def test_a_good_matchmaker_passes():
    check_matchmaker(mirror)


def published(request):
    return seated(*("policy",) * request.num_seats)


def misspelt(request):
    return seated("learner", *("bot-randm",) * (request.num_seats - 1))


def numbered(request):
    return seated(*range(request.num_seats))


@pytest.mark.parametrize(("matchmaker", "said"), [(idle, "trains learner in no seat"), (whimsical, "must answer the same")])
def test_a_bad_matchmaker_is_told(matchmaker, said):
    with pytest.raises(AssertionError, match=said):
        check_matchmaker(matchmaker)


@pytest.mark.parametrize(
    ("matchmaker", "said"),
    [
        (stranger, "put 'learnr' into seat 0, and there is no such player. Did you mean 'learner'"),
        (from_the_future, "put 'past-000999' into seat 1"),
        (misspelt, "put 'bot-randm' into seat 1, and there is no such player. Did you mean 'bot-random'"),
        (published, "put 'policy' into seat 0"),
        (teaching_bots, "trains 'bot-random' in seat 0; only 'learner' is trained"),
    ],
)
def test_a_seating_that_a_run_refuses_is_told_as_there(matchmaker, said):
    with pytest.raises(PluginError, match=re.escape(said)):
        check_matchmaker(matchmaker)


def test_a_seat_that_is_no_player_at_all_is_told():
    with pytest.raises(ConfigError, match="0 is no player; write a PlayerRef, or a name"):
        check_matchmaker(numbered)


# -- keeping rules


def forgetful(request):
    """Keep none."""
    return ()


def stingy(request):
    """Keep one fewer than may stay."""
    return tuple(request.members[-max(request.keep - 1, 1) :])


def greedy(request):
    """Keep all."""
    return tuple(request.members)


def moody(request):
    """Keep others each time."""
    return (request.members[next(CALLS) % len(request.members)],) if len(request.members) > request.keep else tuple(request.members)


@pytest.mark.parametrize("rule", [newest, spread])
def test_a_good_keeping_rule_passes(rule):
    check_keeping(rule)


@pytest.mark.parametrize(
    ("rule", "error", "said"),
    [
        (forgetful, AssertionError, "keeps none of the snapshots of steps"),
        (stingy, AssertionError, "may stay; all may stay"),
        (moody, AssertionError, "must answer the same"),
        (greedy, PluginError, r"at most \d snapshots \(league.keep\)"),
        (lambda request: None, PluginError, "must return the snapshots that stay"),
    ],
)
def test_a_bad_keeping_rule_is_told(rule, error, said):
    with pytest.raises(error, match=said):
        check_keeping(rule)


def test_a_keeping_rule_is_asked_with_results_and_without_of_few_and_many():
    seen = []

    def noting(request):
        seen.append(request)
        return newest(request)

    check_keeping(noting, requests=100)
    assert {len(request.members) for request in seen} == set(range(1, 10)) == {request.keep for request in seen}
    assert any(not request.payoffs.rows for request in seen) and any(len(request.payoffs.rows) > 3 for request in seen)
    assert all(list(request.steps) == sorted(set(request.steps)) and request.step == request.steps[-1] for request in seen)


# -- environments


class Spoiled:
    """Kuhn poker of which one thing is otherwise."""

    def __init__(self, **changes):
        self._game, self._changes = kuhn_poker(), changes

    def __getattr__(self, name):
        return self._changes[name] if name in self._changes else getattr(self._game, name)

    def reset(self, stream):
        return SpoiledState(self._game.reset(stream), self._changes)


class SpoiledState:
    def __init__(self, state, changes):
        self._state, self._changes = state, changes

    def __getattr__(self, name):
        if name == "clone":
            return lambda: SpoiledState(self._state.clone(), self._changes)
        change = self._changes.get(name)
        found = getattr(self._state, name)
        return change(found) if change else found


def spoiled(**changes):
    def environment():
        return Spoiled(**changes)

    return environment


def test_a_good_environment_passes():
    check_environment(kuhn_poker)
    check_environment(kuhn_poker, players=3, plays=5)
    check_environment(spoiled(), plays=5)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"max_turns": 1}, "goes on after max_turns = 1"),
        ({"roles": ("a", "a")}, "2 seats have the roles"),
        ({"legal": lambda found: lambda seat: (*found(seat), *found(seat))}, "with each once"),
        ({"legal": lambda found: lambda seat: ()}, "with each once"),
        ({"legal": lambda found: lambda seat: list(found(seat))}, "give a tuple"),
        ({"read": lambda found: lambda *a: "bet"}, "is read as 'bet'"),
        ({"read": lambda found: lambda *a: found(*a) or "bet"}, "'zzzqqq' is read as 'bet'"),
        ({"observe": lambda found: lambda seat: found(seat)._replace(told=" ")}, "give an Observation with a text"),
        ({"observe": lambda found: lambda seat: found(seat).text}, "give an Observation with a text"),
        ({"returns": lambda found: found[:1]}, "1 returns for 2 seats"),
        ({"returns": lambda found: (float("nan"), *found[1:])}, "not finite"),
        ({"returns": lambda found: (9.0, -9.0)}, "outside min_utility = -2.0"),
        ({"due": lambda found: lambda: (5,)}, "give the seats whose replies are wanted, ascending, of 0 to 1"),
        ({"due": lambda found: lambda: ()}, "the play is not done"),
        ({"due": lambda found: lambda: (*found(), *found())}, "ascending"),
        ({"observe": lambda found: lambda seat: found(seat)._replace(told=str(random.random()))}, "another text at the second call"),
    ],
)
def test_a_bad_environment_is_told(changes, said):
    with pytest.raises(AssertionError, match=said):
        check_environment(spoiled(**changes), plays=5)
