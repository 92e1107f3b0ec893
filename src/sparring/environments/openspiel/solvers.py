"""OpenSpiel's solvers: regret minimisation, best responses, Monte Carlo tree search."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np
import pyspiel

from sparring.environments.enumerable import Node
from sparring.environments.openspiel.base import Game, State
from sparring.environments.openspiel.table import TableGame
from sparring.environments.walked import walk
from sparring.ops.cfr import average_strategies

_MEMORY_MB = 256
CfrVariant = Literal["cfr", "cfr_plus"]
IterateVariant = Literal["cfr", "cfr_plus", "external_sampling", "mmd"]
_SOLVERS = {"cfr": pyspiel.CFRSolver, "cfr_plus": pyspiel.CFRPlusSolver}


class PolicyTable(Protocol):
    """Probabilities of actions by information state: OpenSpiel's ``TabularPolicy``."""

    def action_probabilities(self, where: Node | str, /) -> dict[int, float]:
        """Return the probability of each action id at a node, or by an information state's text."""


class SearchNode(Protocol):
    """A node of a search tree: OpenSpiel's ``SearchNode``."""

    action: int  # that led to it
    explore_count: int  # simulations that went through it
    total_reward: float  # of these, for the seat that took ``action``
    outcome: list[float]  # [num_seats] the payoffs, where they are proven, else empty
    children: Sequence[SearchNode]

    def best_child(self) -> SearchNode:
        """Return the child to play: proven to be best, or visited most."""


def average_policy(game: Game, variant: CfrVariant, iterations: int) -> PolicyTable:
    """Return the average policy of counterfactual regret minimisation.

    Rules written in Python are solved on arrays, the others by OpenSpiel.

    Args:
        game: with information states.
        variant: the solver, "cfr" or "cfr_plus".
        iterations: passes over the game's tree.
    """
    if isinstance(game.spiel, TableGame):
        return _on_arrays(game, iterations, plus=variant == "cfr_plus")
    solver = _SOLVERS[variant](game.spiel)
    for _ in range(iterations):
        solver.evaluate_and_update_policy()
    # a copy: average_policy() dangles without its solver
    table: PolicyTable = solver.tabular_average_policy()
    return table


def _on_arrays(game: Game, iterations: int, *, plus: bool) -> PolicyTable:
    """Return the average policy of CFR+, or of CFR, after one walk over the game's histories."""
    found = walk(game)
    widths = np.array([len(actions) for actions in found.legal], dtype=np.int64)
    policy = average_strategies(found.tree, found.seats, widths, iterations, plus=plus)
    return policy_table(
        {
            key: zip(actions, row.tolist(), strict=True)
            for (_, key), actions, row in zip(found.number, found.legal, policy, strict=True)
        }
    )


def iterates(
    game: Game, solver: IterateVariant, at: Sequence[int], *, seed: int, alpha: float, step: float
) -> Iterator[PolicyTable]:
    """Yield what a solver's policies have come to after each of these numbers of iterations.

    Each is to be read before the next one is asked for.

    Args:
        game: of two seats, zero-sum, with information states.
        solver: "cfr", "cfr_plus", "external_sampling" (averages) or "mmd" (the last iterate).
        at: numbers of iterations, ascending, the first at least 1.
        seed: of external sampling, below 2 ** 31.
        alpha: weight of the entropy in "mmd"; it tends to the equilibrium under this weight.
        step: size of the steps of "mmd".
    """
    advance: Callable[[], Any]
    read: Callable[[], PolicyTable]
    if solver == "mmd":
        from open_spiel.python.algorithms.mmd_dilated import MMDDilatedEnt

        mmd = MMDDilatedEnt(game.spiel, alpha=alpha, stepsize=step)
        advance, read = mmd.update_sequences, lambda: _of_python(mmd.get_policies())
    elif solver == "external_sampling":
        sampled = pyspiel.ExternalSamplingMCCFRSolver(game.spiel, seed)
        states = _information_states(game)
        advance, read = sampled.run_iteration, lambda: _of_states(states, sampled.average_policy())
    else:
        regrets = _SOLVERS[solver](game.spiel)
        advance, read = regrets.evaluate_and_update_policy, regrets.tabular_average_policy
    done = 0
    for wanted in at:
        for _ in range(wanted - done):
            advance()
        done = wanted
        yield read()


def _information_states(game: Game) -> dict[str, pyspiel.State]:
    """Return a state of every information state of a game."""
    found: dict[str, pyspiel.State] = {}
    stack = [game.spiel.new_initial_state()]
    while stack:
        state = stack.pop()
        if not (state.is_terminal() or state.is_chance_node()):
            found.setdefault(state.information_state_string(), state)
        stack += [state.child(action) for action in state.legal_actions()]
    return found


def _of_states(states: Mapping[str, pyspiel.State], policy: Any) -> PolicyTable:
    """Return a policy as a table; it is asked by states, also where its solver never came."""
    return policy_table(
        {key: policy.action_probabilities(state).items() for key, state in states.items()}
    )


def _of_python(policy: Any) -> PolicyTable:
    """Return OpenSpiel's ``TabularPolicy`` of Python as one of C++, legal actions alone."""
    return policy_table(
        {
            key: [
                (action, float(policy.action_probability_array[row, action]))
                for action in range(policy.action_probability_array.shape[1])
                if policy.legal_actions_mask[row, action]
            ]
            for key, row in policy.state_lookup.items()
        }
    )


def policy_table(rows: Mapping[str, Iterable[tuple[int, float]]]) -> PolicyTable:
    """Return a policy from its probabilities by action id, by information state's text."""
    table: PolicyTable = pyspiel.TabularPolicy({key: list(row) for key, row in rows.items()})
    return table


def best_response_value(game: Game, seat: int, table: PolicyTable) -> float:
    """Return what ``seat`` earns by its best response to all others following ``table``.

    ``table`` is an argument, never a temporary: TabularBestResponse keeps a bare pointer to it.
    """
    response = pyspiel.TabularBestResponse(game.spiel, seat, table)
    return float(response.value_from_state(game.spiel.new_initial_state()))


def tree_search(
    state: State,
    *,
    simulations: int,
    rollouts: int,
    uct_c: float,
    solve: bool,
    seeds: Sequence[int],
) -> SearchNode:
    """Return the root of a UCT search with random rollouts, over histories in which all is seen.

    Args:
        state: where the search begins.
        simulations: in all.
        rollouts: random playouts per leaf.
        uct_c: weight of the exploration term.
        solve: whether proven results are backed up.
        seeds: two, of the rollouts and of the search, each below 2 ** 31.
    """
    evaluator = pyspiel.RandomRolloutEvaluator(rollouts, seeds[0])
    bot = pyspiel.MCTSBot(
        state.game.spiel, evaluator, uct_c, simulations, _MEMORY_MB, solve, seeds[1], False
    )
    # what bot.step does, but step gives up Python's lock, and rules written in Python then crash
    root: SearchNode = bot.mcts_search(state.spiel)
    return root
