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
    """All histories and the I information states of a game."""

    tree: GameTree
    seats: IntArray  # [I] the seat that acts
    legal: tuple[tuple[int, ...], ...]  # [I] legal action ids
    index_of: dict[tuple[int, str], int]  # (seat, information state) -> index in [I]
    examples: tuple[Node, ...]  # [I] a node of each information state


@dataclass(kw_only=True, slots=True)
class TreeBuilder:
    """Lists of a ``TreeArrays``, to which ``walk`` adds each history that it visits."""

    index_of: dict[tuple[int, str], int] = field(default_factory=dict)
    legal: list[tuple[int, ...]] = field(default_factory=list)
    examples: list[Node] = field(default_factory=list)
    # for each history: parent, the parent's information state and choice (-1: chance), probability
    edges: list[tuple[int, int, int, float]] = field(default_factory=list)
    terminal: list[int] = field(default_factory=list)  # indices of finished histories
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
        state = self.index_of.setdefault(
            (seat, node.information_state_string(seat)), len(self.index_of)
        )
        if state == len(self.legal):
            self.legal.append(tuple(node.legal_actions()))
            self.examples.append(node)
        return [
            (node.child(action), (index, state, choice, 1.0))
            for choice, action in enumerate(self.legal[state])
        ]


def walk(game: GameRules, *, max_histories: float = math.inf) -> TreeArrays:
    """Walk over every history of a game with information states, and return them as arrays.

    Args:
        game: the game.
        max_histories: largest number of histories.

    Raises:
        TooLargeError: the game has more histories.
    """
    builder = TreeBuilder()
    stack = [(game.first_node(), (-1, -1, -1, 1.0))]
    while stack:
        if len(builder.edges) >= max_histories:
            raise TooLargeError(
                f"{game.name}: its tree has more than {max_histories:,} histories; write fewer "
                "rounds, seats or words."
            )
        stack += reversed(builder.visit(*stack.pop()))
    parents, info_states, choices, chances = zip(*builder.edges, strict=True)
    tree = GameTree(
        parent=np.array(parents, dtype=np.int64),
        info_state=np.array(info_states, dtype=np.int64),
        choice=np.array(choices, dtype=np.int64),
        chance=np.array(chances, dtype=np.float64),
        terminal=np.array(builder.terminal, dtype=np.int64),
        returns=np.array(builder.returns, dtype=np.float64).reshape(-1, game.num_seats),
    )
    seats = np.array([seat for seat, _ in builder.index_of], dtype=np.int64)
    return TreeArrays(
        tree=tree,
        seats=seats,
        legal=tuple(builder.legal),
        index_of=builder.index_of,
        examples=tuple(builder.examples),
    )
