"""A policy as a table of logits over the legal actions of every information state.

An agent that plays it, and its exact gradient.

With theta[I, a] the logits and pi(a|I) their softmax, the derivative of the expected return of the
seat p that acts in I is

    dJ_p / dtheta[I, a] = reach(I) * pi(a|I) * (Q(I, a) - V(I)).

I information states, P seats, D parameters: one per legal action of every information state, in
that order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from sparring.environments.combining import played
from sparring.environments.openspiel.base import State
from sparring.measure.exact_values import ExactValues, exact_values
from sparring.measure.info_states import InfoStates
from sparring.players.base import TextAgent
from sparring.rng import Stream
from sparring.types import FloatArray, IntArray


@dataclass(frozen=True, kw_only=True, slots=True)
class TablePolicy:
    """Probabilities of all legal actions of a game, laid out flat.

    ``starts`` says where each information state begins.
    """

    states: InfoStates
    starts: IntArray  # [I + 1]
    flat: FloatArray  # [D] pi(a|I), above 0
    seats: IntArray  # [D] seat that acts in the parameter's information state

    @classmethod
    def of(cls, states: InfoStates, rows: Sequence[FloatArray]) -> TablePolicy:
        """Return the table of these probabilities, I arrays [num_legal]."""
        widths = np.array([len(row) for row in rows], dtype=np.int64)
        seats = np.repeat(
            np.array([query.seat for query in states.queries], dtype=np.int64), widths
        )
        return cls(
            states=states,
            starts=np.append(0, np.cumsum(widths)),
            flat=np.concatenate(rows),
            seats=seats,
        )

    @property
    def rows(self) -> list[FloatArray]:
        """The probabilities per information state, I arrays [num_legal]."""
        return np.split(self.flat, self.starts[1:-1])


def random_table(states: InfoStates, stream: Stream) -> TablePolicy:
    """Return the softmax of logits drawn from a standard normal distribution.

    Far from uniform, and never near 0 or 1.
    """
    generator = stream.generator()
    weights = [np.exp(generator.normal(size=len(query.legal_actions))) for query in states.queries]
    return TablePolicy.of(states, [row / row.sum() for row in weights])


def improved_table(policy: TablePolicy, *, steps: int = 2, rate: float = 4.0) -> TablePolicy:
    """Return a table after steps of exact policy improvement by all seats at once.

    pi(a|I) <- pi(a|I) exp(rate Q(I, a) / range of the game's returns), over its sum.

    Args:
        policy: to begin with.
        steps: how many.
        rate: of a step.
    """
    span = float(np.ptp(policy.states.tree.returns)) or 1.0
    for _ in range(steps):
        values = exact_values(policy.states, policy.rows).action
        weights = [
            row * np.exp(rate * (own - own.max()) / span)
            for row, own in zip(policy.rows, values, strict=True)
        ]
        policy = TablePolicy.of(policy.states, [row / row.sum() for row in weights])
    return policy


def exact_gradient(policy: TablePolicy, values: ExactValues | None = None) -> FloatArray:
    """Return the exact gradient [D] of each seat's expected return in its own logits.

    Args:
        policy: sits in every seat.
        values: of ``exact_values`` under this policy, where they are known.
    """
    values = values or exact_values(policy.states, policy.rows)
    widths = np.diff(policy.starts)
    advantage = np.concatenate(values.action) - np.repeat(values.state, widths)
    gradient: FloatArray = np.repeat(values.reach, widths) * policy.flat * advantage
    return gradient


class TableAgent(TextAgent):
    """Draws from a table.

    It speaks in words, not tokens, so that its turns have no sampled tokens.
    """

    def __init__(self, policy: TablePolicy, name: str = "table") -> None:
        super().__init__(name)
        self._rows = {
            (query.seat, query.key): (query.legal_actions, list(accumulate(row.tolist())))
            for query, row in zip(policy.states.queries, policy.rows, strict=True)
        }

    def choose(self, state: State, seat: int, stream: Stream) -> str:
        """Return a legal action with the table's probability, by one draw of the turn's stream."""
        actions, sums = self._rows[seat, played(state).observe(seat).key]
        return actions[min(bisect_right(sums, stream.uniform(0)), len(actions) - 1)]

    def chances(self, state: State, seat: int) -> dict[str, float]:
        """Return the table's probabilities of the legal actions."""
        actions, sums = self._rows[seat, played(state).observe(seat).key]
        return dict(zip(actions, np.diff([0.0, *sums]).tolist(), strict=True))
