"""The picture of a Hanabi table: stacks, tokens, discards, hands and what was told of them."""

from __future__ import annotations

from collections.abc import Sequence

from sparring.environments.drawing.canvas import Canvas, seat_colour
from sparring.environments.drawing.pieces import paragraph
from sparring.environments.drawing.rows import Card, cards, discs
from sparring.environments.hanabi.rules import Table

HUES = {"R": "red", "Y": "yellow", "G": "green", "W": "white", "B": "blue"}


def paint(canvas: Canvas, table: Table, seat: int | None, roles: Sequence[str]) -> None:
    """Draw a table.

    Args:
        canvas: to draw on.
        table: the position.
        seat: who looks: its own hand is face down; None: nothing is hidden.
        roles: name of each seat.
    """
    stacks = [Card(f"{colour}{height}", HUES[colour]) for colour, height in table.stacks.items()]
    cards(canvas, "stacks", stacks)
    discs(canvas, "hints left", [("i", "sky")] * table.information, radius=10)
    after = f"deck {table.deck}"
    discs(canvas, "lives left", [("", "red")] * table.lives, radius=10, after=after)
    for one, (role, hand) in enumerate(zip(roles, table.hands, strict=True)):
        told = ["".join(known).replace("??", "") for known in table.known[one]]
        shown = [
            Card("" if seat == one else card, _hue(card, seat == one, known), known.strip("?"))
            for card, known in zip(hand, told, strict=True)
        ]
        cards(canvas, role, shown, colour=seat_colour(one))
    paragraph(canvas, f"Discarded: {' '.join(table.discards) or 'none'}.", colour="dim", size=14)


def _hue(card: str, own: bool, known: str) -> str:
    """Return the colour of a card; of one's own what was told of it."""
    if own:
        return HUES.get(known[:1], "ink")
    return HUES[card[0]]


def describe(table: Table, seat: int | None, roles: Sequence[str]) -> str:
    """Return the stacks, the tokens and the hands that are seen."""
    stacks = " ".join(f"{colour}{height}" for colour, height in table.stacks.items())
    parts = [
        f"Stacks {stacks}; {table.information} hints, {table.lives} lives and {table.deck} cards "
        "in the deck are left."
    ]
    for one, (role, hand) in enumerate(zip(roles, table.hands, strict=True)):
        if seat == one:
            told = " ".join("".join(known) for known in table.known[one])
            parts.append(f"{role} knows of its own hand: {told}.")
        else:
            parts.append(f"{role} holds {' '.join(hand)}.")
    return " ".join(parts)
