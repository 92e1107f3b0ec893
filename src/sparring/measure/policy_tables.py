"""Between the tables of policies that solvers use and ours.

Known policies in, policies to be best-responded to out.
"""

from __future__ import annotations

from collections.abc import Sequence

from sparring.environments.openspiel.base import Game
from sparring.environments.openspiel.solvers import PolicyTable, average_policy, policy_table
from sparring.errors import ConfigError
from sparring.measure.info_states import InfoStates
from sparring.measure.policies import TabularScorer
from sparring.types import FloatArray


def to_table(info_states: InfoStates, policy: Sequence[FloatArray]) -> PolicyTable:
    """Return a policy as a table that solvers take.

    Args:
        info_states: I of them.
        policy: I arrays of probabilities over legal actions, [num_legal] each.
    """
    rows = zip(info_states.node_keys, info_states.legal_ids, policy, strict=True)
    return policy_table({key: zip(ids, row.tolist(), strict=True) for key, ids, row in rows})


def from_table(info_states: InfoStates, policy: PolicyTable) -> TabularScorer:
    """Return a solver's policy as a scorer.

    The table is copied at once, so ``policy`` may be a view of a solver that goes on or goes away.
    """
    table = {}
    for query, ids, key in zip(
        info_states.queries, info_states.legal_ids, info_states.node_keys, strict=True
    ):
        probabilities = policy.action_probabilities(key)
        table[query.seat, query.key] = {
            word: probabilities.get(index, 0.0)
            for word, index in zip(query.legal_actions, ids, strict=True)
        }
    return TabularScorer(table)


def cfr_average(game: Game, info_states: InfoStates, *, iterations: int) -> TabularScorer:
    """Return the average policy of counterfactual regret minimisation.

    It tends to an equilibrium of two-seat zero-sum games.

    Args:
        game: the game.
        info_states: of ``enumerate_info_states(game)``.
        iterations: CFR iterations, at least 1; NashConv falls about like 1 / sqrt(iterations) or
            faster.

    Raises:
        ConfigError: fewer than 1 iteration.

    Reference: Zinkevich et al., "Regret minimization in games with incomplete information", 2007.
    """
    if iterations < 1:
        raise ConfigError(
            f"CFR needs at least 1 iteration, got iterations={iterations}; write iterations=1000."
        )
    return from_table(info_states, average_policy(game, "cfr", iterations))
