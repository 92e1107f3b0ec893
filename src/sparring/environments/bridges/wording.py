"""Words for environments whose observations and actions are numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from sparring.core.errors import ConfigError, quoted
from sparring.core.records import Observation
from sparring.environments.bridges.base import (
    CALL_SECONDS,
    BridgeEnvironment,
    BridgePlay,
    as_number,
    check_id,
    load_function,
)
from sparring.environments.reply import REPLY

RULES_UNCHANGED = {"board_size", "is_slippery", "map_name", "desc"}  # with the same payoffs
MAX_LISTED = 60  # largest number of legal actions in a prompt


class SpaceWording(NamedTuple):
    """The wording of an environment whose observations are numbers.

    Args:
        rules: sentences for the first prompt, in full style.
        describe: returns an observation in words, from (library's object, observation, agent).
        actions: a word per action; or a function of (library's object, agent, number).
        words: all words of ``describe``, for the tiny model; (): unknown.
        payoffs: the least and the greatest return; None: unknown.
    """

    rules: str
    describe: Callable[[Any, Any, str], str]
    actions: Sequence[str] | Callable[[Any, str, int], str]
    words: tuple[str, ...] = ()
    payoffs: tuple[float, float] | None = None


def _as_text(environment: Any, observation: Any, agent: str) -> str:
    with np.printoptions(threshold=10_000, precision=4, suppress=True):
        return f"observation {observation}"


NUMBERS = SpaceWording("", _as_text, lambda environment, agent, index: str(index))


def check_discrete(environment: WordedEnvironment, space: Any) -> None:
    """Check that actions are discrete."""
    if not hasattr(space, "n"):
        raise ConfigError(
            f"environments {environment.name!r}: the actions of {environment.game_id!r} are "
            f"{quoted(str(space))}, and only Discrete actions have words; choose another id."
        )
    words = environment.wording.actions
    if not callable(words) and (len(words) != int(space.n) or len({*words}) != len(words)):
        raise ConfigError(
            f"environments {environment.name!r}: {environment.game_id!r} has {space.n} actions, "
            f"and the words are {', '.join(words)}; write actions=[...] with a word for each."
        )


@dataclass(kw_only=True, eq=False)
class WordedEnvironment(BridgeEnvironment):
    """Base of environments with a ``SpaceWording``; the subclasses describe the options."""

    game: str
    arguments: dict[str, Any] | None = None
    word: str = ""
    actions: tuple[str, ...] = ()
    payoffs: tuple[float, float] | None = None
    turns: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    style: Literal["full", "brief"] = "full"
    call_seconds: Annotated[float, Field(ge=0)] = CALL_SECONDS

    def set_up(
        self, ids: Mapping[str, Any], make: Callable[[str], Any], wording: SpaceWording
    ) -> None:
        """Set the constructor of the library's object, and the wording with the options.

        Args:
            ids: the ids of the library.
            make: makes an object from its id.
            wording: the wording without the options.
        """
        self.game_id, slot = self.game, self.name
        if "." in self.game:
            function = load_function(slot, self.game)
            self.make: Callable[[], Any] = lambda: function(**(self.arguments or {}))
        else:
            check_id(slot, self.game, ids)
            self.make = lambda: make(self.game)
        if self.word:
            describe = load_function(slot, self.word)
            wording = wording._replace(
                describe=lambda library, seen, agent: describe(seen, agent), words=()
            )
        self.wording = wording._replace(actions=self.actions or wording.actions)
        self.brief = self.style == "brief"
        if self.brief and (not self.wording.words or callable(self.wording.actions)):
            raise ConfigError(
                f"environments {slot!r}: {self.game!r} has no list of all its words, which "
                "the tiny model needs; write style=full and a language model."
            )
        has_known_rules = not set(self.arguments or {}) - RULES_UNCHANGED
        self.set_payoffs(self.payoffs or (wording.payoffs if has_known_rules else None))

    def legal_numbers(self, library: Any, agent: str, space: Any, mask: Any) -> dict[str, int]:
        """Return the numbers of the legal actions by their words."""
        first, actions = int(getattr(space, "start", 0)), self.wording.actions
        indices = range(int(space.n)) if mask is None else map(int, np.flatnonzero(mask))
        if callable(actions):
            return {actions(library, agent, first + index): first + index for index in indices}
        return {actions[index]: first + index for index in indices}

    def vocabulary(self) -> tuple[str, ...]:
        """Return every word of prompts and replies in brief style."""
        actions = () if callable(self.wording.actions) else self.wording.actions
        return tuple(sorted({*self.wording.words, *actions}))


class WordedPlay(BridgePlay):
    """Base of plays with a ``SpaceWording``; ``set_view`` sets what a seat that is due sees."""

    rules: Any

    def begin(self) -> None:
        """Forget the views of an earlier start."""
        self.views: dict[int, str] = {}
        self.legal_numbers: dict[int, dict[str, int]] = {}
        self.due_seats: tuple[int, ...] = ()
        self._has_prompt: frozenset[int] = frozenset()

    def set_view(self, seat: int, agent: str, observation: Any, space: Any, mask: Any) -> None:
        """Set the observation and the legal actions of a seat that is due."""
        rules = self.rules
        text = rules.wording.describe(self.library, observation, agent)
        numbers = rules.legal_numbers(self.library, agent, space, mask)
        self.views = {**self.views, seat: text}  # new mappings, as copies of the play share them
        self.legal_numbers = {**self.legal_numbers, seat: numbers}
        self.add_to_knowledge(seat, text)

    def due(self) -> tuple[int, ...]:
        """Return the seats to reply."""
        return self.due_seats

    def legal(self, seat: int) -> tuple[str, ...]:
        """Return the legal actions in words."""
        return tuple(self.legal_numbers[seat])

    def observe(self, seat: int) -> Observation:
        """Return the observation of a seat in words; in full style the first one has the rules."""
        rules, text = self.rules, self.views[seat]
        if rules.brief:
            return Observation(prompt=text, key=self.key(seat), view=text)
        role = f"You are {rules.roles[seat]}." if rules.num_seats > 1 else ""
        view = f"{rules.wording.rules} {role}".strip() + f"\n\n{text}"
        actions = self.legal(seat)
        ask = f"{REPLY} {actions[0]}"
        if len(actions) <= MAX_LISTED:
            ask = f"Legal actions: {', '.join(actions)}.\n{ask}"
        prompt = text if seat in self._has_prompt else view.strip()
        return Observation(prompt=prompt, key=self.key(seat), view=view.strip(), ask=ask)

    def take_actions(self, replies: Mapping[int, str]) -> dict[int, int]:
        """Return the numbers of the actions that the seats reply, by seat."""
        for seat, reply in replies.items():
            self.add_to_knowledge(seat, reply)
        self._has_prompt |= replies.keys()
        return {seat: self.legal_numbers[seat][reply] for seat, reply in replies.items()}

    def add_rewards(self, rewards: Mapping[int, Any]) -> None:
        """Add the rewards of a step to the returns, by seat."""
        where = f"{self.rules.name}: a reward of {self.rules.game_id!r}"
        self.returns = tuple(
            value + as_number(rewards.get(seat, 0.0), where)
            for seat, value in enumerate(self.returns)
        )

    def close(self) -> None:
        """Close the library's object."""
        self.library.close()
