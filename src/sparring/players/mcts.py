"""Monte Carlo tree search by OpenSpiel, for games of perfect information."""

from __future__ import annotations

from sparring.environments.combining import played
from sparring.environments.openspiel.base import State
from sparring.environments.openspiel.solvers import SearchNode, tree_search
from sparring.environments.options import check_range
from sparring.errors import GameError
from sparring.players.base import Agent, TextAgent
from sparring.rng import Stream

_SEED_BITS = 31


class MctsAgent(TextAgent):
    """UCT search with random rollouts; a fresh tree per decision, seeded by the turn's stream."""

    def __init__(self, simulations: int, uct_c: float, rollouts: int, solve: bool) -> None:
        super().__init__("mcts")
        self.simulations, self.uct_c, self.rollouts, self.solve = (
            simulations,
            uct_c,
            rollouts,
            solve,
        )

    def choose(self, state: State, seat: int, stream: Stream) -> str:
        """Return the action that the search visits most.

        Raises:
            GameError: the game hides something from the seats, so a search over its states would
                peek.
        """
        state = played(state)
        game = state.game
        if not game.perfect_information:
            raise GameError(
                "Agent 'mcts' searches over full states and would see what is hidden "
                f"in {game.name!r}; write agent cfr or random there."
            )
        return game.word_of(state, seat, self.search(state, stream).best_child().action)

    def search(self, state: State, stream: Stream) -> SearchNode:
        """Return the root of a search from a state in which nothing is hidden."""
        seeds = [stream.integer(counter, 1 << _SEED_BITS) for counter in (0, 1)]
        return tree_search(
            state,
            simulations=self.simulations,
            rollouts=self.rollouts,
            uct_c=self.uct_c,
            solve=self.solve,
            seeds=seeds,
        )


def mcts(
    *,
    simulations: int = 100,
    uct_c: float = 2.0,
    rollouts: int = 1,
    solve: bool = False,
) -> Agent:
    """Monte Carlo tree search (UCT) for games of perfect information.

    The number of simulations per move is set.

    Args:
        simulations: simulations per decision, at least 1.
        uct_c: weight of the exploration term of UCT, at least 0.
        rollouts: random playouts per leaf, at least 1.
        solve: true: proven wins and losses are backed up exactly. false (default): they are not.

    Raises:
        ConfigError: a number out of range.

    Reference: Kocsis and Szepesvari, "Bandit based Monte-Carlo planning", 2006; OpenSpiel's
    MCTSBot.
    """
    check_range("mcts: simulations", simulations, 1)
    check_range("mcts: rollouts", rollouts, 1)
    check_range("mcts: uct_c", uct_c, 0)
    return MctsAgent(simulations, uct_c, rollouts, solve)
