"""What exact solvers ask of an environment, beside what play asks: its histories, one by one.

A capability. Games over OpenSpiel have it; an environment of another kind can be walked and solved
where it offers the same.
"""

from __future__ import annotations

from typing import Protocol


class Node(Protocol):
    """A history of a game, with nothing hidden. It is not to be changed, but left for a child.

    ``str`` of it is the position as it is printed, equal where two histories lead to one position.
    """

    def is_terminal(self) -> bool:
        """Return whether the game is over."""

    def is_chance_node(self) -> bool:
        """Return whether chance is to move."""

    def current_player(self) -> int:
        """Return the seat that is to act, below 0 where none is."""

    def legal_actions(self) -> list[int]:
        """Return the ids of the legal actions, or of what chance can do, ascending."""

    def chance_outcomes(self) -> list[tuple[int, float]]:
        """Return what chance can do, with its probabilities."""

    def child(self, index: int, /) -> Node:
        """Return the history after an action or a chance outcome."""

    def returns(self) -> list[float]:
        """Return the payoffs so far, [num_seats]."""

    def information_state_string(self, seat: int, /) -> str:
        """Return all that a seat knows, where ``Enumerable.has_info_states`` says there is one."""


class Enumerable(Protocol):
    """An environment whose every history can be visited."""

    name: str
    num_seats: int

    @property
    def rules_key(self) -> str:
        """Rules and options as text; games with one text have one tree."""

    @property
    def perfect_information(self) -> bool:
        """Whether nothing is hidden from any seat."""

    @property
    def has_info_states(self) -> bool:
        """Whether nodes say what a seat knows."""

    def first_node(self) -> Node:
        """Return the history in which nothing has happened."""
