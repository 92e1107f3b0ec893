"""Solvers of OpenSpiel as references for self-play: CFR, CFR+, sampled CFR and MMD."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyspiel

from sparring.core.rng import Stream
from sparring.environments.base import Environment
from sparring.environments.catalogue import make_game
from sparring.environments.openspiel.base import as_game
from sparring.environments.openspiel.solvers import PolicyTable, policy_table
from sparring.measure.exploitability import evaluate_exploitability, scorer_from_table
from sparring.measure.info_states import enumerate_info_states

Solver = Literal["cfr", "cfr_plus", "external_sampling", "mmd"]
CFR = {"cfr": pyspiel.CFRSolver, "cfr_plus": pyspiel.CFRPlusSolver}
ALPHA, STEP = 0.005, 0.5  # entropy weight and step size of MMD, in units of the largest payoff


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    """A solver of OpenSpiel.

    Args:
        solver: name of the solver.
        each: number of its iterations that count as one full pass.
        seeded: whether the solver uses random numbers.
    """

    solver: Solver
    each: int = 1
    seeded: bool = False


REFERENCES = {
    "CFR": Reference(solver="cfr"),
    "CFR+": Reference(solver="cfr_plus"),
    "external-sampling MCCFR": Reference(solver="external_sampling", each=100, seeded=True),
    "MMD": Reference(solver="mmd"),
}


def gaps(name: str, game: str, at: Sequence[int], seed: int) -> list[float]:
    """Return the NashConv of a solver's policies after each of these numbers of iterations.

    Args:
        name: a name in ``REFERENCES``.
        game: name of an environment.
        at: numbers of passes, ascending; a pass is ``Reference.each`` iterations of the solver.
        seed: seed of the random draws.
    """
    reference, rules = REFERENCES[name], make_game(game)
    states = enumerate_info_states(rules)
    solver_seed = Stream.from_seed(seed).child(name).integer(0, 2**31 - 1)
    iterations = [number * reference.each for number in at]
    largest = float(abs(states.tree.returns).max())
    units = {"alpha": ALPHA * largest, "step": STEP / largest}
    tables = iterates(rules, reference.solver, iterations, seed=solver_seed, **units)
    return [
        evaluate_exploitability(rules, states, scorer_from_table(states, table)).nash_conv
        for table in tables
    ]


def iterates(
    game: Environment, solver: Solver, at: Sequence[int], *, seed: int, alpha: float, step: float
) -> Iterator[PolicyTable]:
    """Yield the policies of a solver after each of these numbers of iterations.

    Use each table before you request the next one.

    Args:
        game: a zero-sum game of two seats with information states.
        solver: "cfr", "cfr_plus", "external_sampling" (averages) or "mmd" (the last iterate).
        at: numbers of iterations, ascending, the first at least 1.
        seed: seed of external sampling, below 2 ** 31.
        alpha: weight of the entropy in "mmd", which converges to the equilibrium with this weight.
        step: step size of "mmd".
    """
    advance: Callable[[], Any]
    read_policy: Callable[[], PolicyTable]
    if solver == "mmd":
        from open_spiel.python.algorithms.mmd_dilated import MMDDilatedEnt

        mmd = MMDDilatedEnt(as_game(game).spiel, alpha=alpha, stepsize=step)
        advance, read_policy = mmd.update_sequences, lambda: _of_python(mmd.get_policies())
    elif solver == "external_sampling":
        sampled = pyspiel.ExternalSamplingMCCFRSolver(as_game(game).spiel, seed)
        states = _information_states(game)
        advance, read_policy = (
            sampled.run_iteration,
            lambda: _of_states(states, sampled.average_policy()),
        )
    else:
        regrets = CFR[solver](as_game(game).spiel)
        advance, read_policy = regrets.evaluate_and_update_policy, regrets.tabular_average_policy
    num_done = 0
    for number in at:
        for _ in range(number - num_done):
            advance()
        num_done = number
        yield read_policy()


def _information_states(game: Environment) -> dict[str, pyspiel.State]:
    """Return a state of every information state of a game."""
    states: dict[str, pyspiel.State] = {}
    stack = [as_game(game).spiel.new_initial_state()]
    while stack:
        state = stack.pop()
        if not (state.is_terminal() or state.is_chance_node()):
            states.setdefault(state.information_state_string(), state)
        stack += [state.child(action) for action in state.legal_actions()]
    return states


def _of_states(states: Mapping[str, pyspiel.State], policy: Any) -> PolicyTable:
    """Return a policy as a table, also for states that its solver never visited."""
    return policy_table(
        {key: policy.action_probabilities(state).items() for key, state in states.items()}
    )


def _of_python(policy: Any) -> PolicyTable:
    """Return a Python ``TabularPolicy`` of OpenSpiel as a C++ one, with only legal actions."""
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
