"""Environments of Gymnasium with discrete actions, in words, for one seat."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparring.core.rng import Stream
from sparring.environments.bridges.base import import_library, library_seed
from sparring.environments.bridges.wording import (
    NUMBERS,
    SpaceWording,
    WordedEnvironment,
    WordedPlay,
    check_discrete,
)

TESTED = "1.4.0"
MAX_TURNS = 1000  # limit of replies, where Gymnasium has none
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")  # colours of a terminal
_CURSOR = re.compile(r"\x1b\[[0-9;]*m(\S)\x1b\[0m")  # the coloured letter is the agent's place


def rendered(environment: Any, observation: Any, agent: str) -> str:
    """Return the environment's own text, in which brackets mark a coloured letter."""
    text = environment.render()
    return _ESCAPES.sub("", _CURSOR.sub(r"[\1]", text)).strip()


def _blackjack(environment: Any, observation: Any, agent: str) -> str:
    total, dealer, has_ace = observation
    return f"sum {int(total)} dealer {int(dealer)} ace {'yes' if has_ace else 'no'}"


_DIRECTIONS = ("left", "down", "right", "up")
WORDINGS: Mapping[str, SpaceWording] = {
    "FrozenLake": SpaceWording(
        "Walk over the frozen lake from S to G. F is ice, H a hole; brackets mark your place.",
        rendered,
        _DIRECTIONS,
        payoffs=(0.0, 1.0),
    ),
    "CliffWalking": SpaceWording(
        "Walk from the lower left corner to T. C is the cliff: a step there costs 100, any other "
        "step 1. x is your place.",
        rendered,
        ("up", "right", "down", "left"),
    ),
    "Taxi": SpaceWording(
        "Drive the taxi, in brackets. Pick up the passenger, who leaves at the goal. "
        "Walls are | and -.",
        rendered,
        ("south", "north", "east", "west", "pickup", "dropoff"),
    ),
    "Blackjack": SpaceWording(
        "Blackjack. You see the sum of your cards, the dealer's open card, and whether you have an "
        "ace that counts 11.",
        _blackjack,
        ("stick", "hit"),
        ("sum", "dealer", "ace", "yes", "no", *map(str, range(33))),
        (-1.0, 1.0),
    ),
}
CONTROL = ("Acrobot", "CartPole", "MountainCar")
VARIANTS = {"FrozenLake8x8": "FrozenLake", "CliffWalkingSlippery": "CliffWalking"}


@dataclass(kw_only=True, eq=False)
class Gymnasium(WordedEnvironment):
    """An environment of Gymnasium with discrete actions, for one seat.

    What: the library's rules. The seat reads the environment's text (or its numbers), and names an
    action. Rewards of all steps add up to the return. The toy environments have names of actions
    and sentences here.
    When to use: for the toy environments, and for environments of your own with Gymnasium's
    interface.
    Pitfalls: environments with continuous actions are refused; those that only draw pictures need
    ``word``, or show their numbers. Bounds of payoffs are known for few environments.
    Reference: Gymnasium (arXiv 2407.17032), version 1.4.0.
    Verified by: tests/bridges/test_farama.py.

    Args:
        game: id of the registry, such as "FrozenLake-v1"; or "module.function", a function in a
            module of your own with the line SLOT = "gymnasium", which returns an environment.
        arguments: further arguments of the environment, such as {"is_slippery": false}.
        word: "module.function" of a function of (observation, agent) that returns the observation
            in words, in a module with the line SLOT = "gymnasium"; the agent is "player".
        actions: a word per action, in the order of their numbers; () (default): those of the
            wording, or the numbers.
        payoffs: the least and the greatest return; null (default): those of the wording, if any.
        turns: the episode is truncated after this number of replies; 0 (default): the
            environment's own limit, or 1,000.
        style: "full" (default): sentences. "brief": few words, for the tiny model.
        call_seconds: limit of one call into the library; 0: the limit of the run.
    """

    game: str = "FrozenLake-v1"

    name, roles, num_seats, cooperative = "gymnasium", ("player",), 1, True

    def __post_init__(self) -> None:
        library = import_library("gymnasium", "gymnasium", TESTED)
        family = self.game.rpartition("-v")[0]
        wording = WORDINGS.get(VARIANTS.get(family, family), NUMBERS)
        text = {"render_mode": "ansi"} if wording.describe is rendered else {}
        self.set_up(
            library.registry,
            lambda game: library.make(game, **{**text, **(self.arguments or {})}),
            wording,
        )
        with self.probe():
            sample = self.make()
            check_discrete(self, sample.action_space)
            spec = getattr(sample, "spec", None)
            sample.close()
        self.max_turns = self.turns or getattr(spec, "max_episode_steps", None) or MAX_TURNS

    def reset(self, stream: Stream) -> GymnasiumPlay:
        """Return a new play."""
        return GymnasiumPlay(self, library_seed(stream))


class GymnasiumPlay(WordedPlay):
    """A play of an environment of Gymnasium."""

    rules: Gymnasium

    def begin(self) -> None:
        """Make and reset the environment."""
        super().begin()
        self.library = self.rules.make()
        observation, info = self.library.reset(seed=self.seed)
        self._read_state(observation, info)
        self.first_texts = self.views[0]

    def _read_state(self, observation: Any, info: Mapping[str, Any]) -> None:
        self.due_seats = () if self.done else (0,)
        self.add_to_knowledge(0, str(observation))
        space, mask = self.library.action_space, info.get("action_mask")
        self.set_view(0, "player", observation, space, mask)

    def advance(self, replies: Mapping[int, str]) -> None:
        """Apply the action."""
        (number,) = self.take_actions(replies).values()
        observation, reward, has_ended, is_truncated, info = self.library.step(number)
        self.add_rewards({0: reward})
        self.done = bool(has_ended or is_truncated)
        self._read_state(observation, info)

    def copy_library(self) -> bool:
        """Copy an environment of Gymnasium itself; others are replayed."""
        if self.rules.game.rpartition("-v")[0] not in (*WORDINGS, *VARIANTS, *CONTROL):
            return False
        self.library = copy.deepcopy(self.library)
        return True


def library_ids() -> list[str]:
    """Return the ids of the toy environments and of discrete control."""
    registry = import_library("gymnasium", "gymnasium", TESTED).registry
    return [
        name for name in registry if name.rpartition("-v")[0] in (*WORDINGS, *VARIANTS, *CONTROL)
    ]


gymnasium = Gymnasium
