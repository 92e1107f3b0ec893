"""Environments of PettingZoo with discrete actions, in words."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import numpy as np

from sparring.core.rng import Stream
from sparring.environments.bridges.base import import_library, library_seed
from sparring.environments.bridges.wording import (
    NUMBERS,
    SpaceWording,
    WordedEnvironment,
    WordedPlay,
    check_discrete,
)

TESTED = "1.27.0"
MAX_TURNS = 1000  # default limit of replies
RANKS, SUITS = ("A", *map(str, range(2, 11)), "J", "Q", "K"), "shdc"
CHIPS = tuple(map(str, range(101)))


def _board(free: str | None, *, is_reversed: bool = False) -> Callable[[Any, Any, str], str]:
    """Return a function that describes a board: X is the seat's own piece, O another seat's piece.

    An empty cell is written as ``free``; if ``free`` is None, as its number, which is also the
    action. Plane 0 has the seat's own pieces, and plane 1 those of the others; with
    ``is_reversed`` the planes are exchanged.
    """

    def describe(environment: Any, observation: Any, agent: str) -> str:
        planes = observation["observation"]
        pieces, other_pieces = planes[..., 0] > 0, planes[..., 1] > 0
        if is_reversed:
            pieces, other_pieces = other_pieces, pieces
        empty = np.arange(pieces.size).reshape(pieces.shape).astype(str) if free is None else free
        cells = np.where(pieces, "X", np.where(other_pieces, "O", empty))
        return "\n".join(map(" ".join, cells.tolist()))

    return describe


def _cards(planes: Any) -> str:
    return " ".join(f"{RANKS[i % 13]}{SUITS[i // 13]}" for i in np.flatnonzero(planes[:52] > 0))


def _leduc(environment: Any, observation: Any, agent: str) -> str:
    planes = observation["observation"]
    hand, public = ("JQK"[int(i)] for i in (np.argmax(planes[:3]), np.argmax(planes[3:6])))
    public = public if planes[3:6].any() else "none"
    chips, other_chips = int(np.argmax(planes[6:21])), int(np.argmax(planes[21:36]))
    return f"hand {hand} public {public} own {chips} other {other_chips}"


def _limit_holdem(environment: Any, observation: Any, agent: str) -> str:
    planes = observation["observation"]
    raises = " ".join(str(int(np.argmax(planes[52 + 5 * n : 57 + 5 * n]))) for n in range(4))
    return f"cards {_cards(planes)} raises {raises}"


def _no_limit_holdem(environment: Any, observation: Any, agent: str) -> str:
    planes = observation["observation"]
    return f"cards {_cards(planes)} own {int(planes[52])} most {int(planes[53])}"


def _chess(environment: Any, observation: Any, agent: str) -> str:
    return f"{environment.unwrapped.board}\nFEN: {environment.unwrapped.board.fen()}"


def _chess_move(environment: Any, agent: str, index: int) -> str:
    chess_utils: Any = import_module("pettingzoo.classic.chess.chess_utils")
    seat = environment.possible_agents.index(agent)
    return str(chess_utils.action_to_move(environment.unwrapped.board, index, seat).uci())


def _go_point(environment: Any, agent: str, index: int) -> str:
    size = round((environment.action_space(agent).n - 1) ** 0.5)
    if index == size * size:
        return "pass"
    row, column = divmod(index, size)
    return f"{chr(ord('a') + column)}{row + 1}"


def _last_move(environment: Any, observation: Any, agent: str) -> str:
    names = ("rock", "paper", "scissors", "none")
    return f"other {names[min(int(observation), 3)]}"


_POKER_WORDS = (*(f"{rank}{suit}" for suit in SUITS for rank in RANKS), "cards", *CHIPS)
WORDINGS: Mapping[str, SpaceWording] = {
    "classic/tictactoe": SpaceWording(
        "Tic-tac-toe on 3 by 3 cells. Your marks are X, the other player's O. A free cell is a "
        "number. Three marks in a line win.",
        _board(None),
        tuple(map(str, range(9))),
        ("X", "O"),
        (-1.0, 1.0),
    ),
    "classic/connect_four": SpaceWording(
        "Connect four on a board of 6 rows and 7 columns. Your discs are X, the other player's O. "
        "Name the column, 0 to 6, into which a disc falls. Four discs in a line win.",
        _board("."),
        tuple(map(str, range(7))),
        (".", "X", "O"),
        (-1.0, 1.0),
    ),
    "classic/go": SpaceWording(
        "Go. Your stones are X, the other player's O. Columns are a, b, c, ... from the left, rows "
        "1, 2, 3, ... from the top.",
        _board(".", is_reversed=True),
        _go_point,
        (),
        (-1.0, 1.0),
    ),
    "classic/chess": SpaceWording(
        "Chess. Moves are in UCI notation.", _chess, _chess_move, (), (-1.0, 1.0)
    ),
    "classic/leduc_holdem": SpaceWording(
        "Leduc hold'em. Each player has one card of J, Q, K; a public card follows the first bets. "
        "The numbers are the chips of you and of the other player in the pot.",
        _leduc,
        ("call", "raise", "fold", "check"),
        ("hand", "public", "own", "other", "J", "Q", "K", "none", *CHIPS[:15]),
        (-7.0, 7.0),
    ),
    "classic/texas_holdem": SpaceWording(
        "Limit Texas hold'em for two. The cards are yours and the public ones; the numbers are "
        "the raises in each of four rounds.",
        _limit_holdem,
        ("call", "raise", "fold", "check"),
        ("raises", *_POKER_WORDS),
        (-24.0, 24.0),
    ),
    "classic/texas_holdem_no_limit": SpaceWording(
        "No-limit Texas hold'em for two. The cards are yours and the public ones; the numbers are "
        "your chips in the pot and the most chips of a player.",
        _no_limit_holdem,
        ("fold", "call", "half", "pot", "all"),
        ("own", "most", *_POKER_WORDS),
        (-100.0, 100.0),
    ),
    "classic/rps": SpaceWording(
        "Rock, paper, scissors, several rounds. You see the other player's last choice.",
        _last_move,
        ("rock", "paper", "scissors"),
        ("other", "none"),
        (-15.0, 15.0),
    ),
}


@dataclass(kw_only=True, eq=False)
class PettingZoo(WordedEnvironment):
    """An environment of PettingZoo with discrete actions, AEC or parallel.

    What: the library's rules. A seat reads its observation in words, and names a legal action (the
    action mask). Rewards of all steps add up to the returns. The classic games have wordings here;
    for other environments give ``word``, otherwise a seat reads the numbers of its observation.
    When to use: to train in the games and simulators of the multi-agent field.
    Pitfalls: in the classic games a copy of a play is exact. In other environments the seed and the
    replies are played again, so searches with many copies are slow. Environments that only draw
    pictures (Atari, MPE) need ``word``. Bounds of payoffs are known for the classic games only.
    Reference: PettingZoo (arXiv 2009.14471), version 1.27.0.
    Verified by: tests/bridges/test_farama.py.

    Args:
        game: id of the registry, such as "classic/connect_four-v3"; or "module.function", a
            function with this name in a module of your own with the line SLOT = "pettingzoo". It is
            called with ``arguments`` and returns an AEC or parallel environment.
        api: which registry an id is taken from, "aec" (default) or "parallel".
        arguments: further arguments of the environment.
        word: "module.function" of a function of (observation, agent) that returns the observation
            in words, in a module with the line SLOT = "pettingzoo".
        actions: a word per action, in the order of their numbers; () (default): those of the
            wording, or the numbers.
        payoffs: the least and the greatest return; null (default): those of the wording, if any.
        turns: the episode is truncated after this number of replies; 0 (default): 1,000.
        style: "full" (default): sentences. "brief": few words, for the tiny model.
        call_seconds: limit of one call into the library; 0: the limit of the run.
    """

    game: str = "classic/tictactoe-v3"
    api: Literal["aec", "parallel"] = "aec"

    name = "pettingzoo"

    def __post_init__(self) -> None:
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame must open no window
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        self.max_turns = self.turns or MAX_TURNS
        library = import_library("pettingzoo", "pettingzoo", TESTED)
        ids = library.aec_registry if self.api == "aec" else library.parallel_registry
        self.set_up(
            ids,
            lambda game: library.make(self.api, game, **(self.arguments or {})),
            WORDINGS.get(self.game.rpartition("-v")[0], NUMBERS),
        )
        with self.probe():
            sample = self.make()
            sample.reset(seed=0)
            self.roles = tuple(map(str, sample.possible_agents))
            for agent in self.roles:
                check_discrete(self, sample.action_space(agent))
            sample.close()
        self.num_seats = len(self.roles)
        self.cooperative = self.num_seats == 1

    def reset(self, stream: Stream) -> PettingZooPlay:
        """Return a new play."""
        return PettingZooPlay(self, library_seed(stream))


class PettingZooPlay(WordedPlay):
    """A play of an environment of PettingZoo."""

    rules: PettingZoo

    def begin(self) -> None:
        """Make and reset the environment."""
        super().begin()
        self.library = self.rules.make()
        result = self.library.reset(seed=self.seed)
        self._is_parallel = not hasattr(self.library, "agent_selection")
        self._observations, self._infos = result if self._is_parallel else ({}, {})
        self._read_state()
        self.first_texts = repr(self.views)

    def _read_state(self) -> None:
        game = self.library
        if not self._is_parallel:
            agents = [game.agent_selection] if game.agents else []
            while agents and (game.terminations[agents[0]] or game.truncations[agents[0]]):
                game.step(None)  # an agent that is done must step once with None
                agents = [game.agent_selection] if game.agents else []
        else:
            agents = game.agents
        self.done = not agents
        self.due_seats = tuple(sorted(map(self.rules.roles.index, agents)))
        for seat in self.due_seats:
            agent = self.rules.roles[seat]
            observation = self._observations[agent] if self._is_parallel else game.observe(agent)
            mask = observation.get("action_mask") if isinstance(observation, Mapping) else None
            if mask is None:
                infos = self._infos if self._is_parallel else game.infos
                mask = infos.get(agent, {}).get("action_mask")
            self.set_view(seat, agent, observation, game.action_space(agent), mask)

    def advance(self, replies: Mapping[int, str]) -> None:
        """Apply the actions."""
        game, roles = self.library, self.rules.roles
        numbers = self.take_actions(replies)
        if self._is_parallel:
            actions = {roles[seat]: number for seat, number in numbers.items()}
            self._observations, rewards, _, _, self._infos = game.step(actions)
        else:
            game.step(*numbers.values())
            rewards = game.rewards  # of this step, for all agents
        self.add_rewards({roles.index(agent): value for agent, value in rewards.items()})
        self._read_state()

    def copy_library(self) -> bool:
        """Copy a classic game; other environments are replayed."""
        if self._is_parallel or not self.rules.game.startswith("classic/"):
            return False
        self.library = _copy_game(self.library, {})
        return True


def _copy_game(game: Any, memo: dict[int, Any]) -> Any:
    """Return a copy of a game and its wrappers; ``deepcopy`` of a wrapper would make a new game."""
    game_copy = memo[id(game)] = object.__new__(type(game))
    for name, value in vars(game).items():
        is_game = name == "env" and hasattr(value, "possible_agents")
        vars(game_copy)[name] = _copy_game(value, memo) if is_game else copy.deepcopy(value, memo)
    return game_copy


def library_ids() -> list[str]:
    """Return the ids of the classic games."""
    registry = import_library("pettingzoo", "pettingzoo", TESTED).aec_registry
    return [name for name in registry if name.startswith("classic/")]


pettingzoo = PettingZoo
