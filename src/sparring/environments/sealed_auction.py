"""Sealed auction: every seat knows only its own value, and all seats bid at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.bank import BANKS, Bank
from sparring.environments.drawing.canvas import Canvas, PaintedPlay
from sparring.environments.drawing.pieces import due_sentence, paragraph, seats, table

Values = tuple[int, ...]


@dataclass(kw_only=True, eq=False)
class SealedAuction(Bank):
    """A sealed auction of one thing with private values; all seats bid at once.

    What: each seat knows only its own value v and bids a whole number. The largest bid wins; if
    several seats bid it, the winner is random.
    When to use: simultaneous moves with private knowledge, any number of seats, general sum.
    Mathematics:
        return of the winner = v - price,  of the other seats = 0
    With ``price: second`` the bid v is dominant (Vickrey). With ``price: first``, continuous values
    uniform on [0, V] and n bidders, the equilibrium bid is
        v (n - 1) / n
    Pitfalls: in first-price auctions uniformly random bids lose money on average, because many
    exceed the value. Always bidding 0 is better. ``max_utility`` is reached only at price 0.
    Reference: Vickrey, "Counterspeculation, auctions, and competitive sealed tenders", 1961.
    Verified by: tests/environments/test_sealed_auction.py.

    Args:
        seats: number of bidders, 2 to 10.
        largest: the largest value, and the largest bid, 1 to 100.
        price: price for the winner: "first" (default), its own bid; "second", the second largest.
        deals: number of value tuples in the bank, 1 to 100,000.
        bank: number of the bank, below 2^31. Another bank has other deals from the same
            distribution; banks of small auctions share some deals.
        style: "brief" (default): words for a tiny model. "full": sentences for a language model.
    """

    seats: Annotated[int, Field(ge=2, le=10)] = 2
    largest: Annotated[int, Field(ge=1, le=100)] = 10
    price: Literal["first", "second"] = "first"
    deals: Annotated[int, Field(ge=1, le=100_000)] = 1000
    bank: Annotated[int, Field(ge=0, lt=BANKS)] = 0
    style: Literal["brief", "full"] = "brief"

    name = "sealed_auction"
    size_option = "deals"
    utility_sum, zero_sum = None, False

    def __post_init__(self) -> None:
        self.roles = tuple(f"bidder{seat + 1}" for seat in range(self.seats))
        self.num_seats = self.max_turns = self.seats
        self.brief = self.style == "brief"
        self.bids = tuple(str(bid) for bid in range(self.largest + 1))
        # with price "first" a bidder can pay its largest bid for a value of 0
        self.min_utility, self.max_utility = -float(self.largest), float(self.largest)

    def start(self, number: int) -> Values:
        """Return the values of deal ``number`` of the bank."""
        stream = self.bank_stream(number)
        return tuple(stream.integer(seat, self.largest + 1) for seat in range(self.num_seats))

    def vocabulary(self) -> tuple[str, ...]:
        return tuple(sorted({*self.bids, *self.roles, "value", "bid", "bids", "won", "lost"}))

    def reset(self, stream: Stream) -> Auction:
        values = self.draw_start(stream)
        assert isinstance(values, tuple)
        return Auction(self, values, stream)


class Auction(PaintedPlay):
    """One episode of the auction.

    Attributes:
        start: the value of each seat.
        bids: the bid of each seat; empty before the bids.
    """

    def __init__(
        self, rules: SealedAuction, values: Values, stream: Stream, bids: Values = ()
    ) -> None:
        self.rules, self.start, self.stream, self.bids = rules, values, stream, bids

    @property
    def done(self) -> bool:
        return bool(self.bids)

    @property
    def winner(self) -> int:
        """The seat with the largest bid; a random one of several such seats."""
        leaders = [seat for seat, bid in enumerate(self.bids) if bid == max(self.bids)]
        return leaders[self.stream.child("lot").integer(0, len(leaders))]

    @property
    def returns(self) -> tuple[float, ...]:
        """The winner's value minus the price; 0 for the other seats."""
        if not self.bids:
            return (0.0,) * self.rules.num_seats
        sorted_bids, winner = sorted(self.bids), self.winner
        price = sorted_bids[-1 if self.rules.price == "first" else -2]
        return tuple(
            float(value - price) if seat == winner else 0.0 for seat, value in enumerate(self.start)
        )

    def due(self) -> tuple[int, ...]:
        return () if self.done else tuple(range(self.rules.num_seats))

    def legal(self, seat: int) -> tuple[str, ...]:
        """Return the legal bids: whole numbers from 0 to the largest value."""
        return self.rules.bids

    def observe(self, seat: int) -> Observation:
        """Return the seat's own value, which no other seat sees."""
        rules, value = self.rules, self.start[seat]
        key = f"{seat} {value}"
        if rules.brief:
            return Observation(prompt=f"{rules.roles[seat]} value {value} bid", key=key)
        price_text = "its bid" if rules.price == "first" else "the second largest bid"
        prompt = (
            f"We hold a sealed auction of one thing among {rules.num_seats} bidders. All bid at "
            f"once, a whole number from 0 to {rules.largest}. The largest bid wins and pays "
            f"{price_text}; a lot decides between equal bids. Every bidder's value is a whole "
            f"number from 0 to {rules.largest}, each as likely. The winner gets its value less the "
            f"price, the others get 0.\n\nYou are {rules.roles[seat]}. The thing is worth {value} "
            "to you."
        )
        ask = f"What do you bid? Reply with one whole number from 0 to {rules.largest}."
        return Observation(prompt=prompt, ask=ask, key=key)

    def step(self, replies: Mapping[int, str]) -> None:
        self.bids = tuple(int(replies[seat]) for seat in range(self.rules.num_seats))

    def ending(self, seat: int) -> str:
        """Return all bids, and whether the seat won."""
        has_won, bids = self.winner == seat, " ".join(map(str, self.bids))
        if self.rules.brief:
            return f"bids {bids} {'won' if has_won else 'lost'}"
        bid_text = ", ".join(map(str, self.bids))
        return f"The bids were {bid_text}. You {'won' if has_won else 'did not win'}."

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        roles = self.rules.roles
        winner = self._visible_winner(seat)
        seats(canvas, roles, self.due(), {} if winner is None else {winner: "won"})
        rows = [("", "value", "bid", "gets" if seat is None else "")]
        for player, role in enumerate(roles):
            value = str(self.start[player]) if seat in (None, player) else "?"
            bid = str(self.bids[player]) if self.bids else ""
            rows.append((role, value, bid, f"{self.returns[player]:+g}" if seat is None else ""))
        table(canvas, rows, marked=[] if winner is None else [(winner + 1, 2)])
        price_text = "its bid" if self.rules.price == "first" else "the second largest bid"
        paragraph(canvas, f"The winner pays {price_text}.", colour="dim")

    def _visible_winner(self, seat: int | None) -> int | None:
        has_one_leader = self.done and self.bids.count(max(self.bids)) == 1
        return (
            self.winner if has_one_leader or (self.done and seat in (None, self.winner)) else None
        )

    def described(self, seat: int | None) -> str:
        roles = self.rules.roles
        visible_values = [
            f"The thing is worth {value} to {role}."
            for player, (role, value) in enumerate(zip(roles, self.start, strict=True))
            if seat in (None, player)
        ]
        if not self.done:
            return " ".join([due_sentence(roles), *visible_values])
        bids = ", ".join(f"{role} {bid}" for role, bid in zip(roles, self.bids, strict=True))
        winner = self._visible_winner(seat)
        winner_name = "another seat" if winner is None else roles[winner]
        return " ".join([f"The bids were {bids}; {winner_name} won.", *visible_values])

    def clone(self) -> Auction:
        return Auction(self.rules, self.start, self.stream, self.bids)


sealed_auction = SealedAuction
