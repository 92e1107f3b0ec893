"""The picture of a negotiation: goods and their worth, the offers so far."""

from __future__ import annotations

from collections.abc import Sequence

from sparring.environments.drawing.canvas import Canvas, seat_colour
from sparring.environments.drawing.pieces import Said, heading, table, timeline
from sparring.environments.simple_negotiation.rules import (
    ACCEPT,
    DENY,
    RESOURCES,
    VALUES,
    NegotiationTable,
    Offer,
    offers,
)


def paint(
    canvas: Canvas, position: NegotiationTable, seat: int | None, roles: Sequence[str]
) -> None:
    """Draw the goods, their worth to the seats whose values the reader knows, and the offers.

    Args:
        canvas: to draw on.
        position: with values drawn.
        seat: who looks; None: nothing is hidden.
        roles: name of each seat.
    """
    rows = [("", *RESOURCES, "worth", "gain")]
    for one, role in enumerate(roles):
        wood, gold = position.holdings[one]
        known = seat in (None, one)
        prices = VALUES[position.values[one]] if known else ("?", "?")
        rows.append(
            (
                role,
                f"{wood} at {prices[0]}",
                f"{gold} at {prices[1]}",
                str(position.worth(one)) if known else "?",
                f"{position.gains()[one]:+d}" if known else "?",
            )
        )
    table(canvas, rows)
    heading(canvas, "Offers", f"turn {len(position.actions)} of {position.turns} taken")
    said = [
        Said(roles[number % 2], _action(position, action), seat_colour(number % 2))
        for number, action in enumerate(position.actions)
    ]
    timeline(canvas, said, most=8)


def describe(position: NegotiationTable, seat: int | None, roles: Sequence[str]) -> str:
    """Return the goods, their worth where the reader knows it, and the open offer."""
    parts = []
    for one, role in enumerate(roles):
        wood, gold = position.holdings[one]
        prices = VALUES[position.values[one]]
        worth = (
            f", worth {prices[0]} and {prices[1]} each, {position.gains()[one]:+d} gained"
            if seat in (None, one)
            else ""
        )
        parts.append(f"{role} holds {wood} wood and {gold} gold{worth}.")
    if position.offer:
        proposer = roles[(len(position.actions) - 1) % 2]
        parts.append(f"{proposer} {_offer(position.offer)}.")
    return " ".join(parts)


def _action(position: NegotiationTable, action: int) -> str:
    """Return an action in words."""
    if action <= DENY:
        return "accepts" if action == ACCEPT else "declines"
    return _offer(offers(position.largest)[action - DENY - 1])


def _offer(offer: Offer) -> str:
    """Return an offer in words."""
    gives, asks = RESOURCES[offer.resource], RESOURCES[1 - offer.resource]
    return f"offers {offer.give} {gives} for {offer.ask} {asks}"
