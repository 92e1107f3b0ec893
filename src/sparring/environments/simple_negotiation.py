"""Simple negotiation: two seats trade wood for gold, with opposed private values."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cache, lru_cache
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from sparring.environments.drawing.canvas import Canvas, seat_colour
from sparring.environments.drawing.pieces import TimelineMessage, heading, table, timeline
from sparring.environments.openspiel.base import Game, State, Style
from sparring.environments.openspiel.load import load
from sparring.environments.openspiel.table import CHANCE, TERMINAL, Rules, Table, register
from sparring.environments.options import entry_of

NAME = "simple_negotiation"  # the name registered with OpenSpiel
RESOURCES = ("wood", "gold")
UNITS = 10  # units of each resource that each seat holds at the start
VALUES = ((5, 15), (10, 10), (15, 5))  # possible worth of one wood and of one gold to a seat
FIXED_VALUES = (0, 2)  # with values="fixed", the indices in VALUES of seat 0 and seat 1
# all goods are worth 400 to a seat and its first goods 200; the other seat keeps one unit, worth 5
MAX_GAIN = 195.0
ACCEPT, DENY = 0, 1


class Offer(NamedTuple):
    """An offer: ``give`` of a resource (0 wood, 1 gold) for ``ask`` of the other one."""

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
    """Return all offers of up to ``largest`` units each way; offer n has action id n + 2."""
    amounts = range(1, largest + 1)
    return tuple(
        Offer(resource, give, ask) for resource in (0, 1) for give in amounts for ask in amounts
    )


@lru_cache(maxsize=4096)
def feasible_offers(
    largest: int, own_goods: tuple[int, int], other_goods: tuple[int, int]
) -> tuple[int, ...]:
    """Return the action ids of the offers for which both seats have the goods."""
    return tuple(
        index
        for index, offer in enumerate(offers(largest), DENY + 1)
        if offer.give <= own_goods[offer.resource] and offer.ask <= other_goods[1 - offer.resource]
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
    """A position: values and goods by seat, the open offer, and the actions so far."""

    turns: int
    largest: int
    outcome: str
    values: tuple[int, ...]  # index in VALUES of each seat
    holdings: tuple[tuple[int, int], tuple[int, int]] = ((UNITS, UNITS), (UNITS, UNITS))
    offer: Offer | None = None
    actions: tuple[int, ...] = ()
    last_payment: tuple[int, int] = (0, 0)  # change of both gains by the last action

    @property
    def seat(self) -> int:
        """The seat whose turn it is."""
        return len(self.actions) % 2

    @property
    def player(self) -> int:
        if len(self.actions) >= self.turns:
            return TERMINAL
        return CHANCE if len(self.values) < 2 else self.seat

    def legal(self) -> list[int]:
        answers = [ACCEPT, DENY] if self.offer else [DENY]
        return [
            *answers,
            *feasible_offers(self.largest, self.holdings[self.seat], self.holdings[1 - self.seat]),
        ]

    def draws(self) -> range:
        return range(len(VALUES))

    def worth(self, seat: int) -> int:
        """Return the worth of a seat's goods to it."""
        return sum(
            units * value
            for units, value in zip(self.holdings[seat], VALUES[self.values[seat]], strict=True)
        )

    def gains(self) -> tuple[int, int]:
        """Return the gain in worth of each seat's goods since the start."""
        first, second = (UNITS * sum(VALUES[entry]) for entry in self.values)
        return self.worth(0) - first, self.worth(1) - second

    def after(self, index: int) -> NegotiationTable:
        if len(self.values) < 2:
            return replace(self, values=(*self.values, index))
        actions = (*self.actions, index)
        if index != ACCEPT or self.offer is None:
            offer = offers(self.largest)[index - DENY - 1] if index > DENY else None
            return replace(self, offer=offer, actions=actions, last_payment=(0, 0))
        resource, give, ask = self.offer
        # change of (wood, gold) of the proposer, the other seat; then of seat 0
        change = (ask, -give) if resource else (-give, ask)
        if self.seat == 0:
            change = (-change[0], -change[1])
        (wood, gold), (other_wood, other_gold) = self.holdings
        holdings = (
            (wood + change[0], gold + change[1]),
            (other_wood - change[0], other_gold - change[1]),
        )
        table = replace(self, holdings=holdings, offer=None, actions=actions)
        payments = [new - old for old, new in zip(self.gains(), table.gains(), strict=True)]
        return replace(table, last_payment=(payments[0], payments[1]))

    def returns(self) -> list[float]:
        """Return the gains so far; for outcome "sign" 0, and at the end 1, 0 or -1."""
        if self.outcome == "gain":
            return [float(gain) for gain in self.gains()] if len(self.values) == 2 else [0.0, 0.0]
        if self.player != TERMINAL:
            return [0.0, 0.0]
        first, second = self.gains()
        sign = (first > second) - (first < second)
        return [float(sign), float(-sign)]

    def rewards(self) -> list[float]:
        """Return the payoffs of the last action."""
        payments = [float(payment) for payment in self.last_payment]
        return payments if self.outcome == "gain" else self.returns()

    def name_of(self, player: int, index: int) -> str:
        if player < 0:
            return _goods_text(VALUES[index])
        if index <= DENY:
            return ("accept", "deny")[index]
        return offers(self.largest)[index - DENY - 1].word

    def key(self, seat: int) -> str:
        """Return the seat's information state: its own values and all actions."""
        values = _goods_text(VALUES[self.values[seat]]) if len(self.values) > seat else ""
        return f"{seat} {values}:" + "".join(f" {self.name_of(0, move)}" for move in self.actions)

    def __str__(self) -> str:
        """Return the position with nothing hidden."""
        seats = " / ".join(
            f"{_goods_text(VALUES[entry])} holds {_goods_text(self.holdings[seat])}"
            for seat, entry in enumerate(self.values)
        )
        return f"turn {len(self.actions)}: {seats}: {self.offer.word if self.offer else 'no offer'}"


def rules(options: NegotiationOptions) -> Rules:
    """Return the numbers of actions and turns, the bounds of payoffs, and the first table."""
    turns, largest, outcome = options.turns, options.largest, options.outcome
    pays_sign, draws_values = outcome == "sign", options.values == "drawn"
    bound = 1.0 if pays_sign else MAX_GAIN
    return Rules(
        opening=NegotiationTable(turns, largest, outcome, () if draws_values else FIXED_VALUES),
        actions=DENY + 1 + len(offers(largest)),
        outcomes=len(VALUES) if draws_values else 0,
        length=turns,
        least=-bound,
        most=bound,
        utility="zero_sum" if pays_sign else "general_sum",
        hidden=draws_values,
        stepwise=not pays_sign,
    )


def _goods_text(numbers: tuple[int, int]) -> str:
    return f"wood {numbers[0]} gold {numbers[1]}"


register(NAME, NegotiationOptions, rules)


AIMS = {
    "sign": (
        "After the last turn, the player whose goods have gained more in value wins; with equal "
        "gains it is a draw."
    ),
    "gain": "Your result is what your goods have gained in value, whatever the other player gains.",
}


class SimpleNegotiation(Game):
    """Simple negotiation for 2 seats: they trade wood for gold, which they value differently.

    Each seat starts with 10 wood and 10 gold. An offer is illegal if a seat lacks the goods for it;
    "accept" is illegal without an offer.

    Args:
        turns: number of turns of both seats together, 1 to 100.
        largest: largest number of units in an offer, 1 to 10; there are 2 * largest^2 offers.
        values: worth of one wood and one gold. "fixed": 5 and 15 to seat 0, 15 and 5 to seat 1, as
            in SPIRAL. Seats see only their own values, but nothing is random, so tree search can
            play. "drawn": each seat's values are 5/15, 10/10 or 15/5, equally likely.
        outcome: the payoff of an episode. "sign": +1, -1 or 0 at the end for a larger, smaller or
            equal gain in the worth of the seat's goods (zero-sum). "gain": the gains, paid at each
            trade (general-sum; the player mcts cannot search it).
        style: wording, "brief" for tiny models, "full" for language models.

    Raises:
        ConfigError: a number out of range.

    Reference: Liu et al., "SPIRAL: self-play on zero-sum games incentivizes reasoning", 2025; in
    SPIRAL offers are free text.
    """

    title = "negotiation"

    def __init__(self, options: NegotiationOptions, *, style: Style = "brief") -> None:
        spiel, turns, largest = load(NAME, asdict(options)), options.turns, options.largest
        words = ("accept", "deny", *(offer.word for offer in offers(largest)))
        super().__init__(
            spiel, name="simple_negotiation", roles=("seat0", "seat1"), words=words, style=style
        )
        self.turns, self.outcome = turns, options.outcome
        self.draws_values = options.values == "drawn"
        example = Offer(0, min(largest, 3), min(largest, 2))
        self.rules = (
            f"We play a trading game with 2 players and {turns} turns in all, taken one after the "
            f"other; 'seat0' begins. Each player holds {UNITS} wood and {UNITS} gold. A unit is "
            "worth a number of points that depends on the resource and on the player; the other "
            "player's values can differ from yours and are not told. In a turn you do one thing. "
            f"An offer such as {example.word} means that you give {example.give} wood and "
            f"get {example.ask} gold; at most {largest} units each way, and both players must "
            "hold what they would give. 'accept' carries out the offer that the other player has "
            "just made. 'deny' declines it, or passes if there is none; a new offer declines it "
            f"as well. An offer can be accepted in the next turn only. {AIMS[self.outcome]}"
        )

    def private_words(self) -> tuple[str, ...]:
        pairs = VALUES if self.draws_values else [VALUES[entry] for entry in FIXED_VALUES]
        return tuple(word for pair in pairs for word in _price_words(pair))

    def private(self, state: State, seat: int) -> str:
        """Return the worth of the resources to the seat."""
        entries = state.table.values
        if len(entries) <= seat:
            return ""
        pair = VALUES[entries[seat]]
        return (
            " ".join(_price_words(pair))
            if self.brief
            else f"To you, one wood is worth {pair[0]} and one gold {pair[1]} points."
        )

    def position(self, state: State, seat: int) -> str:
        table = state.table
        if len(table.values) < 2:
            return ""
        (wood, gold), (other_wood, other_gold) = table.holdings[seat], table.holdings[1 - seat]
        lines = [
            f"You hold {wood} wood and {gold} gold, worth {table.worth(seat)} points to you, a "
            f"gain of {table.gains()[seat]:+d}. The other player holds {other_wood} wood "
            f"and {other_gold} gold.",
            "" if state.done else f"This is turn {len(table.actions) + 1} of {self.turns}.",
        ]
        if table.offer and state.seat == seat and not state.done:
            resource, give, ask = table.offer
            lines.append(
                f"Open offer: you get {give} {RESOURCES[resource]} and "
                f"give {ask} {RESOURCES[1 - resource]}."
            )
        return " ".join(line for line in lines if line)

    def revealed(self, state: State) -> str:
        pairs = [VALUES[entry] for entry in state.table.values]
        values = (
            f"to {role} wood {pair[0]}, gold {pair[1]}"
            for role, pair in zip(self.roles, pairs, strict=False)
        )
        return f"A unit was worth: {'; '.join(values)}."

    def paint(self, canvas: Canvas, state: State, seat: int | None) -> None:
        self.paint_seats(canvas, state, seat)
        position, roles = state.table, self.roles
        rows = [("", *RESOURCES, "worth", "gain")]
        for player, role in enumerate(roles):
            wood, gold = position.holdings[player]
            is_visible = seat in (None, player)
            prices = VALUES[position.values[player]] if is_visible else ("?", "?")
            rows.append(
                (
                    role,
                    f"{wood} at {prices[0]}",
                    f"{gold} at {prices[1]}",
                    str(position.worth(player)) if is_visible else "?",
                    f"{position.gains()[player]:+d}" if is_visible else "?",
                )
            )
        table(canvas, rows)
        heading(canvas, "Offers", f"turn {len(position.actions)} of {position.turns} taken")
        words = ("accepts", "declines", *map(_offer_text, offers(position.largest)))
        messages = [
            TimelineMessage(roles[number % 2], words[action], seat_colour(number % 2))
            for number, action in enumerate(position.actions)
        ]
        timeline(canvas, messages, most=8)

    def describe(self, state: State, seat: int | None) -> str:
        position, roles = state.table, self.roles
        parts = []
        for player, role in enumerate(roles):
            wood, gold = position.holdings[player]
            prices = VALUES[position.values[player]]
            values = (
                f", worth {prices[0]} and {prices[1]} each, {position.gains()[player]:+d} gained"
                if seat in (None, player)
                else ""
            )
            parts.append(f"{role} holds {wood} wood and {gold} gold{values}.")
        if position.offer:
            proposer = roles[(len(position.actions) - 1) % 2]
            parts.append(f"{proposer} {_offer_text(position.offer)}.")
        text = " ".join(parts)
        return f"{self.due_text(state)} {text} {self.payoff_line(state, seat)}".strip()

    def stake(self, state: State, seat: int) -> float:
        """Return the seat's gain so far, at least 0; 1 if the outcome is "sign"."""
        return max(float(state.returns[seat]), 0.0) if self.outcome == "gain" else 1.0


def _price_words(pair: tuple[int, int]) -> list[str]:
    return [f"{resource}={value}" for resource, value in zip(RESOURCES, pair, strict=True)]


def _offer_text(offer: Offer) -> str:
    gives, asks = RESOURCES[offer.resource], RESOURCES[1 - offer.resource]
    return f"offers {offer.give} {gives} for {offer.ask} {asks}"


simple_negotiation = entry_of(SimpleNegotiation, NegotiationOptions)
