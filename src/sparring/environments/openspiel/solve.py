"""Exact game values of positions by exhaustive search with a table.

They are for two opposed seats who see everything.
"""

from __future__ import annotations

import pyspiel

from sparring.environments.base import Environment, Node
from sparring.environments.openspiel.base import as_game

DEEPEST = 300  # plies below the position that is searched: two of Python's 1,000 frames each
_TYPE = pyspiel.GameType

Bounds = tuple[float, float]
"""The least and the most a position can be worth to seat 0; equal where the value is known."""


def unfit(game: Environment) -> str:
    """Return what keeps a game from being solved by minimax, or ""."""
    kind = as_game(game).spiel.get_type()
    if kind.information != _TYPE.Information.PERFECT_INFORMATION:
        return "something is hidden from a seat"
    if kind.chance_mode != _TYPE.ChanceMode.DETERMINISTIC:
        return "there is chance"
    if not (game.zero_sum and game.num_seats == 2):
        return "there are not two opposed seats"
    return ""


def position_key(node: Node) -> str:
    """Return who is to act and the printed board.

    Equal for positions reached by different orders of moves.
    """
    return f"{node.current_player()}\n{node}"


class Search:
    """Values of positions, each worked out once.

    What a search may not look at, beyond ``max_states`` positions or ``DEEPEST`` plies, or because
    it comes round to a position it stands in, can be worth anything that the game pays; bounds are
    true in any case. Finished positions count each time: where a position has hundreds of moves,
    nearly all that is looked at are such.

    Attributes:
        table: bounds of every position met that is not finished, by key.
        finished: how many finished positions were looked at.
        cut: whether anything was left out.
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
            # until it is known; this is what a position that repeats it finds
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
