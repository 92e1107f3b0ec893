"""Solvers of games over OpenSpiel: CFR, best responses and Monte Carlo tree search."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Protocol

import numpy as np
import pyspiel

from sparring.environments.base import GameRules, Node, SearchablePlay
from sparring.environments.openspiel.base import as_game
from sparring.environments.tree_arrays import walk
from sparring.ops.game_tree import average_strategies

_MEMORY_MB = 256
CfrVariant = Literal["cfr", "cfr_plus"]


class PolicyTable(Protocol):
    """Probabilities of actions by information state: OpenSpiel's ``TabularPolicy``."""

    def action_probabilities(self, where: Node | str, /) -> dict[int, float]:
        """Return the probability of each action id at a node, or by an information state's text."""


class SearchNode(Protocol):
    """A node of a search tree: OpenSpiel's ``SearchNode``."""

    action: int  # the action that led to the node
    explore_count: int  # number of simulations through the node
    total_reward: float  # sum of the simulations' returns for the seat that took ``action``
    outcome: list[float]  # [num_seats] the payoffs if proven, else empty
    children: Sequence[SearchNode]

    def best_child(self) -> SearchNode:
        """Return the child to play: proven best, or most visited."""


def average_policy(game: GameRules, variant: CfrVariant, iterations: int) -> PolicyTable:
    """Return the average policy of counterfactual regret minimisation.

    Args:
        game: a game with information states.
        variant: the solver, "cfr" or "cfr_plus".
        iterations: number of passes over the game's tree.
    """
    tree = walk(game)
    num_actions = np.array([len(actions) for actions in tree.legal], dtype=np.int64)
    is_plus = variant == "cfr_plus"
    policy = average_strategies(tree.tree, tree.seats, num_actions, iterations, plus=is_plus)
    return policy_table(
        {
            key: zip(actions, row.tolist(), strict=True)
            for (_, key), actions, row in zip(tree.index_of, tree.legal, policy, strict=True)
        }
    )


def policy_table(rows: Mapping[str, Iterable[tuple[int, float]]]) -> PolicyTable:
    """Return a policy from rows: information state -> (action id, probability) pairs."""
    table: PolicyTable = pyspiel.TabularPolicy({key: list(row) for key, row in rows.items()})
    return table


def best_response_value(game: GameRules, seat: int, table: PolicyTable) -> float:
    """Return the best response value of ``seat`` if all other seats follow ``table``.

    The caller must keep a reference to ``table``: TabularBestResponse has only a raw pointer to it.
    """
    spiel = as_game(game).spiel
    response = pyspiel.TabularBestResponse(spiel, seat, table)
    return float(response.value_from_state(spiel.new_initial_state()))


def tree_search(
    state: SearchablePlay,
    *,
    simulations: int,
    rollouts: int,
    uct_c: float,
    solve: bool,
    seeds: Sequence[int],
) -> SearchNode:
    """Return the root of a UCT search with random rollouts, for games of perfect information.

    Args:
        state: the state at the root.
        simulations: number of simulations.
        rollouts: number of random playouts per leaf.
        uct_c: weight of the exploration term.
        solve: whether to back up proven results.
        seeds: two seeds below 2 ** 31, one for the rollouts and one for the search.
    """
    evaluator = pyspiel.RandomRolloutEvaluator(rollouts, seeds[0])
    bot = pyspiel.MCTSBot(
        as_game(state.game).spiel, evaluator, uct_c, simulations, _MEMORY_MB, solve, seeds[1], False
    )
    # bot.step releases Python's lock, and then crashes with rules written in Python
    root: SearchNode = bot.mcts_search(state.node)
    return root
