"""A player whose moves are encoded as the learner's replies, for imitation in the warm-up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sparring.config.plugins.registry import BoundPlugin
from sparring.core.errors import ConfigError
from sparring.environments.base import random_reply
from sparring.play.players.base import PendingTurn, Reply, TextAgent


@dataclass(kw_only=True, eq=False)
class DemonstratorAgent:
    """A player's moves, encoded as the learner's replies, for the optional warm-up.

    Args:
        renderer: the learner's renderer, which encodes the replies.
        name: the agent's name.
        context: the learner's context strategy, bound. null (default): full.
        player: the imitated player (see ``imitated_player``). null (default): random legal play.
    """

    renderer: Any
    name: str = "demonstrator"
    context: BoundPlugin | None = None
    player: TextAgent | None = None

    def act(self, turns: Sequence[PendingTurn]) -> list[Reply]:
        """Return one legal reply per pending turn; its log-probabilities are 0."""
        return [self._reply(turn) for turn in turns]

    def _reply(self, turn: PendingTurn) -> Reply:
        text = turn.memory
        if text is None and self.player is not None:
            text = self.player.choose(turn.state, turn.seat, turn.stream)
        elif text is None:
            legal = turn.state.legal(turn.seat)
            text = random_reply(turn.state, turn.seat, legal, turn.stream)
        ids = self.renderer.reply(text)
        return Reply(text=text, ids=ids, logprobs=(0.0,) * len(ids))


def imitated_player(player: BoundPlugin | None) -> TextAgent | None:
    """Return the player that the warm-up imitates; None: random legal play.

    Raises:
        ConfigError: the player replies to prompts, such as a model or an endpoint.
    """
    if player is None:
        return None
    agent = player()
    if not isinstance(agent, TextAgent):
        raise ConfigError(
            f"warmup.player: {player.plugin.name!r} replies to prompts, and the warm-up imitates "
            "players that choose by the state alone; write one such as biased, scripted, minimax "
            "or mcts, or leave it out for random legal play."
        )
    return agent


demonstrator = DemonstratorAgent
