"""Policies as functions of an information state.

The question, the protocol that answers it, and known policies.

Exact evaluation never samples: it asks a policy, at every information state of the game, for the
probability of each legal action. Whatever can answer (a language model, a solver's table, the
uniform policy) is an ``ActionScorer``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from sparring.core.errors import GameError, SparringError
from sparring.core.records import FloatArray, Observation

MASS_TOLERANCE = 1e-3
"""How far above 1 the probabilities of the legal actions may sum.

Log-probabilities in float32 are not exact.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """What one seat has seen and done when it must act: one information state, as a conversation.

    Example:
        Query(game="kuhn_poker", seat=0, key="0pb", observations=("kuhn first J", "bet"),
        actions=("pass",),
              legal_actions=("pass", "bet"))
    """

    game: str
    seat: int
    key: str  # Observation.key
    observations: tuple[str, ...]  # the text of each own turn so far, this one last
    actions: tuple[str, ...]  # the seat's own earlier actions: one shorter than observations
    legal_actions: tuple[str, ...]
    # the records whose texts ``observations`` are, for policies that see more or less than these
    # say; may be left out
    seen: tuple[Observation, ...] = field(default=(), compare=False)
    # the team of each seat, for policies that play each side in another way; may be left out where
    # every seat is a side
    teams: tuple[int, ...] = field(default=(), compare=False)


class ActionScorer(Protocol):
    """Anything that knows the probability of its replies."""

    def action_logprobs(self, queries: Sequence[Query]) -> list[FloatArray]:
        """Return, per query, ln P(the reply is this action) for each of its legal actions.

        Not renormalised: 1 minus the sum of the probabilities is the policy's illegal mass.
        """
        ...


class UniformScorer:
    """The policy that plays every legal action with the same probability."""

    def action_logprobs(self, queries: Sequence[Query]) -> list[FloatArray]:
        """Return -ln(number of legal actions) for every legal action."""
        return [np.full(len(q.legal_actions), -np.log(len(q.legal_actions))) for q in queries]


class TabularScorer:
    """A policy written as a table: (seat, information-state key) -> action string -> probability.

    Actions that are left out have probability 0; probabilities may sum to less than 1 (the rest is
    illegal mass).
    """

    def __init__(self, table: Mapping[tuple[int, str], Mapping[str, float]]) -> None:
        self._table = table

    def action_logprobs(self, queries: Sequence[Query]) -> list[FloatArray]:
        """Return the logarithms of the table's entries.

        Raises:
            GameError: the table lacks an information state.
        """
        return [self._row(query) for query in queries]

    def _row(self, query: Query) -> FloatArray:
        """Return the log-probabilities of one information state."""
        row = self._table.get((query.seat, query.key))
        if row is None:
            raise GameError(
                f"The tabular policy has no row for seat {query.seat} of {query.game} in "
                f"information state {query.key!r}. Give one for every information state: "
                f"{{({query.seat}, {query.key!r}): {{{query.legal_actions[0]!r}: 1.0}}}}."
            )
        with np.errstate(divide="ignore"):
            logprobs: FloatArray = np.log(
                np.array([row.get(action, 0.0) for action in query.legal_actions])
            )
        return logprobs


def renormalise(logprobs: FloatArray) -> tuple[FloatArray, float]:
    """Return the policy over legal actions and the mass outside them.

    policy_a = exp(l_a) / sum_b exp(l_b);  illegal mass = 1 - sum_b exp(l_b)

    Args:
        logprobs: natural log-probabilities of the legal actions, [num_legal]; -inf is allowed.

    Returns:
        The policy, [num_legal], which sums to 1 (uniform if every entry is -inf), and the illegal
        mass in [0, 1].

    Raises:
        SparringError: an entry is NaN or +inf, or the probabilities sum to more than 1.
    """
    logprobs = np.asarray(logprobs, dtype=np.float64)
    top = logprobs.max()
    if np.isnan(logprobs).any() or top == np.inf:
        raise SparringError(
            "Log-probabilities of legal actions must be numbers below infinity, "
            f"got {logprobs.tolist()}."
        )
    mass = float(np.exp(logprobs).sum()) if top < 1.0 else np.inf
    if mass > 1.0 + MASS_TOLERANCE:
        raise SparringError(
            f"The probabilities of the legal actions sum to {mass:.6g}, more than 1: "
            f"log-probabilities {logprobs.tolist()}. An ActionScorer returns natural logarithms "
            "of probabilities, not scores."
        )
    if top == -np.inf:
        return np.full(len(logprobs), 1.0 / len(logprobs)), 1.0
    weights = np.exp(logprobs - top)
    return weights / weights.sum(), max(0.0, 1.0 - mass)
