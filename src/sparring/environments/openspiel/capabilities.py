"""What games and states over OpenSpiel offer beside play, so that nobody else reads OpenSpiel's.

Histories for solvers (``Enumerable``), and the tables of the games that are written here.
"""

from __future__ import annotations

from typing import Any

import pyspiel

from sparring.environments.base import Node

_PERFECT = pyspiel.GameType.Information.PERFECT_INFORMATION


class EnumerableGame:
    """The part of ``Game`` that exact solvers ask."""

    spiel: Any

    @property
    def rules_key(self) -> str:
        """Rules and options as text; games with one text have one tree."""
        return str(self.spiel)

    @property
    def rules_name(self) -> str:
        """OpenSpiel's name of the rules, without options."""
        return str(self.spiel.get_type().short_name)

    @property
    def perfect_information(self) -> bool:
        """Whether nothing is hidden from any seat."""
        return bool(self.spiel.get_type().information == _PERFECT)

    @property
    def has_info_states(self) -> bool:
        """Whether nodes say what a seat knows."""
        return bool(self.spiel.get_type().provides_information_state_string)

    def first_node(self) -> Node:
        """Return the history in which nothing has happened."""
        node: Node = self.spiel.new_initial_state()
        return node

    @property
    def first_table(self) -> Any:
        """The table that a play begins with; of games made of tables (``openspiel/table.py``)."""
        return self.spiel.opening


class EnumerableState:
    """The part of ``State`` that exact solvers ask.

    Attributes:
        node: the history the play stands at, shared with other plays.
    """

    __slots__ = ("spiel",)
    spiel: Any
    node: Node

    @property
    def table(self) -> Any:
        """The table the play stands at; of games made of tables (``openspiel/table.py``)."""
        return self.spiel.table


# one slot by two names, so that the hot look-ups of oracles cost no call
EnumerableState.node = vars(EnumerableState)["spiel"]
