"""A game's tree as arrays, with its information states by OpenSpiel's strings.

What oracles of hidden information work on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyspiel

from sparring.ops.game_tree import GameTree
from sparring.types import IntArray


@dataclass(frozen=True, kw_only=True, slots=True)
class WalkedGame:
    """Every history of a game; I information states."""

    tree: GameTree
    seats: IntArray  # [I] the seat that acts
    legal: tuple[tuple[int, ...], ...]  # [I] legal action ids
    number: dict[tuple[int, str], int]  # (seat, information state) -> its place in the others
    examples: tuple[Any, ...]  # [I] an OpenSpiel state in each


@dataclass(kw_only=True, slots=True)
class _Walk:
    """The lists that a walk fills."""

    number: dict[tuple[int, str], int] = field(default_factory=dict)
    legal: list[tuple[int, ...]] = field(default_factory=list)
    examples: list[Any] = field(default_factory=list)
    edges: list[tuple[int, int, int, float]] = field(default_factory=list)
    terminal: list[int] = field(default_factory=list)
    returns: list[list[float]] = field(default_factory=list)

    def visit(
        self, spiel: Any, edge: tuple[int, int, int, float]
    ) -> list[tuple[Any, tuple[int, int, int, float]]]:
        """Take up a history; return its children, each with the edge that leads to it."""
        node = len(self.edges)
        self.edges.append(edge)
        if spiel.is_terminal():
            self.terminal.append(node)
            self.returns.append(list(spiel.returns()))
            return []
        if spiel.is_chance_node():
            return [
                (spiel.child(action), (node, -1, -1, chance))
                for action, chance in spiel.chance_outcomes()
                if chance > 0
            ]
        seat = spiel.current_player()
        state = self.number.setdefault(
            (seat, spiel.information_state_string(seat)), len(self.number)
        )
        if state == len(self.legal):
            self.legal.append(tuple(spiel.legal_actions()))
            self.examples.append(spiel)
        return [
            (spiel.child(action), (node, state, choice, 1.0))
            for choice, action in enumerate(self.legal[state])
        ]


def walk(game: pyspiel.Game) -> WalkedGame:
    """Return every history of an OpenSpiel game with information states.

    The caller sees to it that the tree is small.
    """
    found = _Walk()
    stack = [(game.new_initial_state(), (-1, -1, -1, 1.0))]
    while stack:
        stack += reversed(found.visit(*stack.pop()))
    parent, info_state, choice, chance = zip(*found.edges, strict=True)
    tree = GameTree(
        parent=np.array(parent, dtype=np.int64),
        info_state=np.array(info_state, dtype=np.int64),
        choice=np.array(choice, dtype=np.int64),
        chance=np.array(chance, dtype=np.float64),
        terminal=np.array(found.terminal, dtype=np.int64),
        returns=np.array(found.returns, dtype=np.float64).reshape(-1, game.num_players()),
    )
    seats = np.array([seat for seat, _ in found.number], dtype=np.int64)
    return WalkedGame(
        tree=tree,
        seats=seats,
        legal=tuple(found.legal),
        number=found.number,
        examples=tuple(found.examples),
    )
