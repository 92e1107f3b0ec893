"""What a policy does in an abstracted game, and a solver that is anchored there."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring import play_episodes
from sparring.config.parts import PluginConfig
from sparring.core.errors import ConfigError
from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.abstracted import Abstracted
from sparring.environments.catalogue import make_game
from sparring.methods.knowledge.base import Gathered
from sparring.methods.knowledge.latent_space import EMBEDDINGS, latent_space
from sparring.methods.knowledge.sampled import Sampled, _Row
from sparring.methods.knowledge.space import Space
from sparring.methods.knowledge.standing import Habits, habits_of, standings
from sparring.methods.knowledge.statements import decisions

STREAM = Stream.from_seed(0)


def solver(game, stream=STREAM, **more):
    return Sampled(Abstracted(game, {}), stream, depth=1, actions=True, gists=True, **more)


class Signal:
    """One seat sees left or right and says x or y; the other hears it and guesses. Both are paid for a right guess."""

    name, roles, num_seats, max_turns = "signal", ("teller", "guesser"), 2, 2

    def reset(self, stream):
        return Signalled(("left", "right")[stream.integer(0, 2)], "", "")


class Signalled:
    def __init__(self, seen, said, guess):
        self.seen, self.said, self.guess = seen, said, guess

    @property
    def done(self):
        return bool(self.guess)

    @property
    def returns(self):
        worth = 1.0 if self.guess == self.seen else -1.0
        return (worth, worth)

    def due(self):
        return () if self.done else (1,) if self.said else (0,)

    def legal(self, seat):
        return ("left", "right") if seat else ("x", "y")

    def observe(self, seat):
        return Observation(told="", key=self.said if seat else self.seen)

    def step(self, replies):
        word = next(iter(replies.values()))
        self.said, self.guess = (self.said, word) if self.said else (word, "")

    def clone(self):
        return Signalled(self.seen, self.said, self.guess)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("left", "right"), ["xy", "yx"])
def test_of_two_conventions_the_policy_s_own_is_solved_for(left, right, seed):
    """Either word can stand for either side; the habit decides."""
    habits = Habits(
        there={"0 left": Counter({left: 27, right: 3}), "0 right": Counter({right: 27, left: 3})},
        everywhere={"teller": Counter("xy")},
    )
    found = solver(Signal(), Stream.from_seed(seed), habits=habits, anchor=0.3).solved(300)
    assert found["0 left"]["xy".index(left)] > 0.8 and found["0 right"]["xy".index(right)] > 0.8
    assert found[f"1 {left}"][0] > 0.8 and found[f"1 {right}"][1] > 0.8


def test_without_an_anchor_habits_say_nothing():
    habits = Habits(there={"0 left": Counter(x=9)})
    plain, begun = (solver(Signal(), **more).solved(20) for more in ({}, {"habits": habits}))
    assert plain == begun


THROWS = ("paper", "rock", "scissors")
WORTH = np.array([[0, 1, -1], [-1, 0, 1], [1, -1, 0]])  # of the first against the second, in this order


def anchored(anchor, shares, steps=3000, seed=0):
    """Return the strategies of both seats of rock, paper, scissors, in the order of THROWS."""
    game = make_game("rock_paper_scissors")
    keys, called = sorted(solver(game).solved(1)), game.reset(STREAM).legal(0)
    counts = {key: Counter({throw: round(1e9 * share) for throw, share in zip(THROWS, own, strict=True)}) for key, own in zip(keys, shares, strict=True)}
    found = solver(game, Stream.from_seed(seed), habits=Habits(there=counts), anchor=anchor).solved(steps)
    return [[found[key][called.index(throw)] for throw in THROWS] for key in keys]


@pytest.mark.parametrize("anchor", [0.5, 2.0])
def test_at_rest_it_is_the_logit_equilibrium(anchor):
    """Against the fixed point of q exp(u / lambda), found by small steps towards it."""
    shares = np.array([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]])
    exact = shares.copy()
    for _ in range(5000):
        worth = np.array([WORTH @ exact[1], WORTH @ exact[0]])
        answer = shares * np.exp(worth / anchor)
        exact += 0.02 * (answer / answer.sum(1, keepdims=True) - exact)
    assert np.abs(exact - shares).max() > 0.05
    assert np.array(anchored(anchor, shares)) == pytest.approx(exact, abs=0.03)


def test_a_heavy_anchor_keeps_the_habits_and_a_light_one_lets_them_go():
    shares = np.array([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]])
    assert np.array(anchored(1e6, shares, 200)) == pytest.approx(shares, abs=1e-3)
    assert np.array(anchored(0.02, shares, 6000)) == pytest.approx(1 / 3, abs=0.06)


@given(st.floats(1e-9, 1e9), st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=4), st.floats(0, 1e9))
def test_an_anchored_strategy_is_probabilities(anchor, regrets, weight):
    size = len(regrets)
    row = _Row(called=tuple("abcd"[:size]), regrets=np.array(regrets), sums=np.zeros(size), habit=np.log(np.full(size, 1 / size)), judged=True, weight=weight)
    found = row.strategy(anchor).chances
    assert found.sum() == pytest.approx(1) and (found >= 0).all()


def test_shares_by_hand():
    habits = Habits(there={"s": Counter(a=2, b=1)}, everywhere={"k": Counter(a=3, c=1)})
    whole = np.array([3.1, 0.1, 1.1]) / 4.3
    assert habits.shares("k", "s", ("a", "b", "c")) == pytest.approx((np.array([2, 1, 0]) + 3 * whole) / 6)
    assert habits.shares("k", "new", ("a", "b", "c")) == pytest.approx(whole)
    assert habits.shares("other", "new", ("a", "b")) == pytest.approx([0.5, 0.5])


@given(st.dictionaries(st.sampled_from("abc"), st.integers(0, 10**6)), st.lists(st.sampled_from("abcd"), min_size=1, unique=True))
def test_shares_are_probabilities(counts, called):
    found = Habits(there={"s": Counter(counts)}, everywhere={"k": Counter(counts)}).shares("k", "s", called)
    assert found.sum() == pytest.approx(1) and (found > 0).all() and len(found) == len(called)


def test_habits_of_recorded_plays_and_the_option():
    game = make_game("werewolf", options={"players": 4, "rounds": 1, "say": ["result", "accuse"]})
    episodes = play_episodes(game, ["werewolf_bot style=accuser"] * 4, plays=8)
    gathered = Gathered(episodes=episodes, environments={game.name: game}, step=0, stream=STREAM)
    found = [decisions(game, one, actions=True) for one in episodes]
    made = latent_space(gathered, {}, clusters=8, actions=True, solver="sampled", cfr_steps=20, anchor=0.3)
    even = latent_space(gathered, {}, clusters=8, actions=True, solver="sampled", cfr_steps=20)
    assert made.state["space"]["kinds"] == even.state["space"]["kinds"] and made.state != even.state
    _, space = Space.of_state(made.state, PluginConfig.model_validate("ngrams").bind(EMBEDDINGS))
    (first, *_), *_ = stood = standings(gathered, found, space, gists=True)
    assert len(stood) == 8 and first.game == game.name
    habits = habits_of(one for own in stood for one in own)
    said = habits.everywhere["wolf speaks"]
    assert sum(said.values()) > 4 and all(label.startswith("seer #") and label.endswith("wolf") for label in said)
    assert sum(habits.everywhere[""].values()) > 30


@pytest.mark.parametrize("speech", ["words", "text"])
@pytest.mark.parametrize("more", [{}, {"gists": False}, {"growth": 2, "iterations": 2, "every": 1}, {"depth": 2}, {"actions": False}, {"prefer": "probability"}], ids=str)
def test_an_anchor_goes_with_other_options(speech, more):
    options = {"players": 4, "rounds": 1, "tie": "none", "speech": speech, **({"say": ["accuse"]} if speech == "words" else {}), "style": "full"}
    game, states = make_game("werewolf", options=options), []
    episodes = play_episodes(game, ["werewolf_bot sentences=true"] * 4, plays=6)
    for step in range(2):
        gathered = Gathered(episodes=episodes, environments={game.name: game}, step=step, stream=STREAM)
        states.append(latent_space(gathered, states[-1] if states else {}, **{"clusters": 3, "actions": True, "solver": "sampled", "cfr_steps": 4, "anchor": 0.2, **more}).state)
    assert states[1]["iteration"] == (1 if "every" in more else 0)
    for strategy in states[1]["space"]["strategies"].values():
        assert strategy and all(sum(row) == pytest.approx(1) for row in strategy.values())


def test_an_anchor_of_a_walked_tree_is_refused():
    gathered = Gathered(episodes=[], environments={}, step=0, stream=STREAM)
    with pytest.raises(ConfigError, match=r"anchor=0\.1 anchors sampled plays alone.*write solver: sampled, or leave anchor out"):
        latent_space(gathered, {}, anchor=0.1)
