"""Base of environments whose initial states come from a bank.

A bank is a numbered list of initial states, from which each play draws one. Training uses one bank
and evaluation another bank, with initial states that training never saw.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from typing import Any

from sparring.core.rng import Stream
from sparring.environments.base import Environment

# size of the other bank, large enough that hundreds of evaluation plays rarely repeat a state
OTHER_BANK_SIZE = 1000
BANKS = 2**31  # number of banks; they are numbered from 0

__all__ = ["BANKS", "OTHER_BANK_SIZE", "Bank", "is_banked"]


def is_banked(environment: Environment) -> bool:
    """Return whether an environment draws its initial states from a bank."""
    return hasattr(environment, "size_option")


class Bank(Environment):
    """Base of environments whose initial states are drawn from a bank.

    A subclass defines ``start(number)``, which returns a hashable initial state and draws random
    numbers only from ``bank_stream(number)``. A play keeps its initial state as ``play.start``.

    Attributes:
        bank: number of the bank.
        size_option: name of the option, and attribute, with the number of initial states.
        other_size: number of initial states in the other bank.
    """

    bank: int
    size_option: str
    other_size: int = OTHER_BANK_SIZE
    made_by: dict[str, Any] | None = None

    @abstractmethod
    def start(self, number: int) -> Hashable:
        """Return initial state ``number`` of the bank."""

    def bank_stream(self, number: int) -> Stream:
        """Return the stream from which initial state ``number`` of the bank is drawn."""
        return Stream.from_seed(self.bank).child(type(self).__name__).child(number)

    def draw_start(self, stream: Stream) -> Hashable:
        """Return the initial state of a play that draws its chance from ``stream``."""
        return self.start(stream.child("start").integer(0, getattr(self, self.size_option)))

    def start_of(self, play: Any) -> Hashable:
        """Return the initial state of a play."""
        start: Hashable = play.start
        return start

    def starts(self) -> frozenset[Hashable]:
        """Return all initial states of the bank."""
        return frozenset(self.start(number) for number in range(getattr(self, self.size_option)))

    def other_bank(self) -> dict[str, Any]:
        """Return options that make the same environment with another bank."""
        options = (self.made_by or {}).get("options", {})
        return {**options, "bank": BANKS - 1 - self.bank, self.size_option: self.other_size}
