"""A player that samples the average policy of counterfactual regret minimisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from sparring.core.errors import GameError, TooLargeError
from sparring.core.rng import Stream
from sparring.environments.base import GameRules, Play, Searchable, SearchablePlay
from sparring.environments.combining import innermost_play
from sparring.environments.openspiel.position import pick_outcome
from sparring.environments.openspiel.solvers import CfrVariant, PolicyTable, average_policy
from sparring.play.players.base import TextAgent

Variant = CfrVariant


@dataclass(kw_only=True, eq=False)
class CfrAgent(TextAgent):
    """Samples the average policy of CFR or CFR+, which is near an equilibrium.

    Args:
        iterations: passes over the game tree, at least 1. After 400 (default) of CFR+, NashConv is
            0.0003 in Kuhn and 0.002 in Leduc poker.
        variant: the solver: "cfr" or "cfr_plus" (default).
        max_histories: largest number of histories of the game tree, at least 1. A larger game is an
            error.

    Raises:
        ConfigError: a number is out of range.

    Reference: Zinkevich et al., "Regret minimization in games with incomplete information", 2007;
    Tammelin, "CFR+", 2014.
    """

    iterations: Annotated[int, Field(ge=1)] = 400
    variant: Variant = "cfr_plus"
    max_histories: Annotated[int, Field(ge=1)] = 500_000

    name = "cfr"

    def __post_init__(self) -> None:
        self._policies: dict[str, PolicyTable] = {}

    def policy(self, game: Searchable) -> PolicyTable:
        """Return the average policy of the game.

        Raises:
            GameError: the game has no information states.
            TooLargeError: the game tree has more than ``max_histories`` histories.
        """
        key = game.rules_key
        if key not in self._policies:
            self._check_game(game)
            self._policies[key] = average_policy(game, self.variant, self.iterations)
        return self._policies[key]

    def choose(self, state: Play, seat: int, stream: Stream) -> str:
        """Return an action drawn with the average policy's probabilities."""
        position: SearchablePlay = innermost_play(state)
        probabilities = self.policy(position.game).action_probabilities(position.node)
        return position.game.word_of(
            position, seat, pick_outcome(sorted(probabilities.items()), stream.uniform(0))
        )

    def chances(self, state: Play, seat: int) -> dict[str, float]:
        """Return the average policy's probabilities.

        Raises:
            GameError: the game has no information states.
            TooLargeError: the game tree has more than ``max_histories`` histories.
        """
        position: SearchablePlay = innermost_play(state)
        probabilities = self.policy(position.game).action_probabilities(position.node)
        word_of = position.game.word_of
        return {word_of(position, seat, action): p for action, p in probabilities.items()}

    def _check_game(self, game: Searchable) -> None:
        if not game.has_info_states:
            raise GameError(
                f"Agent 'cfr' needs information states, which OpenSpiel lacks for {game.name!r}; "
                "write agent random there."
            )
        if not has_at_most_histories(game, self.max_histories):
            raise TooLargeError(
                f"Agent 'cfr': the tree of {game.name!r} has over "
                f"max_histories={self.max_histories} histories; write agent mcts there."
            )


def has_at_most_histories(game: GameRules, limit: int) -> bool:
    """Return whether the game tree has at most ``limit`` histories."""
    open_nodes, num_histories = [game.first_node()], 0
    while open_nodes:
        node = open_nodes.pop()
        num_histories += 1
        if num_histories + len(open_nodes) > limit:
            return False
        if not node.is_terminal():
            open_nodes.extend(node.child(action) for action in node.legal_actions())
    return True


cfr = CfrAgent
