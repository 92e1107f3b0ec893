"""Bargaining over a pool of items: scenarios, positions and payoffs, without wording."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, NamedTuple

from sparring.core.errors import ConfigError
from sparring.core.rng import Stream
from sparring.environments.options import check_range

NAME = "bargain"
KINDS = ("books", "hats", "balls", "pens")

Counts = tuple[int, ...]  # a number per kind of item
Act = Literal["talk", "offer", "accept", "reject", "malformed", "nothing"]
"""The act of a message: "malformed" is an unparsable offer, and "nothing" is an acceptance when the
other seat has made no offer. The other seat sees both as talk."""


class Scenario(NamedTuple):
    """The pool, and the value of one item of each kind for each seat."""

    counts: Counts
    values: tuple[Counts, Counts]

    def worth(self, seat: int, share: Counts) -> int:
        """Return the worth of a share to a seat."""
        return sum(count * value for count, value in zip(share, self.values[seat], strict=True))

    def remainder(self, share: Counts) -> Counts:
        """Return the items that are left for the other seat if one seat gets a share."""
        return tuple(count - amount for count, amount in zip(self.counts, share, strict=True))


class BargainMessage(NamedTuple):
    """One message: its text as the other seat sees it, and its act."""

    text: str
    act: Act
    share: Counts = ()  # share for its seat, in an offer
    cut: bool = False  # whether the message was too long


@lru_cache(maxsize=4096)
def valuations(counts: Counts, total: int) -> tuple[Counts, ...]:
    """Return all lists of values, whole numbers from 0, with which a pool is worth ``total``."""
    if len(counts) == 1:
        return ((total // counts[0],),) if total % counts[0] == 0 else ()
    return tuple(
        (value, *other_values)
        for value in range(total // counts[0] + 1)
        for other_values in valuations(counts[1:], total - value * counts[0])
    )


def _are_valid_values(first: Counts, second: Counts) -> bool:
    """Return whether each kind has a value above 0 for some seat, and one kind for both seats."""
    pairs = list(zip(first, second, strict=True))
    return all(a or b for a, b in pairs) and any(a and b for a, b in pairs)


@lru_cache(maxsize=64)
def pools(kinds: int, most: int, total: int, name: str = NAME) -> tuple[Counts, ...]:
    """Return all pools of 1 to ``most`` items of each kind that can be worth ``total`` to both.

    Args:
        kinds: number of kinds.
        most: largest number of items of a kind.
        total: worth of the pool to each seat.
        name: name of the environment, for errors.

    Raises:
        ConfigError: there is no such pool.
    """
    valid_pools = tuple(
        counts
        for counts in itertools.product(range(1, most + 1), repeat=kinds)
        if any(
            _are_valid_values(values_0, values_1)
            for values_0, values_1 in itertools.product(valuations(counts, total), repeat=2)
        )
    )
    if not valid_pools:
        raise ConfigError(
            f"{name}: no pool of {kinds} kinds with at most {most} of each can be worth {total} "
            f"to both seats; write total={kinds * most}."
        )
    return valid_pools


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenarios:
    """The scenarios of a bank; a scenario depends only on its number and these fields."""

    kinds: int
    most: int
    total: int
    scenarios: int
    bank: int

    def check(self, name: str = NAME) -> None:
        """Check that scenarios with these options exist.

        Args:
            name: name of the environment with the options.

        Raises:
            ConfigError: a number is out of range, or there is no such scenario.
        """
        for option, low, high in (
            ("kinds", 2, len(KINDS)),
            ("most", 1, 5),
            ("total", 2, 20),
            ("scenarios", 1, 100_000),
            ("bank", 0, 2**31 - 1),
        ):
            check_range(f"{name}: {option}", getattr(self, option), low, high)
        pools(self.kinds, self.most, self.total, name)

    def scenario(self, number: int) -> Scenario:
        """Return scenario ``number``: a random pool, then random values of both seats."""
        all_pools = pools(self.kinds, self.most, self.total)
        stream = Stream.from_seed(self.bank).child(f"{NAME} {self.kinds} {self.most} {self.total}")
        stream = stream.child(number)
        counts = all_pools[stream.integer(0, len(all_pools))]
        all_values = valuations(counts, self.total)
        for index in itertools.count(1, 2):
            first, second = (
                all_values[stream.integer(index + seat, len(all_values))] for seat in (0, 1)
            )
            if _are_valid_values(first, second):
                return Scenario(counts, (first, second))
        raise AssertionError  # itertools.count never ends


@dataclass(frozen=True, slots=True)
class BargainTable:
    """A position: the scenario and the messages so far; seats 0 and 1 send them in turn."""

    scenario: Scenario
    limit: int  # largest number of messages of both seats together
    messages: tuple[BargainMessage, ...] = ()

    @property
    def seat(self) -> int:
        """The seat whose message is due."""
        return len(self.messages) % 2

    @property
    def done(self) -> bool:
        """Whether an offer was accepted, the talks were broken off, or no message is left."""
        has_ended = bool(self.messages) and self.messages[-1].act in ("accept", "reject")
        return has_ended or len(self.messages) >= self.limit

    @property
    def messages_left(self) -> int:
        """Number of messages that both seats together may still send."""
        return self.limit - len(self.messages)

    def offer_of(self, seat: int) -> Counts | None:
        """Return the share that a seat demanded in its last offer, or None."""
        offers = (
            message.share for message in reversed(self.messages[seat::2]) if message.act == "offer"
        )
        return next(offers, None)

    def after(self, message: BargainMessage) -> BargainTable:
        """Return the position after a message; an acceptance needs an offer of the other seat."""
        if message.act == "accept" and self.offer_of(1 - self.seat) is None:
            message = message._replace(act="nothing")
        return replace(self, messages=(*self.messages, message))

    def shares(self) -> tuple[Counts, Counts] | None:
        """Return the items of seats 0 and 1; None without an agreement."""
        if not self.messages or self.messages[-1].act != "accept":
            return None
        proposer = len(self.messages) % 2  # the seat that did not send the last message
        share = self.offer_of(proposer)
        assert share is not None
        other_share = self.scenario.remainder(share)
        return (other_share, share) if proposer else (share, other_share)

    def worth(self) -> tuple[int, int]:
        """Return the points of seats 0 and 1; 0 without an agreement."""
        shares = self.shares()
        if shares is None:
            return (0, 0)
        return self.scenario.worth(0, shares[0]), self.scenario.worth(1, shares[1])
