"""Random legal play that speaks in tokens, to be imitated during warm-up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparring.environments.base import random_reply
from sparring.players.base import PendingTurn, Reply
from sparring.registry import Bound


class DemonstratorAgent:
    """Says a random legal action the way the renderer writes a complete reply."""

    def __init__(self, name: str, renderer: Any, context: Bound | None = None) -> None:
        self.name = name
        self.renderer = renderer
        self.context = context

    def act(self, turns: Sequence[PendingTurn]) -> list[Reply]:
        """Return one uniformly drawn legal reply per pending turn; its log-probabilities are 0."""
        return [self._say(turn) for turn in turns]

    def _say(self, turn: PendingTurn) -> Reply:
        text = turn.memory
        if text is None:
            legal = turn.state.legal(turn.seat)
            text = random_reply(turn.state, turn.seat, legal, turn.stream)
        ids = self.renderer.reply(text)
        return Reply(text=text, ids=ids, logprobs=(0.0,) * len(ids))


def demonstrator(
    *, renderer: Any, name: str = "demonstrator", context: Bound | None = None
) -> DemonstratorAgent:
    """Random legal moves, written as the learner writes its own, for the optional warm-up.

    Args:
        renderer: the learner's renderer, which writes the replies.
        name: what the agent is called.
        context: the learner's context strategy, bound. null (default): full.
    """
    return DemonstratorAgent(name, renderer, context)
