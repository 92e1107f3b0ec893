"""The tree of a game as arrays, for solvers of games with hidden information."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from sparring.core.errors import TooLargeError
from sparring.core.records import IntArray
from sparring.environments.base import GameRules, Node
from sparring.ops.game_tree import GameTree


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeArrays:
    """Every history of a game, with I information states."""

    tree: GameTree
    seats: IntArray  # [I] the seat that acts
    legal: tuple[tuple[int, ...], ...]  # [I] legal action ids
    number: dict[tuple[int, str], int]  # (seat, information state) -> index in [I]
    examples: tuple[Node, ...]  # [I] a node of each information state


@dataclass(kw_only=True, slots=True)
class TreeBuilder:
    """The lists of a ``TreeArrays`` in the making, which ``walk`` fills."""

    number: dict[tuple[int, str], int] = field(default_factory=dict)
    legal: list[tuple[int, ...]] = field(default_factory=list)
    examples: list[Node] = field(default_factory=list)
    # parent, information state and choice there (-1: chance), and probability of each history
    edges: list[tuple[int, int, int, float]] = field(default_factory=list)
    terminal: list[int] = field(default_factory=list)
    returns: list[list[float]] = field(default_factory=list)

    def visit(
        self, node: Node, edge: tuple[int, int, int, float]
    ) -> list[tuple[Node, tuple[int, int, int, float]]]:
        """Add a history, and return its children as (node, edge to the node)."""
        index = len(self.edges)
        self.edges.append(edge)
        if node.is_terminal():
            self.terminal.append(index)
            self.returns.append(list(node.returns()))
            return []
        if node.is_chance_node():
            return [
                (node.child(action), (index, -1, -1, chance))
                for action, chance in node.chance_outcomes()
                if chance > 0
            ]
        seat = node.current_player()
        state = self.number.setdefault(
            (seat, node.information_state_string(seat)), len(self.number)
        )
        if state == len(self.legal):
            self.legal.append(tuple(node.legal_actions()))
            self.examples.append(node)
        return [
            (node.child(action), (index, state, choice, 1.0))
            for choice, action in enumerate(self.legal[state])
        ]


def walk(game: GameRules, *, most: float = math.inf) -> TreeArrays:
    """Walk over every history of a game with information states, and return them as arrays.

    Args:
        game: the game.
        most: largest number of histories.

    Raises:
        TooLargeError: the game has more histories.
    """
    lists = TreeBuilder()
    stack = [(game.first_node(), (-1, -1, -1, 1.0))]
    while stack:
        if len(lists.edges) >= most:
            raise TooLargeError(
                f"{game.name}: its tree has more than {most:,} histories; write fewer rounds, "
                "seats or words."
            )
        stack += reversed(lists.visit(*stack.pop()))
    parent, info_state, choice, chance = zip(*lists.edges, strict=True)
    tree = GameTree(
        parent=np.array(parent, dtype=np.int64),
        info_state=np.array(info_state, dtype=np.int64),
        choice=np.array(choice, dtype=np.int64),
        chance=np.array(chance, dtype=np.float64),
        terminal=np.array(lists.terminal, dtype=np.int64),
        returns=np.array(lists.returns, dtype=np.float64).reshape(-1, game.num_seats),
    )
    seats = np.array([seat for seat, _ in lists.number], dtype=np.int64)
    return TreeArrays(
        tree=tree,
        seats=seats,
        legal=tuple(lists.legal),
        number=lists.number,
        examples=tuple(lists.examples),
    )
