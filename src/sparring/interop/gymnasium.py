"""Sparring's environments as environments of Gymnasium, in which one seat acts.

An action is the index of one of the environment's actions, or any text if the environment takes any
text. A text is always accepted: the environment parses it like a reply of a language model. An
observation holds the seat's conversation as bytes, and ``info`` holds texts.

Only this module imports Gymnasium; tested with 1.4.0.
"""

from __future__ import annotations

import operator
import string
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sparring.api.runs import Run, check_texts
from sparring.core.errors import ConfigError, GameError, quoted
from sparring.core.rng import Stream
from sparring.environments.base import (
    Environment,
    is_searchable,
    random_replies,
    read_reply,
    temporary_play,
)
from sparring.environments.bridges.base import import_library
from sparring.environments.foreign import environment_call
from sparring.environments.random_episode import NO_ACTION
from sparring.interop.external_episode import EpisodeSource, ExternalEpisode
from sparring.play.players.base import Agent

gymnasium: Any = import_library("gymnasium", "gymnasium", "1.4.0")
spaces: Any = gymnasium.spaces

NUM_BYTES = 4096  # default length of the text in an observation
ANY_TEXT = "any"  # stands for a list of actions
MAX_CHARS = 1000  # length of the longest text in a text space
RANDOM_PLAYS = 32  # number of random plays that collect the actions of an environment
MAX_EMPTY = 1000  # largest number of episodes in sequence without a turn of the seat

Observed = tuple[dict[str, Any], dict[str, Any]]  # an observation and its info


def actions_of(environment: Environment) -> tuple[str, ...] | None:
    """Return all actions of an environment, in order; None: it takes any text.

    If the environment has no list of its actions, random plays collect them.

    Raises:
        ConfigError: the later half of the random plays met new actions, so others may be missing.
    """
    if is_searchable(environment) and environment.words:
        return tuple(environment.words)
    actions: dict[str, None] = {}
    num_early = 0
    for number in range(RANDOM_PLAYS):
        num_early = len(actions) if number == RANDOM_PLAYS // 2 else num_early
        stream, turn = Stream.from_seed(number).child("actions"), 0
        with environment_call(environment), temporary_play(environment, stream) as play:
            while not play.done and turn < environment.max_turns:
                for legal in map(play.legal, play.due()):
                    if legal is None:
                        return None
                    actions |= dict.fromkeys(legal)
                play.step(random_replies(play, stream.child(turn)))
                turn += 1
    if len(actions) > num_early:
        raise ConfigError(
            f"{environment.name}: random play met {num_early} actions, and later others such as "
            f"{quoted([*actions][-1])}; write actions=[...] with all actions, or actions='any' for "
            "texts as actions."
        )
    return tuple(actions)


class Coding:
    """Spaces of an environment, and the coding of its actions and observations.

    Args:
        source: the episodes.
        actions: all actions; "any": any text is an action; None: ``actions_of`` the environment.
        num_bytes: length of the text in an observation.
    """

    def __init__(
        self, source: EpisodeSource, actions: Sequence[str] | None, num_bytes: int
    ) -> None:
        self.source, self.num_bytes = source, num_bytes
        self.actions: tuple[str, ...] | None = None
        if actions is None:
            self.actions = actions_of(source.environment)
        elif actions != ANY_TEXT:
            self.actions = tuple(check_texts(actions, "actions", "['yes', 'no']"))
            if len({*self.actions}) < max(len(self.actions), 1):
                raise ConfigError(
                    f"actions={quoted(actions)} must name each action once; write such as "
                    "actions=['yes', 'no']."
                )
        self._numbers = {action: number for number, action in enumerate(self.actions or ())}

    def spaces(self) -> tuple[Any, Any]:
        """Return a new action space and a new observation space."""
        text = spaces.Box(0, 255, (self.num_bytes,), np.uint8)
        if self.actions is None:
            any_text = spaces.Text(MAX_CHARS, min_length=0, charset=string.printable)
            return any_text, spaces.Dict({"observation": text})
        mask = spaces.Box(0, 1, (len(self.actions),), np.int8)
        text_and_mask = spaces.Dict({"observation": text, "action_mask": mask})
        return spaces.Discrete(len(self.actions)), text_and_mask

    def observe(self, episode: ExternalEpisode, seat: int) -> Observed:
        """Return the observation and the info of a seat.

        Returns:
            The observation: "observation", uint8 [num_bytes], the end of the seat's conversation in
            UTF-8, padded with 0; "action_mask", int8 [num_actions], 1 for legal actions. The info:
            "text", the new prompt, or the result at the end; "is_due", whether the seat must act;
            "legal_actions", None for any text; "role"; and "action_mask" again.
        """
        draft = episode.waiting.get(seat)
        texts = filter(None, [*episode.texts[seat], episode.results[seat]])
        conversation = "\n".join(texts).encode(errors="replace")[-self.num_bytes :]
        observation = {"observation": np.zeros(self.num_bytes, np.uint8)}
        observation["observation"][: len(conversation)] = np.frombuffer(conversation, np.uint8)
        legal = () if draft is None else draft.legal
        info: dict[str, Any] = {
            "text": episode.results[seat] if draft is None else draft.prompt,
            "is_due": draft is not None,
            "legal_actions": legal,
            "role": self.source.environment.roles[seat],
        }
        if self.actions is not None:
            info["action_mask"] = observation["action_mask"] = self._mask(legal)
        return observation, info

    def _mask(self, legal: Sequence[str] | None) -> Any:
        mask = np.zeros(len(self._numbers), np.int8)
        for action in self._numbers if legal is None else legal:
            if action not in self._numbers:
                raise GameError(
                    f"{self.source.environment.name}: the legal action {quoted(action)} is not one "
                    f"of the {len(mask)} actions; write actions=[...] with all actions, "
                    "or actions='any' for texts as actions."
                )
            mask[self._numbers[action]] = 1
        return mask

    def reply(self, seat: int, action: Any) -> ExternalEpisode:
        """Take the action of a seat, and return the episode.

        Raises:
            GameError: the action is neither a text nor in the action space, or the seat is not due.
        """
        draft, environment = self.source.episode.waiting.get(seat), self.source.environment
        if isinstance(action, str) or self.actions is None or draft is None:
            return self.source.reply(seat, action)
        try:
            number = operator.index(action)
        except TypeError:
            number = -1
        if not 0 <= number < len(self.actions):
            raise GameError(
                f"{environment.name}: the action {quoted(action)} of seat {seat} is not in the "
                f"action space; write a number from 0 to {len(self.actions) - 1}, or a text."
            )
        word, legal = self.actions[number], draft.legal
        if legal is not None and word not in legal:  # it must not be read as a legal action
            play = self.source.episode.play
            is_misread = read_reply(play, seat, legal, word, environment.brief) in legal
            word = NO_ACTION if is_misread else word
        return self.source.reply(seat, word)


class GymnasiumEnv(gymnasium.Env):  # type: ignore[misc]
    """One seat of an environment of Sparring; a player has the other seats.

    Equal seeds give equal episodes, those of ``sparring.play_episodes``. The environment's rule
    decides about illegal actions: by default the seat forfeits. Episodes that end before the seat's
    first turn are left out.

    Args:
        environment: a name from `sparring list environments`, or an environment.
        seat: the seat that acts.
        opponent: the player of all other seats: a bot as on the command line ("random", "mcts
            simulations=100"), a run, or an agent.
        actions: all actions, in the order of their indices; "any": any text is an action. None: the
            environment's own list, or the actions that random plays meet.
        num_bytes: length of the text in an observation.
        options: options of the environment; ``illegal`` is its rule for illegal replies.

    Attributes:
        actions: all actions; None: any text is an action.
        source: the episodes; ``source.episode.record`` is the record of the latest one.

    Raises:
        UnknownNameError: there is no such environment or option.
        ConfigError: an argument is wrong, or the list of actions is not known.
    """

    metadata: Mapping[str, Any] = {"render_modes": []}
    render_mode = None

    def __init__(
        self,
        environment: str | Environment,
        *,
        seat: int = 0,
        opponent: str | Run | Agent = "random",
        actions: Sequence[str] | None = None,
        num_bytes: int = NUM_BYTES,
        **options: Any,
    ) -> None:
        self.source, self.seat = EpisodeSource(environment, options, seat, opponent), seat
        self._coding = Coding(self.source, actions, num_bytes)
        self.actions = self._coding.actions
        self.action_space, self.observation_space = self._coding.spaces()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Observed:
        """Begin the next episode; ``EpisodeSource.begin`` describes the seed."""
        super().reset(seed=seed)
        for _ in range(MAX_EMPTY):
            episode, seed = self.source.begin(seed), None
            if episode.waiting:
                return self._coding.observe(episode, self.seat)
        raise GameError(
            f"{self.source.environment.name}: {MAX_EMPTY} episodes ended before the first turn of "
            f"seat {self.seat}; choose another seat or opponent."
        )

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Act, and return when the seat must act again, or the episode is over.

        Returns:
            The observation, the reward, whether the episode ended, whether it was truncated, the
            info.

        Raises:
            GameError: the action is not in the action space, or the episode is over.
        """
        episode = self._coding.reply(self.seat, action)
        observation, info = self._coding.observe(episode, self.seat)
        return (
            observation,
            episode.rewards[self.seat],
            episode.has_ended,
            episode.is_truncated,
            info,
        )

    def close(self) -> None:
        """Release the resources of the episode."""
        self.source.close()
