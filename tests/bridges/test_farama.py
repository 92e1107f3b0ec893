"""The bridges to PettingZoo and Gymnasium."""

import numpy as np
import pettingzoo as zoo
import pytest

from sparring.config.plugins.registry import load
from sparring.core.errors import ConfigError, UnknownNameError
from sparring.core.rng import Stream
from sparring.environments.bridges.gymnasium import gymnasium
from sparring.environments.bridges.pettingzoo import pettingzoo
from sparring.environments.catalogue import make_game
from sparring.testing import check_environment

OWN = """
import gymnasium
import numpy as np

SLOT = "{slot}"
PLUGINS = ("walk", "in_words", "failing")


class Walk(gymnasium.Env):
    action_space = gymnasium.spaces.Discrete(2, start=3)
    observation_space = gymnasium.spaces.Discrete(9)

    def __init__(self, length=3, pay=1.0):
        self.length, self.pay = length, pay

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = int(self.np_random.integers(0, 2))
        return self.place, {{}}

    def step(self, action):
        if action == 3 and self.place == 1 and self.length == 7:
            raise ValueError("no way back")
        self.place += action - 3
        return self.place, self.pay if self.place >= self.length else 0.0, self.place >= self.length, False, {{}}


def walk(**options):
    return Walk(**options)


def in_words(observation, agent):
    return f"{{agent}} stands at {{observation}}"


def failing(**options):
    raise OSError("no display")
"""


@pytest.fixture
def own_modules(tmp_path, monkeypatch):
    for slot in ("gymnasium", "pettingzoo"):
        (tmp_path / f"own_{slot}.py").write_text(OWN.format(slot=slot), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))


def begin(library, game, seed=0, **options):
    return make_game(library, options={"game": game, **options}).reset(Stream.from_seed(seed))


@pytest.mark.parametrize("style", ["brief", "full"])
@pytest.mark.parametrize(
    "name",
    ["connect_four-v3", "tictactoe-v3", "rps-v2", "leduc_holdem-v4", "texas_holdem-v4", "texas_holdem_no_limit-v6"],
)
def test_classic_games_keep_the_contract_and_brief_words_are_in_the_vocabulary(name, style):
    check_environment(pettingzoo, plays=3, game=f"classic/{name}", style=style)
    if style == "full":
        return
    rules = make_game("pettingzoo", options={"game": f"classic/{name}", "style": "brief"})
    words, play, turns = set(rules.vocabulary()), rules.reset(Stream.from_seed(0)), 0
    while not play.done:
        replies = {}
        for seat in play.due():
            legal = play.legal(seat)
            assert set(play.observe(seat).text.split()) <= words and set(legal) <= words
            replies[seat] = legal[Stream.from_seed(turns).integer(seat, len(legal))]
        play.step(replies)
        turns += 1


def test_go_and_chess_have_moves_in_words():
    play = begin("pettingzoo", "classic/go-v5", arguments={"board_size": 5})
    assert len(play.legal(0)) == 26 and play.legal(0)[:2] == ("a1", "b1") and play.legal(0)[-1] == "pass"
    play.step({0: "b1"})
    assert play.observe(1).prompt.splitlines()[2] == ". O . . ." and "b1" not in play.legal(1)
    play = begin("pettingzoo", "classic/chess-v6")
    assert "e2e4" in play.legal(0) and len(play.legal(0)) == 20
    play.step({0: "e2e4"})
    assert "e7e5" in play.legal(1) and "FEN: rnbqkbnr" in play.observe(1).text


def test_cells_show_the_number_of_their_action():
    play = begin("pettingzoo", "classic/tictactoe-v3", style="brief")
    play.step({0: "1"})
    assert play.observe(1).text.split() == ["0", "O", *"2345678"] and play.legal(1) == tuple("02345678")
    for seat, reply in ((1, "5"), (0, "4"), (1, "0"), (0, "7")):
        play.step({seat: reply})
    assert play.done and play.returns == (1.0, -1.0)  # 1, 4 and 7 are in a line


def test_the_parallel_interface_pays_the_same_as_the_aec_interface():
    moves = [("rock", "paper"), ("paper", "scissors"), ("rock", "rock"), ("scissors", "paper")]
    parallel, turns = begin("pettingzoo", "classic/rps-v2", api="parallel"), begin("pettingzoo", "classic/rps-v2")
    for number, (first, second) in enumerate(moves):
        assert parallel.due() == (0, 1)
        parallel.step({0: first, 1: second})
        turns.step({0: first})
        assert turns.observe(1).prompt.endswith(
            f"other {moves[number - 1][0] if number else 'none'}"
        )  # not the pending move
        turns.step({1: second})
    assert parallel.returns == turns.returns == (-1.0, 1.0)


def test_copies_are_exact_and_independent():
    for options in ({"game": "classic/leduc_holdem-v4"}, {"game": "classic/rps-v2", "api": "parallel"}):
        play = make_game("pettingzoo", options=options).reset(Stream.from_seed(4))
        seats = play.due()
        play.step({seat: play.legal(seat)[0] for seat in seats})
        twin, views = play.clone(), dict(play.views)
        assert twin.views == views and twin.library is not play.library
        play.step({seat: play.legal(seat)[1] for seat in play.due()})
        assert twin.views == views


@pytest.mark.parametrize("name", ["FrozenLake-v1", "Blackjack-v1", "Taxi-v4", "CartPole-v1", "MountainCar-v0"])
def test_gymnasium_keeps_the_contract(name):
    check_environment(gymnasium, plays=2, game=name)


def test_frozen_lake_is_text_without_escape_codes_and_with_named_actions():
    play = begin("gymnasium", "FrozenLake-v1", arguments={"is_slippery": False})
    assert play.legal(0) == ("left", "down", "right", "up")
    prompt = play.observe(0).prompt
    assert "\x1b" not in prompt and prompt.splitlines()[-4:] == ["[S]FFF", "FHFH", "FFFH", "HFFG"]
    for reply in ("down", "down", "right", "right", "down", "right"):
        assert not play.done
        play.step({0: reply})
    assert play.done and play.returns == (1.0,)


def test_blackjack_is_brief_and_pays_between_bounds():
    rules = make_game("gymnasium", options={"game": "Blackjack-v1", "style": "brief"})
    play = rules.reset(Stream.from_seed(1))
    assert set(play.observe(0).text.split()) <= set(rules.vocabulary()) and play.legal(0) == ("stick", "hit")
    play.step({0: "stick"})
    assert play.done and play.returns[0] in (-1.0, 0.0, 1.0) and rules.min_utility == -1.0


def test_an_own_environment_with_words_actions_and_payoffs(own_modules):
    options = {
        "game": "own_gymnasium.walk",
        "word": "own_gymnasium.in_words",
        "actions": ("stay", "go"),
        "payoffs": (0, 2),
        "arguments": {"pay": 2.0},
        "turns": 50,
    }
    check_environment(gymnasium, plays=3, **options)
    play = begin("gymnasium", **options)
    assert "player stands at" in play.observe(0).prompt and play.legal(0) == ("stay", "go")
    while not play.done:
        play.step({0: "go"})
    assert play.returns == (2.0,) and play.rules.max_turns == 50
    plain = begin("gymnasium", "own_gymnasium.walk")
    assert plain.legal(0) == ("3", "4") and plain.observe(0).prompt.startswith("observation ")
    assert plain.rules.illegal.rule == "retry"  # bounds are unknown, so nobody forfeits


@pytest.mark.parametrize(
    ("library", "options", "error", "message"),
    [
        ("gymnasium", {"game": "FrozenLik-v1"}, UnknownNameError, "'FrozenLake-v1'"),
        ("gymnasium", {"game": "Pendulum-v1"}, ConfigError, "only Discrete actions"),
        ("gymnasium", {"game": "FrozenLake-v1", "style": "brief"}, ConfigError, "no list of all its words"),
        ("gymnasium", {"game": "own_gymnasium.failing"}, ConfigError, "OSError: no display"),
        ("gymnasium", {"game": "own_gymnasium.absent"}, ConfigError, "absent"),
        ("gymnasium", {"game": "own_pettingzoo.walk"}, ConfigError, "of 'pettingzoo', not of 'gymnasium'"),
        ("gymnasium", {"game": "os.system"}, ConfigError, "is not a plug-in"),
        ("gymnasium", {"game": "FrozenLake-v1", "arguments": {"colour": 1}}, ConfigError, "colour"),
        ("pettingzoo", {"game": "classic/go-v5", "style": "brief"}, ConfigError, "no list of all its words"),
        ("pettingzoo", {"game": "classic/connect_five-v3"}, UnknownNameError, "connect_four"),
        ("pettingzoo", {"game": "classic/connect_four-v3", "api": "parallel"}, UnknownNameError, "id of pettingzoo"),
        ("pettingzoo", {"game": "atari/pong-v3"}, ConfigError, "start of 'atari/pong-v3' failed"),
    ],
)
def test_unknown_or_unusable_environments_are_refused(own_modules, library, options, error, message):
    with pytest.raises(error, match=message):
        make_game(library, options=options)


def test_an_exception_drops_the_episode(own_modules):
    play = begin("gymnasium", "own_gymnasium.walk", arguments={"length": 7})
    while play.library.unwrapped.place != 1:
        play.step({0: "4"})
    with pytest.raises(Exception, match="no way back"):
        play.step({0: "3"})


def test_rewards_of_all_agents_are_summed_over_all_steps():
    play, raw = begin("pettingzoo", "classic/texas_holdem-v4", seed=2), zoo.make("aec", "classic/texas_holdem-v4")
    raw.reset(seed=play.seed)
    totals = dict.fromkeys(raw.possible_agents, 0.0)
    while not play.done:
        (seat,) = play.due()
        word = play.legal(seat)[0]
        index = play.legal_numbers[seat][word]
        play.step({seat: word})
        raw.step(index)
        for agent, value in raw.rewards.items():
            totals[agent] += float(value)
    assert play.returns == tuple(totals.values()) and any(np.abs(play.returns))


def test_the_options_of_both_bridges_have_plain_defaults():
    for name in ("pettingzoo", "gymnasium"):
        assert all("factory" not in repr(option.default) for option in load("environments", name).options.values())


def test_a_board_of_go_shows_each_seat_its_own_stones_as_x():
    play = begin("pettingzoo", "classic/go-v5", arguments={"board_size": 5})
    for turns, reply in enumerate(("a1", "b1", "c3", "d4", "e5", "a3")):
        (seat,) = play.due()
        assert seat == turns % 2
        play.step({seat: reply})
    assert play.views[0].replace("\n", " ").split()[:2] == ["X", "O"]


COUNTER = """
import threading

import gymnasium
from gymnasium.utils import EzPickle

SLOT = "gymnasium"


class Counter(gymnasium.Env, EzPickle):
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self):
        EzPickle.__init__(self)
        self.lock, self.total = threading.Lock(), 0

    def reset(self, *, seed=None, options=None):
        self.total = 0
        return self.total, {}

    def step(self, action):
        self.total += 1 + action
        return self.total, float(self.total), self.total > 8, False, {}


def counter():
    return Counter()
"""


def test_a_copy_of_an_own_environment_is_a_replay(tmp_path, monkeypatch):
    (tmp_path / "counter.py").write_text(COUNTER, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    play = begin("gymnasium", "counter.counter")
    play.step({0: "1"})
    play.step({0: "0"})
    twin = play.clone()
    for one_play in (play, twin):
        one_play.step({0: "0"})
    assert twin.views == play.views == {0: "observation 4"} and twin.returns == play.returns == (9.0,)


@pytest.mark.parametrize(
    ("library", "options"),
    [
        ("pettingzoo", {"game": "classic/rps-v2", "arguments": {"max_cycles": 50}}),
        ("gymnasium", {"game": "Blackjack-v1", "arguments": {"natural": True}}),
    ],
)
def test_arguments_make_the_bounds_of_payoffs_unknown(library, options):
    assert make_game(library, options=options).min_utility == -np.inf


@pytest.mark.parametrize("actions", [("rock", "paper"), ("rock", "rock", "paper")])
def test_each_action_needs_a_word_of_its_own(actions):
    with pytest.raises(ConfigError, match="has 3 actions"):
        make_game("pettingzoo", options={"game": "classic/rps-v2", "actions": actions})
