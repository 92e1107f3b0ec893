"""A language model in a seat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparring.agents.base import PendingTurn, Reply
from sparring.errors import GameError
from sparring.types import FloatArray, SampleRequest, SamplingParams


class PolicyAgent:
    """Plays what its sampler says. All turns that are due are sampled in one batch."""

    def __init__(self, name: str, *, sampler: Any, renderer: Any, params: SamplingParams) -> None:
        self.name = name
        self.sampler = sampler
        self.renderer = renderer
        self.params = params

    def act(self, turns: Sequence[PendingTurn]) -> list[Reply]:
        """Return one sampled reply per pending turn, in order."""
        requests = [SampleRequest(ids=turn.ids, stream=turn.stream.key, known=turn.known) for turn in turns]
        parse, version = self.renderer.parse, self.sampler.model.version
        return [
            Reply(
                text=parse(result.ids),
                ids=result.ids,
                logprobs=result.logprobs,
                kept=result.kept,
                truncated=result.truncated,
                weights_version=version,
            )
            for result in self.sampler.sample(requests, self.params, self.renderer.stop_ids)
        ]

    def action_logprobs(self, queries: Sequence[Any]) -> list[FloatArray]:
        """Return for each query the log-probability that the reply is each legal action, written as the game writes it.

        The conversation is laid out exactly as a rollout would, token for token. What is missing from one is the
        probability of replies that are no legal action.

        Args:
            queries: records with ``observations``, ``actions`` (the seat's own so far) and ``legal_actions``.

        Raises:
            GameError: the renderer leaves room for thoughts, so that many replies mean one action.
        """
        if not self.renderer.scorable:
            raise GameError("Exact evaluation needs one reply per action; renderer.thinking leaves room for thoughts. Use matches instead.")
        prompts = [self._conversation(query.observations, query.actions) for query in queries]
        replies = [[self.renderer.reply(action) for action in query.legal_actions] for query in queries]
        scores: list[FloatArray] = self.sampler.score(prompts, replies, self.params)
        return scores

    def _conversation(self, observations: Sequence[str], actions: Sequence[str]) -> tuple[int, ...]:
        """Return the ids of a conversation in which the seat has said these actions."""
        ids: tuple[int, ...] = self.renderer.initial(observations[0])
        for action, text in zip(actions, observations[1:], strict=True):
            ids += self.renderer.reply(action) + self.renderer.append(text)
        return ids


def policy(*, sampler: Any, renderer: Any, params: SamplingParams, name: str = "policy") -> PolicyAgent:
    """Sit a language model in the seat: its sampler draws token by token, its renderer turns ids into words."""
    return PolicyAgent(name, sampler=sampler, renderer=renderer, params=params)
