"""Episodes in which code outside of Sparring replies for some seats.

The modules ``pettingzoo``, ``gymnasium`` and ``textarena`` show these episodes in the interfaces of
these libraries. The episodes are those of ``sparring.play_episodes``: equal seeds give equal
initial states and opponents, and the environment's rule decides about illegal replies.
"""

from __future__ import annotations

import operator
import secrets
from collections.abc import Mapping
from typing import Any

from sparring.api.plays import add_agent, episode_spec, make_environment
from sparring.api.runs import Run, check_integer
from sparring.core.errors import ConfigError, GameError, quoted
from sparring.core.records import Episode
from sparring.core.rng import Stream
from sparring.environments.base import Environment, Play
from sparring.environments.combining import ending_of
from sparring.environments.foreign import environment_call
from sparring.play.episode import Draft, EpisodeInPlay
from sparring.play.players.base import Agent, FailedPlay, Reply, TextAgent, replies
from sparring.play.spec import EpisodeSpec
from sparring.play.team import seat_single_agents

SEEDS = 2**31  # random seeds are below this number


class ExternalPlayer(TextAgent):
    """The player of a seat whose replies come from outside; nobody asks it."""

    name = "external"

    def choose(self, state: Play, seat: int, stream: Stream) -> str:
        """Raise GameError, as this player has no replies of its own."""
        raise GameError(f"Seat {seat} is played from outside, so no player can be asked for it.")


class ExternalEpisode:
    """One episode that waits for replies from outside.

    Attributes:
        play: the live play; to be read only.
        waiting: the decision of each seat that waits for a reply, by seat, ascending.
        texts: the prompts and replies of each seat's conversation so far, [num_seats] lists.
        payoffs: payoffs so far minus the penalties for illegal replies, [num_seats].
        rewards: change of the payoffs by the latest reply, [num_seats].
        record: the record; None: the episode is not over.
        results: the text of the result for each seat, [num_seats]; "" if there is none.

    Raises:
        GameError: the environment's code raised an error.
    """

    def __init__(self, spec: EpisodeSpec, agents: Mapping[str, Agent]) -> None:
        (spec,), self._agents, _, _ = seat_single_agents([spec], agents)
        self._game, self._names = spec.game, tuple(map(str, spec.players))
        with environment_call(self._game):
            self._episode = EpisodeInPlay(spec, self._agents)
        self.play = self._episode.play
        self.waiting: dict[int, Draft] = {}
        self.texts: list[list[str]] = [[] for _ in self._names]
        self.rewards = self.payoffs = (0.0,) * len(self._names)
        self.record: Episode | None = None
        self.results = [""] * len(self._names)
        self._penalties = [0.0] * len(self._names)
        self._replies: dict[int, Reply] = {}
        self._continue()

    @property
    def has_ended(self) -> bool:
        """Whether the episode came to its end."""
        return self.record is not None and not self.record.cut

    @property
    def is_truncated(self) -> bool:
        """Whether a limit truncated the episode."""
        return self.record is not None and self.record.cut

    def reply(self, seat: int, text: str) -> None:
        """Take the reply of a waiting seat.

        Replies of one moment are applied together, so the episode continues when no seat waits.
        """
        del self.waiting[seat]
        self.texts[seat].append(text)
        self._replies[seat] = Reply(text=text)
        self.rewards = (0.0,) * len(self._names)
        if not self.waiting:
            self._apply()
            self._continue()

    def close(self) -> None:
        """Release the resources of the play."""
        self._episode.close()

    def _continue(self) -> None:
        """Ask players until a seat waits for a reply from outside, or the episode is over."""
        while not self._episode.done:
            with environment_call(self._game):
                turns = self._episode.ask()
            for draft, turn in zip(self._episode.due_drafts, turns, strict=True):
                seat, name = draft.seat, self._names[draft.seat]
                if draft.observation.fresh:
                    self.texts[seat].clear()
                self.texts[seat].append(draft.prompt)
                if isinstance(self._agents[name], ExternalPlayer):
                    self.waiting[seat] = draft
                    continue
                (reply,) = replies(name, self._agents[name], [turn])
                if isinstance(reply, FailedPlay):
                    raise reply.error
                self._replies[seat] = reply
            if self.waiting:
                break
            self._apply()
        else:
            self._finish()
        returns = self.play.returns if self.record is None else self.record.returns
        payoffs = tuple(float(a) - b for a, b in zip(returns, self._penalties, strict=True))
        self.rewards = tuple(a - b for a, b in zip(payoffs, self.payoffs, strict=True))
        self.payoffs = payoffs

    def _apply(self) -> None:
        drafts = self._episode.due_drafts
        with environment_call(self._game):
            self._episode.answer([self._replies[draft.seat] for draft in drafts])
        self._replies = {}
        for draft in drafts:
            self._penalties[draft.seat] += draft.penalty

    def _finish(self) -> None:
        self.record = self._episode.finish()
        if self.play.done:
            with environment_call(self._game):
                self.results = [ending_of(self.play, seat) for seat in range(len(self._names))]
        self.close()


class EpisodeSource:
    """Plays episodes of one environment, one after another.

    Args:
        environment: an environment or its name.
        options: options of an environment that is given by its name.
        seat: the only seat that is played from outside; None: every seat is.
        opponent: the player of all other seats.

    Attributes:
        environment: the environment.

    Raises:
        UnknownNameError: there is no such environment or option.
        ConfigError: there is no such seat, or the opponent cannot be made.
    """

    def __init__(
        self,
        environment: str | Environment,
        options: Mapping[str, Any],
        seat: int | None = None,
        opponent: str | Run | Agent = "random",
    ) -> None:
        if isinstance(environment, str):
            environment = make_environment(environment, **options)
        elif not hasattr(environment, "num_seats") or options:
            raise ConfigError(
                f"environment={quoted(environment)}, options={quoted(dict(options))}: write a name "
                "with its options, or the result of sparring.make_environment alone."
            )
        self.environment, num_seats = environment, environment.num_seats
        if seat is not None and (type(seat) is not int or not 0 <= seat < num_seats):
            raise ConfigError(
                f"seat={quoted(seat)}: {environment.name} has {num_seats} seats; write a number "
                f"from 0 to {num_seats - 1}."
            )
        self._agents: dict[str, Agent] = {}
        self._trained = tuple(seat in (None, number) for number in range(num_seats))
        external = ExternalPlayer()
        self._seats = tuple(
            add_agent(external if is_external else opponent, self._agents)
            for is_external in self._trained
        )
        self._seed, self._number = -1, 0
        self._episode: ExternalEpisode | None = None

    @property
    def episode(self) -> ExternalEpisode:
        """The latest episode.

        Raises:
            GameError: there is none.
        """
        if self._episode is None:
            raise GameError(f"{self.environment.name}: no episode has begun; call reset() first.")
        return self._episode

    def begin(self, seed: int | None) -> ExternalEpisode:
        """Begin the next episode.

        Args:
            seed: begins with the first episode of ``play_episodes(seed=seed)``. None: the next one
                of them; if there was no seed before, a random seed is drawn.

        Raises:
            ConfigError: the seed is not a whole number of at least 0.
        """
        self.close()
        if seed is None and self._seed < 0:
            seed = secrets.randbelow(SEEDS)
        if seed is not None:
            seed = operator.index(seed) if hasattr(seed, "__index__") else seed  # of numpy
            check_integer(seed, "seed", 0)
            self._seed, self._number = seed, 0
        spec = episode_spec(
            self.environment,
            self._seats,
            self._trained,
            seed=self._seed,
            number=self._number,
            group=self._number,
        )
        self._number += 1
        self._episode = ExternalEpisode(spec, self._agents)
        return self._episode

    def reply(self, seat: int, text: str) -> ExternalEpisode:
        """Take the reply of a seat, and return the episode.

        Raises:
            GameError: the seat does not wait for a reply, or the reply is not a text.
        """
        name = self.environment.name
        if seat not in self.episode.waiting:
            raise GameError(
                f"{name}: seat {seat} replied with {quoted(text)} after the end of the episode; "
                "call reset() first."
            )
        if not isinstance(text, str):
            raise GameError(
                f"{name}: the reply {quoted(text)} of seat {seat} is not a text; write a text."
            )
        self.episode.reply(seat, text)
        return self.episode

    def close(self) -> None:
        """Release the resources of the latest episode."""
        if self._episode is not None:
            self._episode.close()
