"""Near-equilibrium play: the average policy of counterfactual regret minimisation, sampled."""

from __future__ import annotations

from typing import Any, Literal

import pyspiel

from sparring.environments.openspiel.base import Game, State
from sparring.environments.openspiel.events import pick
from sparring.environments.options import check_range
from sparring.errors import GameError, TooLargeError
from sparring.players.base import Agent, TextAgent
from sparring.rng import Stream

Variant = Literal["cfr", "cfr_plus"]
_SOLVERS = {"cfr": pyspiel.CFRSolver, "cfr_plus": pyspiel.CFRPlusSolver}


class CfrAgent(TextAgent):
    """Samples from the average policy.

    A game is solved at the agent's first decision in it, then looked up.
    """

    def __init__(self, iterations: int, variant: Variant, max_histories: int) -> None:
        super().__init__("cfr")
        self.iterations, self.variant, self.max_histories = iterations, variant, max_histories
        self._policies: dict[str, Any] = {}

    def policy(self, game: Game) -> Any:
        """Return the average policy (a ``pyspiel.TabularPolicy``) of the game.

        Raises:
            GameError: the game has no information states.
            TooLargeError: the game tree has more than ``max_histories`` histories.
        """
        name = str(game.spiel)
        if name not in self._policies:
            self._check(game)
            solver = _SOLVERS[self.variant](game.spiel)
            for _ in range(self.iterations):
                solver.evaluate_and_update_policy()
            # a copy: average_policy() dangles without its solver
            self._policies[name] = solver.tabular_average_policy()
        return self._policies[name]

    def choose(self, state: State, seat: int, stream: Stream) -> str:
        """Return an action drawn with the average policy's probabilities."""
        probabilities = self.policy(state.game).action_probabilities(state.spiel)
        return state.game.word_of(
            state, seat, pick(sorted(probabilities.items()), stream.uniform(0))
        )

    def _check(self, game: Game) -> None:
        """Refuse games that cannot be solved here."""
        if not game.spiel.get_type().provides_information_state_string:
            raise GameError(
                f"Agent 'cfr' needs information states, which OpenSpiel lacks for {game.name!r}; "
                "write agent random there."
            )
        if not fits(game.spiel, self.max_histories):
            raise TooLargeError(
                f"Agent 'cfr': the tree of {game.name!r} has over "
                f"max_histories={self.max_histories} histories; write agent mcts there."
            )


def fits(spiel: pyspiel.Game, limit: int) -> bool:
    """Return whether the game tree has at most ``limit`` histories."""
    open_states, count = [spiel.new_initial_state()], 0
    while open_states:
        state = open_states.pop()
        count += 1
        if count + len(open_states) > limit:
            return False
        if not state.is_terminal():
            open_states.extend(state.child(action) for action in state.legal_actions())
    return True


def cfr(
    *,
    iterations: int = 400,
    variant: Variant = "cfr_plus",
    max_histories: int = 500_000,
) -> Agent:
    """Average policy after a number of CFR or CFR+ iterations, sampled.

    Near-equilibrium play where the tree is small.

    Args:
        iterations: passes over the game tree, at least 1. NashConv after 400 (default) of CFR+ is
            0.0003 in Kuhn and 0.002 in Leduc poker.
        variant: the solver: "cfr" or "cfr_plus" (default).
        max_histories: the largest game tree to solve, in histories, at least 1. A larger game is an
            error.

    Raises:
        ConfigError: a number out of range.

    Reference: Zinkevich et al., "Regret minimization in games with incomplete information", 2007;
    Tammelin, "CFR+", 2014.
    """
    check_range("cfr: iterations", iterations, 1)
    check_range("cfr: max_histories", max_histories, 1)
    return CfrAgent(iterations, variant, max_histories)
