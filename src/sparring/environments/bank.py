"""Banks of starts for environments that are told as they come.

A bank is a numbered list of starts from which a play draws one. Training draws from one bank, and
skill is measured on another: on starts that training never met.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from typing import Any

from sparring.core.rng import Stream
from sparring.environments.base import Environment

# starts of another bank: a few hundred plays of an evaluation seldom meet one twice
OTHERS = 1000
BANKS = 2**31  # banks are numbered from 0 below this

__all__ = ["BANKS", "OTHERS", "Bank", "is_banked"]


def is_banked(environment: Environment) -> bool:
    """Return whether an environment draws its starts from a bank."""
    return hasattr(environment, "counted")


class Bank(Environment):
    """Base of environments whose starts are drawn from a bank.

    A subclass has ``start(number)``, a start of its bank that can be hashed, made from the bank's
    own stream alone. Its plays have ``start``, the one they were begun from.

    Attributes:
        bank: number of the bank.
        counted: name of the option, and attribute, that says how many starts the bank has.
        others: how many the other bank has.
    """

    bank: int
    counted: str
    others: int = OTHERS
    made_by: dict[str, Any] | None = None

    @abstractmethod
    def start(self, number: int) -> Hashable:
        """Return start ``number`` of the bank."""

    def bank_stream(self, number: int) -> Stream:
        """Return what start ``number`` of the bank is drawn from."""
        return Stream.from_seed(self.bank).child(type(self).__name__).child(number)

    def drawn(self, stream: Stream) -> Hashable:
        """Return the start of a play whose chance is ``stream``."""
        return self.start(stream.child("start").integer(0, getattr(self, self.counted)))

    def start_of(self, play: Any) -> Hashable:
        """Return what was drawn from the bank."""
        start: Hashable = play.start
        return start

    def starts(self) -> frozenset[Hashable]:
        """Return all starts of the bank."""
        return frozenset(self.start(number) for number in range(getattr(self, self.counted)))

    def other_bank(self) -> dict[str, Any]:
        """Return options that make the same environment with another bank."""
        options = (self.made_by or {}).get("options", {})
        return {**options, "bank": BANKS - 1 - self.bank, self.counted: self.others}
