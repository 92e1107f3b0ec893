"""Trading of two resources as an OpenSpiel game: the rules only, no wording."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from sparring.environments.openspiel.table import CHANCE, TERMINAL, Rules, Table, register

NAME = "simple_negotiation"  # the name registered with OpenSpiel
RESOURCES = ("wood", "gold")
START = 10  # units of each resource that each seat holds at the start
VALUES = ((5, 15), (10, 10), (15, 5))  # what one unit of wood and of gold can be worth to a seat
FIXED = (0, 2)  # the entries of VALUES of seat 0 and seat 1 where they are not drawn
# bound of a gain: all goods are worth 400 to a seat, its own 200 at the start, and it keeps one
# unit at least
MOST = 195.0
ACCEPT, DENY = 0, 1


class Offer(NamedTuple):
    """An offer: ``give`` units of a resource for ``ask`` units of the other one.

    Resource 0 is wood, 1 gold.
    """

    resource: int
    give: int
    ask: int

    @property
    def word(self) -> str:
        """The offer as an action word, such as "offer:3wood-2gold"."""
        return (
            f"offer:{self.give}{RESOURCES[self.resource]}-{self.ask}{RESOURCES[1 - self.resource]}"
        )


@cache
def offers(largest: int) -> tuple[Offer, ...]:
    """Return all offers of up to ``largest`` units each way; the action id of number n is n + 2."""
    amounts = range(1, largest + 1)
    return tuple(
        Offer(resource, give, ask) for resource in (0, 1) for give in amounts for ask in amounts
    )


@lru_cache(maxsize=4096)
def feasible(largest: int, own: tuple[int, int], other: tuple[int, int]) -> tuple[int, ...]:
    """Return the action ids of the offers that both seats can fulfil with what they hold."""
    return tuple(
        index
        for index, offer in enumerate(offers(largest), DENY + 1)
        if offer.give <= own[offer.resource] and offer.ask <= other[1 - offer.resource]
    )


@dataclass(frozen=True, kw_only=True)
class NegotiationOptions:
    """Options of ``simple_negotiation``."""

    turns: Annotated[int, Field(ge=1, le=100)] = 10
    largest: Annotated[int, Field(ge=1, le=10)] = 10
    values: Literal["fixed", "drawn"] = "fixed"
    outcome: Literal["sign", "gain"] = "sign"


@dataclass(frozen=True, slots=True)
class NegotiationTable(Table):
    """A position: who values and holds what, the open offer, actions so far, the last payment.

    Values are the entry of VALUES by seat, and units held are by seat.
    """

    turns: int
    largest: int
    outcome: str
    values: tuple[int, ...]
    holdings: tuple[tuple[int, int], tuple[int, int]] = ((START, START), (START, START))
    offer: Offer | None = None
    actions: tuple[int, ...] = ()
    paid: tuple[int, int] = (0, 0)

    @property
    def seat(self) -> int:
        """The seat whose turn it is."""
        return len(self.actions) % 2

    @property
    def player(self) -> int:
        """The seat to act, chance or the end."""
        if len(self.actions) >= self.turns:
            return TERMINAL
        return CHANCE if len(self.values) < 2 else self.seat

    def legal(self) -> list[int]:
        """Return the legal action ids."""
        answers = [ACCEPT, DENY] if self.offer else [DENY]
        return [
            *answers,
            *feasible(self.largest, self.holdings[self.seat], self.holdings[1 - self.seat]),
        ]

    def draws(self) -> range:
        """Return the entries of VALUES; seat 0 draws first."""
        return range(len(VALUES))

    def worth(self, seat: int) -> int:
        """Return what a seat's goods are worth to it."""
        return sum(
            units * value
            for units, value in zip(self.holdings[seat], VALUES[self.values[seat]], strict=True)
        )

    def gains(self) -> tuple[int, int]:
        """Return by how much each seat's goods are worth more to it than at the start."""
        start = [START * sum(VALUES[entry]) for entry in self.values]
        return self.worth(0) - start[0], self.worth(1) - start[1]

    def after(self, index: int) -> NegotiationTable:
        """Return the table after values or an action.

        An acceptance trades, any other answer ends the open offer.
        """
        if len(self.values) < 2:
            return replace(self, values=(*self.values, index))
        actions = (*self.actions, index)
        if index != ACCEPT or self.offer is None:
            offer = offers(self.largest)[index - DENY - 1] if index > DENY else None
            return replace(self, offer=offer, actions=actions, paid=(0, 0))
        resource, give, ask = self.offer
        # of the one who offered, which is the other seat
        change = (ask, -give) if resource else (-give, ask)
        if self.seat == 0:
            change = (-change[0], -change[1])
        (wood, gold), (other_wood, other_gold) = self.holdings
        holdings = (
            (wood + change[0], gold + change[1]),
            (other_wood - change[0], other_gold - change[1]),
        )
        traded = replace(self, holdings=holdings, offer=None, actions=actions)
        before, now = self.gains(), traded.gains()
        return replace(traded, paid=(now[0] - before[0], now[1] - before[1]))

    def returns(self) -> list[float]:
        """Return the gains so far, or at the end who gained more."""
        if self.outcome == "gain":
            return [float(gain) for gain in self.gains()] if len(self.values) == 2 else [0.0, 0.0]
        if self.player != TERMINAL:
            return [0.0, 0.0]
        first, second = self.gains()
        sign = (first > second) - (first < second)
        return [float(sign), float(-sign)]

    def rewards(self) -> list[float]:
        """Return what the last action paid."""
        return [float(paid) for paid in self.paid] if self.outcome == "gain" else self.returns()

    def name_of(self, player: int, index: int) -> str:
        """Return the name of an action or of values."""
        if player < 0:
            return _goods(VALUES[index])
        return (
            ("accept", "deny")[index]
            if index <= DENY
            else offers(self.largest)[index - DENY - 1].word
        )

    def key(self, seat: int) -> str:
        """Return the seat's information state: its own values and all actions."""
        values = _goods(VALUES[self.values[seat]]) if len(self.values) > seat else ""
        return f"{seat} {values}:" + "".join(
            f" {self.name_of(0, action)}" for action in self.actions
        )

    def __str__(self) -> str:
        """Return the position with nothing hidden."""
        seats = " / ".join(
            f"{_goods(VALUES[entry])} holds {_goods(self.holdings[seat])}"
            for seat, entry in enumerate(self.values)
        )
        return f"turn {len(self.actions)}: {seats}: {self.offer.word if self.offer else 'no offer'}"


def rules(options: NegotiationOptions) -> Rules:
    """Return the facts of the game.

    With fixed values nothing is hidden that the rules do not tell.
    """
    turns, largest, outcome = options.turns, options.largest, options.outcome
    sign, drawn = outcome == "sign", options.values == "drawn"
    most = 1.0 if sign else MOST
    return Rules(
        opening=NegotiationTable(turns, largest, outcome, () if drawn else FIXED),
        actions=DENY + 1 + len(offers(largest)),
        outcomes=len(VALUES) if drawn else 0,
        length=turns,
        least=-most,
        most=most,
        utility="zero_sum" if sign else "general_sum",
        hidden=drawn,
        stepwise=not sign,
    )


def _goods(numbers: tuple[int, int]) -> str:
    """Return a number for wood and one for gold."""
    return f"wood {numbers[0]} gold {numbers[1]}"


register(NAME, NegotiationOptions, rules)
