"""A language model in a seat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from sparring.config.plugins.registry import BoundPlugin
from sparring.core.errors import ConfigError, GameError
from sparring.core.records import FloatArray, SampleRequest, SampleResult, SamplingParams
from sparring.models.samplers.base import (
    Backend,
    SampleBatch,
    Sampler,
    backend_of,
    finished,
    finished_together,
)
from sparring.play.context.base import Ledger
from sparring.play.players.base import PendingTurn, Reply

# to a conversation that could not be sent
OVERLONG = SampleResult(ids=(), logprobs=(), truncated=True)


@dataclass(kw_only=True, eq=False)
class PolicyAgent:
    """The language model that is trained, or a snapshot: what it says is its move.

    Args:
        sampler: draws the replies from the model.
        renderer: lays conversations out in tokens, and reads replies.
        params: length limit, temperature and truncation of the replies.
        name: what the agent is called.
        context: the context strategy, bound: what it sees of its past. null (default): full.
        in_flight: plays that it is asked in at once. null (default): as many as there are.
    """

    sampler: Sampler
    renderer: Any
    params: SamplingParams
    name: str = "policy"
    context: BoundPlugin | None = None
    in_flight: int | None = None

    # whether a conversation that has outgrown the model is an error; otherwise the model is not
    # asked, and the reply is an empty truncated one, with which the episode is truncated
    refuse_overlong = False

    def act(self, turns: Sequence[PendingTurn]) -> list[Reply]:
        """Return one sampled reply per pending turn, in order.

        Raises:
            ModelError: a conversation has outgrown the model, and that is not to be passed over.
        """
        found: list[Reply | None] = [None] * len(turns)
        for replies in self.submit(turns):
            for place, reply in replies:
                found[place] = reply
        return [reply for reply in found if reply is not None]

    def submit(self, turns: Sequence[PendingTurn]) -> Iterator[list[tuple[int, Reply]]]:
        """Yield sampled replies with the places of their turns, as the sampler finishes them.

        Raises:
            ModelError: as for ``act``.
        """
        lot, senders = self.lot(turns)
        coming = finished(lot.sampler, lot.requests, lot.params, lot.stop_ids)
        return _replies(senders, coming)

    @property
    def together(self) -> PolicyAgents | None:
        """What asks it in one call with others whose samplers have the same backend."""
        backend = backend_of(self.sampler)
        return None if backend is None else PolicyAgents(backend)

    def lot(self, turns: Sequence[PendingTurn]) -> tuple[SampleBatch, list[Sender]]:
        """Return what its sampler is to be asked, and who waits for it, turn by turn."""
        longest, version = self._longest, self.sampler.version
        fits = [len(turn.ids) <= longest for turn in turns]
        requests = [
            SampleRequest(turn.ids, turn.stream.key, turn.known) for turn in compress(turns, fits)
        ]
        lot = SampleBatch(self.sampler, requests, self.params, self.renderer.stop_ids)
        return lot, [Sender(self, version, fit) for fit in fits]

    def reply(self, result: SampleResult, version: int) -> Reply:
        """Return what was sampled as a reply.

        Args:
            result: ids and log-probabilities.
            version: of the weights that the sampler had when it was asked.
        """
        ids, logprobs, truncated, kept, runs = result
        last = runs[-1].version if runs else version
        return Reply(self.renderer.parse(ids), ids, logprobs, kept, truncated, last, runs)

    @property
    def _longest(self) -> float:
        room = self.sampler.context - self.params.max_new_tokens
        return float("inf") if self.refuse_overlong else room

    def action_logprobs(self, queries: Sequence[Any]) -> list[FloatArray]:
        """Return for each query the log-probability that the reply is each legal action.

        It is written as the game writes it.

        The conversation is laid out exactly as a rollout would, token for token. What is missing
        from one is the probability of replies that are no legal action; that is all of it where the
        conversation has outgrown the model.

        Args:
            queries: records with ``observations``, ``actions`` (the seat's own so far) and
                ``legal_actions``; see ``measure.info_states.Query``.

        Raises:
            GameError: the context strategy lets the model write a memory, and as for
                ``reply_logprobs``.
            ModelError: as for ``act``.
        """
        prompts = [self._conversation(query) for query in queries]
        return self.reply_logprobs(prompts, [query.legal_actions for query in queries])

    def reply_logprobs(
        self, prompts: Sequence[tuple[int, ...]], actions: Sequence[Sequence[str]]
    ) -> list[FloatArray]:
        """Return for each conversation the log-probability that the reply is each action.

        Args:
            prompts: exact ids of conversations in which a reply is due.
            actions: for each the actions, as the game writes them.

        Raises:
            GameError: the renderer leaves room for thoughts, so that many replies mean one action,
                or the sampler scores no replies.
            ModelError: as for ``act``.
        """
        if not self.renderer.scorable:
            raise GameError(
                "Exact evaluation needs one reply per action; renderer.thinking leaves room for "
                "thoughts. Use matches instead."
            )
        score = self.sampler.score
        if score is None:
            raise GameError(
                f"Exact evaluation needs probabilities of given replies, and the sampler "
                f"{type(self.sampler).__name__} has no score. Use matches instead, or "
                "sampler.name=in_process."
            )
        ends = self.renderer.stop_ids  # any of them ends the reply
        replies = [
            [(*self.renderer.reply(action)[:-1], end) for action in own for end in ends]
            for own in actions
        ]
        fits = [len(prompt) <= self._longest for prompt in prompts]
        asked = [
            (prompt, reply)
            for prompt, reply, fit in zip(prompts, replies, fits, strict=True)
            if fit
        ]
        scored = iter(
            score([prompt for prompt, _ in asked], [reply for _, reply in asked], self.params)
        )
        return [
            np.logaddexp.reduce(np.reshape(next(scored), (len(own), len(ends))), axis=1)
            if fit
            else np.full(len(own), -np.inf)
            for own, fit in zip(actions, fits, strict=True)
        ]

    def _conversation(self, query: Any) -> tuple[int, ...]:
        ledger = Ledger(self.renderer, self.context)
        seen = query.seen or (None,) * len(query.observations)
        for action, text, observation in zip(
            (None, *query.actions), query.observations, seen, strict=True
        ):
            if action is not None:
                ledger.record(Reply(text=action, ids=self.renderer.reply(action)))
            ledger.ask(text, observation)
            if ledger.wanted is not None:
                raise GameError(
                    f"Exact evaluation needs one reply per action, and the {self.context} lets the "
                    "model write a memory of many wordings. Use matches instead."
                )
        return ledger.ids


class Sender(NamedTuple):
    """Who waits for the reply to a turn, and whether the conversation could be sent."""

    agent: PolicyAgent
    version: int
    sent: bool


@dataclass(frozen=True, slots=True)
class PolicyAgents:
    """Asks policies whose samplers have one backend; see ``players.base``."""

    backend: Backend

    def submit(
        self, asked: Sequence[tuple[PolicyAgent, Sequence[PendingTurn]]]
    ) -> Iterator[Sequence[tuple[int, Reply]]]:
        """Yield sampled replies with the places of their turns, as the backend finishes them.

        Args:
            asked: the agents and their turns.

        Raises:
            ModelError: as for ``PolicyAgent.act``.
        """
        pairs = [agent.lot(turns) for agent, turns in asked]
        senders = [sender for _, own in pairs for sender in own]
        return _replies(senders, finished_together(self.backend, [lot for lot, _ in pairs]))


def _replies(
    senders: Sequence[Sender], coming: Iterator[Sequence[tuple[int, SampleResult]]]
) -> Iterator[list[tuple[int, Reply]]]:
    """Yield what samplers have finished as replies, first those to what was not sent.

    Args:
        senders: of all turns.
        coming: replies with their places among what was sent.
    """
    places = [place for place, sender in enumerate(senders) if sender.sent]
    overlong = [place for place, sender in enumerate(senders) if not sender.sent]
    if overlong:
        yield [(place, _reply(senders[place], OVERLONG)) for place in overlong]
    for results in coming:
        yield [(places[place], _reply(senders[places[place]], one)) for place, one in results]


def _reply(sender: Sender, result: SampleResult) -> Reply:
    return sender.agent.reply(result, sender.version)


def check_room(who: str, longest: int, context: int) -> None:
    """Refuse replies so long that no prompt fits before them.

    Args:
        who: begins the complaint, up to the name of the setting.
        longest: the longest reply in tokens.
        context: the longest conversation of the model in tokens.

    Raises:
        ConfigError: ``longest`` is not below ``context``.
    """
    if longest >= context:
        raise ConfigError(
            f"{who}max_new_tokens={longest} leaves no room for a prompt in the model's context of "
            f"{context} tokens; write fewer, such as {min(32, max(context // 2, 1))}."
        )


policy = PolicyAgent
