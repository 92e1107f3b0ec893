"""A language model as a player: the trained policy, or a snapshot of it."""

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
    stream_backend_replies,
    stream_replies,
)
from sparring.play.context.base import Ledger
from sparring.play.players.base import PendingTurn, Reply

# the result of a conversation that was too long to be sent
OVERLONG = SampleResult(ids=(), logprobs=(), truncated=True)


@dataclass(kw_only=True, eq=False)
class PolicyAgent:
    """The trained language model, or a snapshot, as a player.

    Args:
        sampler: samples the replies.
        renderer: encodes conversations, and reads replies.
        params: length limit, temperature and truncation of the replies.
        name: the agent's name.
        context: the context strategy, bound. null (default): full.
        in_flight: number of episodes at once. null (default): no limit.
    """

    sampler: Sampler
    renderer: Any
    params: SamplingParams
    name: str = "policy"
    context: BoundPlugin | None = None
    in_flight: int | None = None

    # whether a conversation that is too long for the model is an error; otherwise it is not sent,
    # and an empty truncated reply ends the episode
    refuse_overlong = False

    def act(self, turns: Sequence[PendingTurn]) -> list[Reply]:
        """Return one sampled reply per pending turn, in order.

        Raises:
            ModelError: a conversation is too long for the model, and ``refuse_overlong`` is true.
        """
        replies: list[Reply | None] = [None] * len(turns)
        for batch in self.submit(turns):
            for index, reply in batch:
                replies[index] = reply
        return [reply for reply in replies if reply is not None]

    def submit(self, turns: Sequence[PendingTurn]) -> Iterator[list[tuple[int, Reply]]]:
        """Yield sampled replies with the indices of their turns, as the sampler finishes them.

        Raises:
            ModelError: as for ``act``.
        """
        batch, senders = self.sample_batch(turns)
        results = stream_replies(batch.sampler, batch.requests, batch.params, batch.stop_ids)
        return _yield_replies(senders, results)

    @property
    def together(self) -> PolicyAgents | None:
        """The joint call of policies whose samplers have the same backend."""
        backend = backend_of(self.sampler)
        return None if backend is None else PolicyAgents(backend)

    def sample_batch(self, turns: Sequence[PendingTurn]) -> tuple[SampleBatch, list[Sender]]:
        """Return the sampler's requests for these turns, and a sender per turn."""
        version = self.sampler.version
        can_send = [len(turn.ids) <= self._longest_prompt for turn in turns]
        requests = [
            SampleRequest(turn.ids, turn.stream.key, turn.known)
            for turn in compress(turns, can_send)
        ]
        batch = SampleBatch(self.sampler, requests, self.params, self.renderer.stop_ids)
        return batch, [Sender(self, version, is_sent) for is_sent in can_send]

    def reply(self, result: SampleResult, version: int) -> Reply:
        """Return a sampled result as a reply.

        Args:
            result: ids and log-probabilities.
            version: version of the sampler's weights at the request.
        """
        ids, logprobs, truncated, support, spans = result
        last_version = spans[-1].version if spans else version
        text = self.renderer.parse(ids)
        return Reply(text, ids, logprobs, support, truncated, last_version, spans)

    @property
    def _longest_prompt(self) -> float:
        longest = self.sampler.context - self.params.max_new_tokens
        return float("inf") if self.refuse_overlong else longest

    def action_logprobs(self, queries: Sequence[Any]) -> list[FloatArray]:
        """Return for each query the log-probability of each legal action as the reply.

        The conversation is the same as in a rollout, token for token. The remaining probability
        belongs to illegal replies: all of it if the conversation is too long for the model.

        Args:
            queries: records with ``observations``, ``actions`` (the seat's earlier actions) and
                ``legal_actions``; see ``measure.info_states.Query``.

        Raises:
            GameError: the context strategy has memories, or as for ``reply_logprobs``.
            ModelError: as for ``act``.
        """
        prompts = [self._conversation(query) for query in queries]
        return self.reply_logprobs(prompts, [query.legal_actions for query in queries])

    def reply_logprobs(
        self, prompts: Sequence[tuple[int, ...]], actions: Sequence[Sequence[str]]
    ) -> list[FloatArray]:
        """Return for each conversation the log-probability of each action as the reply.

        Args:
            prompts: exact ids of conversations in which a reply is due.
            actions: actions of each conversation, in the wording of the environment.

        Raises:
            GameError: the renderer allows thoughts, so that many replies mean one action, or the
                sampler cannot score replies.
            ModelError: as for ``act``.
        """
        if not self.renderer.scorable:
            raise GameError(
                "Exact evaluation needs one reply per action; renderer.thinking allows "
                "thoughts. Use matches instead."
            )
        score = self.sampler.score
        if score is None:
            raise GameError(
                f"Exact evaluation needs probabilities of replies, and the sampler "
                f"{type(self.sampler).__name__} has no score. Use matches instead, or "
                "sampler.name=in_process."
            )
        end_ids = self.renderer.stop_ids  # a reply may end with any of them
        replies = [
            [(*self.renderer.reply(action)[:-1], end) for action in legal for end in end_ids]
            for legal in actions
        ]
        can_send_flags = [len(prompt) <= self._longest_prompt for prompt in prompts]
        pairs = [
            (prompt, reply)
            for prompt, reply, can_send in zip(prompts, replies, can_send_flags, strict=True)
            if can_send
        ]
        logprobs = iter(
            score([prompt for prompt, _ in pairs], [reply for _, reply in pairs], self.params)
        )
        return [
            np.logaddexp.reduce(np.reshape(next(logprobs), (len(legal), len(end_ids))), axis=1)
            if can_send
            else np.full(len(legal), -np.inf)
            for legal, can_send in zip(actions, can_send_flags, strict=True)
        ]

    def _conversation(self, query: Any) -> tuple[int, ...]:
        ledger = Ledger(self.renderer, self.context)
        observations = query.seen or (None,) * len(query.observations)
        for action, text, observation in zip(
            (None, *query.actions), query.observations, observations, strict=True
        ):
            if action is not None:
                ledger.record(Reply(text=action, ids=self.renderer.reply(action)))
            ledger.ask(text, observation)
            if ledger.memory_example is not None:
                raise GameError(
                    f"Exact evaluation needs one reply per action, and the {self.context} lets the "
                    "model write a memory of many wordings. Use matches instead."
                )
        return ledger.ids


class Sender(NamedTuple):
    """The agent of a turn, the version of its weights, and whether the conversation was sent."""

    agent: PolicyAgent
    version: int
    is_sent: bool


@dataclass(frozen=True, slots=True)
class PolicyAgents:
    """The joint call of policies whose samplers have one backend; see ``players.base``."""

    backend: Backend

    def submit(
        self, calls: Sequence[tuple[PolicyAgent, Sequence[PendingTurn]]]
    ) -> Iterator[Sequence[tuple[int, Reply]]]:
        """Yield sampled replies with the indices of their turns, as the backend finishes them.

        Args:
            calls: the agents and their turns.

        Raises:
            ModelError: as for ``PolicyAgent.act``.
        """
        pairs = [agent.sample_batch(turns) for agent, turns in calls]
        senders = [sender for _, call_senders in pairs for sender in call_senders]
        batches = [batch for batch, _ in pairs]
        return _yield_replies(senders, stream_backend_replies(self.backend, batches))


def _yield_replies(
    senders: Sequence[Sender], results: Iterator[Sequence[tuple[int, SampleResult]]]
) -> Iterator[list[tuple[int, Reply]]]:
    """Yield replies: first those of conversations that were too long, then the samplers' results.

    Args:
        senders: the sender of each turn.
        results: results with their indices among the sent conversations.
    """
    indices = [index for index, sender in enumerate(senders) if sender.is_sent]
    overlong_indices = [index for index, sender in enumerate(senders) if not sender.is_sent]
    if overlong_indices:
        yield [(index, _reply(senders[index], OVERLONG)) for index in overlong_indices]
    for batch in results:
        yield [(indices[index], _reply(senders[indices[index]], result)) for index, result in batch]


def _reply(sender: Sender, result: SampleResult) -> Reply:
    return sender.agent.reply(result, sender.version)


def check_reply_length(setting: str, longest: int, context: int) -> None:
    """Raise an error if replies are so long that the context has no room for a prompt.

    Args:
        setting: beginning of the error, before ``max_new_tokens``.
        longest: length limit of a reply, in tokens.
        context: length limit of the model's conversations, in tokens.

    Raises:
        ConfigError: ``longest`` is not below ``context``.
    """
    if longest >= context:
        raise ConfigError(
            f"{setting}max_new_tokens={longest} leaves no room for a prompt in the model's context "
            f"of {context} tokens; write fewer, such as {min(32, max(context // 2, 1))}."
        )


policy = PolicyAgent
