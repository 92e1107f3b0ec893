"""Exact values by exhaustive search with a table, for zero-sum games of perfect information."""

from __future__ import annotations

import pyspiel

from sparring.environments.base import Environment, Node
from sparring.environments.openspiel.base import as_game

MAX_PLIES = 300  # largest depth of a search; each ply takes two of Python's 1,000 stack frames
_TYPE = pyspiel.GameType

Bounds = tuple[float, float]
"""Lower and upper bound of a position's value for seat 0; equal if the value is known."""


def reason_unsolvable(game: Environment) -> str:
    """Return why minimax cannot solve a game, as a clause; "" if it can."""
    spiel_type = as_game(game).spiel.get_type()
    if spiel_type.information != _TYPE.Information.PERFECT_INFORMATION:
        return "something is hidden from a seat"
    if spiel_type.chance_mode != _TYPE.ChanceMode.DETERMINISTIC:
        return "there is chance"
    if not (game.zero_sum and game.num_seats == 2):
        return "there are not two opposed seats"
    return ""


def position_key(node: Node) -> str:
    """Return a text of the seat to act and the board; transpositions have the same text."""
    return f"{node.current_player()}\n{node}"


class Search:
    """A minimax search with a transposition table, which computes each position once.

    A position beyond ``max_states`` or ``MAX_PLIES``, or a repetition on the current path, is not
    searched; its bounds are the full range of payoffs, so all bounds stay correct.

    Attributes:
        table: bounds of every visited position that is not finished, by key.
        num_finished: number of visits to finished positions, which also count as states.
        is_incomplete: whether the search skipped a position.
    """

    def __init__(self, game: Environment, max_states: int) -> None:
        self.max_states, self.payoff_range = max_states, (game.min_utility, game.max_utility)
        self.table: dict[str, Bounds] = {}
        self.num_finished, self.is_incomplete = 0, False

    def bounds(self, node: Node, depth: int = MAX_PLIES) -> Bounds:
        """Return the bounds of a node's value for seat 0."""
        if node.is_terminal():
            self.num_finished += 1
            value = float(node.returns()[0])
            return value, value
        key = position_key(node)
        bounds = self.table.get(key)
        num_visited = len(self.table) + self.num_finished
        if bounds is None and depth > 0 and num_visited < self.max_states:
            # the search below uses these bounds if it repeats the position
            self.table[key] = self.payoff_range
            choose = max if node.current_player() == 0 else min
            child_bounds = [
                self.bounds(node.child(index), depth - 1) for index in node.legal_actions()
            ]
            bounds = self.table[key] = (
                choose(low for low, _ in child_bounds),
                choose(high for _, high in child_bounds),
            )
        if bounds is None or bounds is self.payoff_range:
            self.is_incomplete = True
            return self.payoff_range
        return bounds
