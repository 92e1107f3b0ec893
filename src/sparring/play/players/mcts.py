"""Monte Carlo tree search by OpenSpiel, for games of perfect information."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from sparring.core.errors import GameError
from sparring.core.rng import Stream
from sparring.environments.base import Play, SearchablePlay
from sparring.environments.combining import innermost_play
from sparring.environments.openspiel.solvers import SearchNode, tree_search
from sparring.play.players.base import TextAgent

_SEED_BITS = 31


@dataclass(kw_only=True, eq=False)
class MctsAgent(TextAgent):
    """Monte Carlo tree search (UCT) for games of perfect information.

    Args:
        simulations: simulations per decision, at least 1.
        uct_c: weight of the exploration term of UCT, at least 0.
        rollouts: random playouts per leaf, at least 1.
        solve: true: proven wins and losses are backed up exactly. false (default): they are not.

    Raises:
        ConfigError: a number is out of range.

    Reference: Kocsis and Szepesvari, "Bandit based Monte-Carlo planning", 2006; OpenSpiel's
    MCTSBot.
    """

    simulations: Annotated[int, Field(ge=1)] = 100
    uct_c: Annotated[float, Field(ge=0)] = 2.0
    rollouts: Annotated[int, Field(ge=1)] = 1
    solve: bool = False

    name = "mcts"

    def choose(self, state: Play, seat: int, stream: Stream) -> str:
        """Return the action that the search visits most.

        Raises:
            GameError: the game has hidden information, which a search over its states would see.
        """
        position: SearchablePlay = innermost_play(state)
        game = position.game
        if not game.perfect_information:
            raise GameError(
                "Agent 'mcts' searches over full states and would see the hidden information "
                f"of {game.name!r}; write agent cfr or random there."
            )
        return game.word_of(state, seat, self.search(position, stream).best_child().action)

    def search(self, state: SearchablePlay, stream: Stream) -> SearchNode:
        """Return the root of a search from a state of perfect information."""
        seeds = [stream.integer(counter, 1 << _SEED_BITS) for counter in (0, 1)]
        return tree_search(
            state,
            simulations=self.simulations,
            rollouts=self.rollouts,
            uct_c=self.uct_c,
            solve=self.solve,
            seeds=seeds,
        )


mcts = MctsAgent
