"""Oracle: Monte Carlo tree search, for games of perfect information that are too large to solve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from sparring.core.records import Verdict
from sparring.core.rng import Stream
from sparring.environments.base import Searchable, SearchablePlay
from sparring.methods.oracles.base import CachedOracle, make_verdict, widen_best
from sparring.play.players.mcts import MctsAgent


@dataclass(kw_only=True, eq=False)
class MctsOracle(CachedOracle):
    """Value of every legal action by Monte Carlo tree search (UCT), with perfect information.

    What: the mean return of the simulations that begin with each action; exact for proven actions.
    When to use: games too large for oracle minimax, or with chance: connect four, larger boards,
    pig, backgammon.
    Mathematics:
        value(a) = W(a) / N(a)
        certainty = sum of N over the best actions / (1 + sum of all N)
    N(a) is the number of simulations through a, W(a) the sum of their returns. An untried action
    has the game's smallest utility. The certainty is below 1, and ``bound`` is the range of the
    game's utilities. When every action's value is proven, the certainty is 1 and ``bound`` 0.
    Pitfalls:
        - Values are means over a search that also tries bad replies. This biases them towards the
          middle.
        - If several actions are equally good, chance decides which one is best. Set a ``margin``,
          or use the certainty as a weight.
        - A search that proves a win stops, and leaves other winning moves unproven.
        - Positions with the same printed board and seat to act count as one.
    Reference: Kocsis and Szepesvari, "Bandit based Monte-Carlo planning", 2006; OpenSpiel's
    MCTSBot; Winands et al., 2008 (solve).
    Verified by: tests/methods/oracles/test_perfect_information.py.

    Args:
        simulations: simulations per position, at least 1.
        rollouts: random playouts from a leaf, per simulation, at least 1.
        uct_c: weight of the exploration term of UCT, at least 0.
        solve: whether proven results are backed up, so that values can be exact. Default true.
        margin: an action is also best if its value is at most this much below the largest value, in
            the game's units, at least 0. Not used if every value is proven.
        seed: seed of the search. The verdict depends only on seed, rules and position.
    """

    simulations: Annotated[int, Field(ge=1)] = 1000
    rollouts: Annotated[int, Field(ge=1)] = 1
    uct_c: Annotated[float, Field(ge=0)] = 2.0
    solve: bool = True
    margin: Annotated[float, Field(ge=0)] = 0.0
    seed: int = 0

    name = "mcts"

    def __post_init__(self) -> None:
        super().__init__()
        self.searcher = MctsAgent(
            simulations=self.simulations, rollouts=self.rollouts, uct_c=self.uct_c, solve=self.solve
        )
        self._stream = Stream.from_seed(self.seed).child("mcts oracle")

    def covers(self, game: Searchable) -> str:
        """Return why this game cannot be judged, or ""."""
        if not game.perfect_information:
            return "a search over full states would see hidden information; use oracle cfr."
        return ""

    def compute_verdicts(self, states: Sequence[SearchablePlay]) -> list[Verdict | None]:
        """Return a verdict per state, by one search per state."""
        return [self._verdict(state) for state in states]

    def _verdict(self, state: SearchablePlay) -> Verdict:
        game = state.game
        root = self.searcher.search(
            state, self._stream.child(game.rules_key).child(self.key(state))
        )
        children = {child.action: child for child in root.children}
        values, visits, num_proven = [], [], 0
        for index in state.legal_indices():
            child = children.get(index)
            visits.append(child.explore_count if child else 0)
            if child and child.outcome:
                num_proven += 1
                values.append(child.outcome[state.seat])
            else:
                values.append(
                    child.total_reward / child.explore_count
                    if child and child.explore_count
                    else game.min_utility
                )
        actions = state.legal_actions()
        if num_proven == len(values):
            self.counts["proven"] += 1
            return make_verdict(actions, values)
        estimate = widen_best(
            make_verdict(actions, values, bound=game.max_utility - game.min_utility), self.margin
        )
        pairs = zip(visits, actions, strict=True)
        best_visits = sum(count for count, action in pairs if action in estimate.best)
        return replace(estimate, certainty=best_visits / (1 + sum(visits)))


mcts = MctsOracle
