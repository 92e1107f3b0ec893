"""Oracle: exact game values by exhaustive search, without chance or hidden information."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from sparring.core.records import Verdict
from sparring.environments.base import Searchable, SearchablePlay
from sparring.environments.openspiel.solve import Bounds, Search, position_key, reason_unsolvable
from sparring.methods.oracles.base import CachedOracle, make_verdict

MAX_CACHED_BOUNDS = 2_000_000  # largest number of positions with cached values per game


@dataclass(kw_only=True, eq=False)
class MinimaxOracle(CachedOracle):
    """Exact value of every legal action in two-player zero-sum games of perfect information.

    What: the return of best play on both sides after each legal action. The best actions are those
    of the largest return.
    When to use: tic-tac-toe, nim, small boards of connect four, and the late plies of larger games.
    Mathematics:
        V(s) = max over a of V(s a)    where seat 0 acts
        V(s) = min over a of V(s a)    where seat 1 acts
    and the payoff at the end of the game. The value of a position beyond the budget lies between
    the game's lowest and highest payoff. The same rule backs up both bounds.
    Pitfalls:
        - The search does not prune, so that a solved game needs only look-ups.
        - A state beyond the budget costs the time of a full budget, once. On one core 200,000
          positions take 1.5 s in connect four and 5 s in simple_negotiation. Lower ``max_states``
          for such games.
        - Positions with the same printed board and seat to act count as one. This is wrong for
          rules that depend on the history (superko, repetition).
        - A recurring position has no known value, so that games with cycles are rarely solved.
    Reference: von Neumann, 1928; transposition table: Greenblatt, Eastlake and Crocker, 1967.
    Verified by: tests/methods/oracles/test_perfect_information.py.

    Args:
        max_states: largest number of positions that the search visits for one state, at least 1. A
            finished position counts at each visit: tic-tac-toe needs 7,382.
        over_budget: verdict if ``max_states`` is too small for the value of every action. "abstain"
            (default): no verdict. "bound": an action's value is the middle of its range, ``bound``
            is half the widest range, ``certainty`` is 1 - (mean range) / (the game's range).
    """

    max_states: Annotated[int, Field(ge=1)] = 200_000
    over_budget: Literal["abstain", "bound"] = "abstain"

    name = "minimax"

    def __post_init__(self) -> None:
        super().__init__()
        self._bounds_by_rules: dict[str, dict[str, Bounds]] = {}

    def covers(self, game: Searchable) -> str:
        """Return why this game cannot be judged, or ""."""
        reason = reason_unsolvable(game)
        return reason and f"{reason}; use oracle mcts, or cfr for games with hidden information."

    def compute_verdicts(self, states: Sequence[SearchablePlay]) -> list[Verdict | None]:
        """Return a verdict per state; over budget, a verdict with a bound, or None."""
        verdicts: list[Verdict | None] = [None] * len(states)
        # the search from an early state also solves later states
        for index in sorted(range(len(states)), key=lambda number: states[number].plies):
            verdicts[index] = self._verdict(states[index])
        return verdicts

    def _verdict(self, state: SearchablePlay) -> Verdict | None:
        game, actions = state.game, state.legal_actions()
        lows, highs = zip(*self._bounds(state), strict=True)
        if lows == highs:
            return make_verdict(actions, lows)
        self.counts["over_budget"] += 1
        if self.over_budget == "abstain":
            return None
        widths = [high - low for low, high in zip(lows, highs, strict=True)]
        middles = [low + width / 2 for low, width in zip(lows, widths, strict=True)]
        certainty = 1.0 - sum(widths) / len(widths) / (game.max_utility - game.min_utility)
        return replace(
            make_verdict(actions, middles), certainty=max(certainty, 0.0), bound=max(widths) / 2
        )

    def _bounds(self, state: SearchablePlay) -> list[Bounds]:
        known_bounds = self._bounds_by_rules.setdefault(state.game.rules_key, {})
        search, node = Search(state.game, self.max_states), state.node
        if position_key(node) in known_bounds:
            search.table = known_bounds
        else:
            search.bounds(node)
            # a complete search is also complete from each of its positions, so the values do not
            # depend on the order of calls
            if not search.is_incomplete:
                if len(known_bounds) + len(search.table) > MAX_CACHED_BOUNDS:
                    known_bounds.clear()
                known_bounds.update(search.table)
        children = [search.bounds(node.child(index)) for index in node.legal_actions()]
        return children if state.seat == 0 else [(-high, -low) for low, high in children]


minimax = MinimaxOracle
