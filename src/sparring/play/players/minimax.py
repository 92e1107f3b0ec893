"""Perfect play in small games, by exhaustive search with a table of positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from sparring.core.errors import GameError, TooLargeError
from sparring.core.rng import Stream
from sparring.environments.base import Node, Play, SearchablePlay
from sparring.environments.combining import innermost_play
from sparring.environments.openspiel.solve import Search, reason_unsolvable
from sparring.play.players.base import TextAgent


@dataclass(kw_only=True, eq=False)
class MinimaxAgent(TextAgent):
    """Draws uniformly among the best actions of a small two-seat game of perfect information.

    Args:
        max_states: largest number of positions in the table, at least 1. A game with more positions
            is an error.
        random_moves: probability of a random legal action instead, in [0, 1]. Default 0.

    Raises:
        ConfigError: a number is out of range.
    """

    max_states: Annotated[int, Field(ge=1)] = 200_000
    random_moves: Annotated[float, Field(ge=0, le=1)] = 0.0

    name = "minimax"

    def __post_init__(self) -> None:
        self._searches: dict[str, Search] = {}

    def choose(self, state: Play, seat: int, stream: Stream) -> str:
        """Return one of the best actions, or a random legal one.

        Raises:
            GameError: the game has chance, hidden information or not two opposed seats.
            TooLargeError: the game has more than ``max_states`` positions.
        """
        position: SearchablePlay = innermost_play(state)
        if self.random_moves and stream.uniform(1) < self.random_moves:
            legal = position.legal_actions()
            return legal[stream.integer(0, len(legal))]
        values = self.action_values(position)
        best_value = max(values.values())
        actions = [action for action, value in values.items() if value == best_value]
        return actions[stream.integer(0, len(actions))]

    def chances(self, state: Play, seat: int) -> dict[str, float]:
        """Return the probabilities of the legal actions.

        Raises:
            GameError, TooLargeError: as for ``choose``.
        """
        values = self.action_values(innermost_play(state))
        best_value = max(values.values())
        count = sum(value == best_value for value in values.values())
        return {
            action: self.random_moves / len(values)
            + (1.0 - self.random_moves) * (value == best_value) / count
            for action, value in values.items()
        }

    def action_values(self, state: SearchablePlay) -> dict[str, float]:
        """Return the exact value of each legal action for the seat to act, in the game's units."""
        game = state.game
        if reason_unsolvable(game):
            raise GameError(
                "Agent 'minimax' needs two opposed seats, no chance and nothing hidden, "
                f"unlike {game.name!r}; write agent mcts or cfr."
            )
        search = self._searches.setdefault(game.rules_key, Search(game, self.max_states))
        sign = 1.0 if state.seat == 0 else -1.0
        node = state.node
        legal_pairs = zip(state.legal_actions(), node.legal_actions(), strict=True)
        return {
            action: sign * self._value(node.child(index), search, game.name)
            for action, index in legal_pairs
        }

    def _value(self, node: Node, search: Search, name: str) -> float:
        low, high = search.bounds(node)
        if low < high:
            raise TooLargeError(
                f"Agent 'minimax': {name!r} has over max_states={self.max_states} positions; "
                "write agent mcts there."
            )
        return low


minimax = MinimaxAgent
