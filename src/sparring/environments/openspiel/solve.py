"""Exact values by exhaustive search with a table, for zero-sum games of perfect information."""

from __future__ import annotations

import pyspiel

from sparring.environments.base import Environment, Node
from sparring.environments.openspiel.base import as_game

DEEPEST = 300  # most plies of a search, each with two of Python's 1,000 frames
_TYPE = pyspiel.GameType

Bounds = tuple[float, float]
"""Lower and upper bound of a position's value for seat 0; equal if the value is known."""


def unfit(game: Environment) -> str:
    """Return why minimax cannot solve a game, as a clause, or ""."""
    kind = as_game(game).spiel.get_type()
    if kind.information != _TYPE.Information.PERFECT_INFORMATION:
        return "something is hidden from a seat"
    if kind.chance_mode != _TYPE.ChanceMode.DETERMINISTIC:
        return "there is chance"
    if not (game.zero_sum and game.num_seats == 2):
        return "there are not two opposed seats"
    return ""


def position_key(node: Node) -> str:
    """Return the seat to act and the printed board, equal for transpositions."""
    return f"{node.current_player()}\n{node}"


class Search:
    """Values of positions, each computed once.

    Positions beyond ``max_states`` or ``DEEPEST``, and repetitions of a position on the current
    path, get the full range of payoffs, so that bounds always hold. Finished positions count at
    every visit, as they are most of the visits where a position has hundreds of moves.

    Attributes:
        table: bounds of every visited position that is not finished, by key.
        finished: number of visits to finished positions.
        cut: whether a position was skipped.
    """

    def __init__(self, game: Environment, max_states: int) -> None:
        self.max_states, self.unknown = max_states, (game.min_utility, game.max_utility)
        self.table: dict[str, Bounds] = {}
        self.finished, self.cut = 0, False

    def bounds(self, node: Node, depth: int = DEEPEST) -> Bounds:
        """Return the bounds of a node's value for seat 0."""
        if node.is_terminal():
            self.finished += 1
            value = float(node.returns()[0])
            return value, value
        key = position_key(node)
        bounds = self.table.get(key)
        looked = len(self.table) + self.finished
        if bounds is None and depth > 0 and looked < self.max_states:
            # preliminary bounds, which repetitions below use
            self.table[key] = self.unknown
            choose = max if node.current_player() == 0 else min
            below = [self.bounds(node.child(index), depth - 1) for index in node.legal_actions()]
            bounds = self.table[key] = (
                choose(low for low, _ in below),
                choose(high for _, high in below),
            )
        if bounds is None or bounds is self.unknown:
            self.cut = True
            return self.unknown
        return bounds
