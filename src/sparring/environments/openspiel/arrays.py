"""The tree of a game whose rules are written in Python, as arrays, and its solution on them.

OpenSpiel's solvers ask such rules again at every pass over the tree; here each history is met once.
"""

from __future__ import annotations

import numpy as np

from sparring.environments.openspiel.table import CHANCE, TERMINAL, Table, TableGame
from sparring.ops.cfr import average_strategies
from sparring.ops.game_tree import GameTree

_Edge = tuple[int, int, int, float]  # a history's parent, information state, choice and chance


class _Walk:
    """Every history of a game, parents first, and its information states as they are met."""

    def __init__(self, game: TableGame) -> None:
        self.keys: dict[str, int] = {}  # a number for each text of an information state
        self.seats: list[int] = []
        self.legal: list[list[int]] = []
        edges, terminal, returns = list[_Edge](), list[int](), list[list[float]]()
        waiting: list[tuple[Table, _Edge]] = [(game.opening, (-1, -1, -1, 1.0))]
        while waiting:
            table, edge = waiting.pop()
            here = len(edges)
            edges.append(edge)
            if table.player == TERMINAL:
                terminal.append(here)
                returns.append(table.returns())
            elif table.player == CHANCE:
                for index, chance in zip(table.draws(), table.chances(), strict=True):
                    waiting.append((table.after(index), (here, -1, -1, chance)))
            else:
                state = self._state(table)
                for choice, index in enumerate(self.legal[state]):
                    waiting.append((table.after(index), (here, state, choice, 1.0)))
        parent, info_state, chosen, chances = (np.array(part) for part in zip(*edges, strict=True))
        self.tree = GameTree(
            parent=parent,
            info_state=info_state,
            choice=chosen,
            chance=chances,
            terminal=np.array(terminal, dtype=np.int64),
            returns=np.array(returns, dtype=np.float64),
        )

    def _state(self, table: Table) -> int:
        """Return the number of the information state of the seat to act."""
        key = table.key(table.player)
        if key not in self.keys:
            self.keys[key] = len(self.keys)
            self.seats.append(table.player)
            self.legal.append(table.legal())
        return self.keys[key]


def average_rows(
    game: TableGame, iterations: int, *, plus: bool
) -> dict[str, list[tuple[int, float]]]:
    """Return the average policy of counterfactual regret minimisation, by information state.

    Args:
        game: with information states, and of perfect recall.
        iterations: passes over the tree, at least 1.
        plus: CFR+; False: CFR.
    """
    walk = _Walk(game)
    widths = np.array([len(actions) for actions in walk.legal])
    found = average_strategies(walk.tree, np.array(walk.seats), widths, iterations, plus=plus)
    return {
        key: list(zip(walk.legal[state], found[state].tolist(), strict=True))
        for key, state in walk.keys.items()
    }
