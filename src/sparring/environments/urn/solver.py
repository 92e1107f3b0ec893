"""Solver of urn: posterior by Bayes' rule, and dynamic programming over counts."""

from __future__ import annotations

from functools import lru_cache
from math import log, prod
from typing import Literal

from sparring.core.records import SolverResult
from sparring.environments.base import SearchablePlay
from sparring.environments.urn import Urns

ORACLE = "posterior"  # the oracle that calls this solver

Counts = tuple[int, ...]


def key(state: SearchablePlay, *, prior: Literal["uniform", "bank"]) -> str:
    """Return the urns and the number of draws of each colour; the order of draws is irrelevant."""
    table = state.table
    return f"{table.contents} {table.counts()}"


class UrnValues:
    """Values of best play with known urns, cached by the counts of the colours drawn."""

    def __init__(self, urns: Urns, draws: int, cost: float) -> None:
        self.urns, self.max_draws, self.cost = urns, draws, cost
        self.balls = sum(urns[0])
        self._values: dict[Counts, float] = {}

    def chances(self, counts: Counts) -> list[float]:
        """Return the probability of each urn given the colours drawn."""
        weights = [
            prod(balls**count for balls, count in zip(urn, counts, strict=True))
            for urn in self.urns
        ]
        return [weight / sum(weights) for weight in weights]

    def value(self, counts: Counts) -> float:
        """Return the value of best play: a declaration of the likeliest urn, or a draw."""
        best_value = self._values.get(counts)
        if best_value is None:
            best_value = max(self.chances(counts))
            if sum(counts) < self.max_draws:
                best_value = max(best_value, self.draw_value(counts))
            self._values[counts] = best_value
        return best_value

    def draw_value(self, counts: Counts) -> float:
        """Return the value of a draw with best play after it."""
        chances, value = self.chances(counts), -self.cost
        for colour in range(len(counts)):
            probability = (
                sum(chance * urn[colour] for chance, urn in zip(chances, self.urns, strict=True))
                / self.balls
            )
            value += probability * self.value(
                (*counts[:colour], counts[colour] + 1, *counts[colour + 1 :])
            )
        return value


@lru_cache(maxsize=64)
def cached_values(urns: Urns, draws: int, cost: float) -> UrnValues:
    """Return the values for some urns, shared by all states with these urns."""
    return UrnValues(urns, draws, cost)


def urn(state: SearchablePlay, *, prior: Literal["uniform", "bank"] = "uniform") -> SolverResult:
    """Exact values of a draw and of each declaration in urn.

    What: the value of a declaration is the probability that it is right. The value of a draw is
    the value of best play after it. Values include the cost of earlier draws. In best play the seat
    knows the urns, but not which urn is hidden.
    When to use: through oracle ``posterior``, on game ``urn``.
    Mathematics:
        P(u | n) proportional to prod_c b_uc^n_c
    with b_uc balls of colour c in urn u and n_c of them drawn.
        V(n) = max(max_u P(u | n), -cost + sum_c P(c | n) V(n + e_c))
        P(c | n) = sum_u P(u | n) b_uc / balls
    The second term of V counts only while draws are left. Judgements subtract the cost of the draws
    so far.
        entropy = -sum_u P(u | n) log P(u | n)
    Pitfalls: the solver computes the values of all C(draws + colours, colours) counts once per set
    of urns: 10,626 counts for 20 draws of 4 colours.
    Reference: Wald, "Sequential tests of statistical hypotheses", 1945; Arrow, Blackwell and
    Girshick, 1949.
    Verified by: tests/environments/urn/test_solver.py, tests/contract/test_beliefs.py.

    Args:
        prior: "uniform" (default) and "bank" have equal results: the urns are known, and chance
            draws the hidden urn in every episode.
    """
    table = state.table
    best_play = cached_values(table.contents, table.options.draws, table.options.cost)
    counts = table.counts()
    chances, cost = best_play.chances(counts), table.options.cost * len(table.balls_seen)
    values = [
        (chances[index - 1] if index else best_play.draw_value(counts)) - cost
        for index in state.legal_indices()
    ]
    return SolverResult(
        values=values, entropy=max(0.0, -sum(chance * log(chance) for chance in chances if chance))
    )
