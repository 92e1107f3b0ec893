"""Random legal play that speaks in tokens, to be imitated during warm-up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparring.environments.base import random_reply
from sparring.players.base import PendingTurn, Reply
from sparring.players.biased import BiasedAgent
from sparring.registry import Bound


class DemonstratorAgent:
    """Says a random legal action the way the renderer writes a complete reply."""

    def __init__(
        self,
        name: str,
        renderer: Any,
        context: Bound | None = None,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        self.name = name
        self.renderer = renderer
        self.context = context
        self._leaning = BiasedAgent(weights) if weights else None

    def act(self, turns: Sequence[PendingTurn]) -> list[Reply]:
        """Return one legal reply per pending turn; its log-probabilities are 0."""
        return [self._say(turn) for turn in turns]

    def _say(self, turn: PendingTurn) -> Reply:
        text = turn.memory
        if text is None and self._leaning is not None:
            text = self._leaning.choose(turn.state, turn.seat, turn.stream)
        elif text is None:
            legal = turn.state.legal(turn.seat)
            text = random_reply(turn.state, turn.seat, legal, turn.stream)
        ids = self.renderer.reply(text)
        return Reply(text=text, ids=ids, logprobs=(0.0,) * len(ids))


def demonstrator(
    *,
    renderer: Any,
    name: str = "demonstrator",
    context: Bound | None = None,
    weights: Mapping[str, float] | None = None,
) -> DemonstratorAgent:
    """Random legal moves, written as the learner writes its own, for the optional warm-up.

    Args:
        renderer: the learner's renderer, which writes the replies.
        name: what the agent is called.
        context: the learner's context strategy, bound. null (default): full.
        weights: weight by action, as of ``biased``. null (default): all are equally likely.
    """
    return DemonstratorAgent(name, renderer, context, weights)
