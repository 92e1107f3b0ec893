"""Pieces in rows, each after a label: cards, dice, and discs for pegs, balls, stones and lives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sparring.environments.drawing.canvas import BOLD, EDGE, WIDTH, Canvas, on
from sparring.environments.drawing.words import visible, width_of

LABEL = 112.0  # units for the words before a row
PIPS = {  # places of the pips of a die, in thirds from the middle
    1: ((0, 0),),
    2: ((-1, -1), (1, 1)),
    3: ((-1, -1), (0, 0), (1, 1)),
    4: ((-1, -1), (1, -1), (-1, 1), (1, 1)),
    5: ((-1, -1), (1, -1), (0, 0), (-1, 1), (1, 1)),
    6: ((-1, -1), (1, -1), (-1, 0), (1, 0), (-1, 1), (1, 1)),
}


class Card(NamedTuple):
    """A card: what is on its face, "" for one that is face down; a colour; a word below it."""

    face: str
    colour: str = "ink"
    note: str = ""


def _tile(
    canvas: Canvas, place: tuple[float, float, float, float], down: bool, *, corner: float
) -> None:
    fill = "panel" if down else "paper"
    canvas.box(*place, fill=fill, edge="dim", thick=1.5, corner=corner, dashed=down)


def _named(canvas: Canvas, label: str, y: float, colour: str) -> float:
    """Write the words before a row, with a mark of a colour; return where the row begins."""
    if not label:
        return EDGE
    if colour != "none":
        canvas.box(EDGE, y - 13, 8, 18, fill=colour, corner=2)
    begin = EDGE + (14 if colour != "none" else 0)
    canvas.text(begin, y, label, size=14, width=LABEL - 18)
    return EDGE + LABEL


def cards(
    canvas: Canvas, label: str, hand: Sequence[Card], *, colour: str = "none", high: float = 58
) -> None:
    """Draw a row of cards after a label.

    Args:
        canvas: to draw on.
        label: words before the cards.
        hand: the cards.
        colour: of a mark before the label, such as a seat's.
        high: height of a card.
    """
    notes = 16 if any(card.note for card in hand) else 0
    top = canvas.room(high + notes)
    left = _named(canvas, label, top + high / 2 + 5, colour)
    wide = min(high * 0.72, (WIDTH - EDGE - left + 6) / max(1, len(hand)) - 6)
    for number, card in enumerate(hand):
        x = left + (wide + 6) * number
        down = not card.face
        size = min(22.0, (wide - 6) / max(1.0, BOLD * width_of(visible(card.face), 1)))
        _tile(canvas, (x, top, wide, high), down, corner=5)
        canvas.text(
            x + wide / 2,
            top + high / 2 + 8,
            card.face or "?",
            size=size,
            bold=not down,
            colour="dim" if down else "ink",
            anchor="middle",
            width=wide,
        )
        if card.colour != "ink":
            canvas.box(x + 4, top + 4, wide - 8, 7, fill=card.colour, corner=2)
        if card.note:
            canvas.text(
                x + wide / 2,
                top + high + 14,
                card.note,
                size=13,
                colour="dim",
                anchor="middle",
                width=wide + 4,
            )


def dice(canvas: Canvas, label: str, faces: Sequence[int | None], *, colour: str = "none") -> None:
    """Draw dice after a label; None is one that cannot be seen."""
    side = 40.0
    top = canvas.room(side)
    left = _named(canvas, label, top + side / 2 + 5, colour)
    for number, face in enumerate(faces):
        x = left + (side + 6) * number
        down = face is None
        _tile(canvas, (x, top, side, side), down, corner=7)
        middle = x + side / 2, top + side / 2
        if face in PIPS:
            for across, down_by in PIPS[face]:
                canvas.disc(middle[0] + across * 11, middle[1] + down_by * 11, 3.6, fill="ink")
        else:
            word = "?" if face is None else str(face)
            canvas.text(
                middle[0],
                middle[1] + 7,
                word,
                size=20,
                anchor="middle",
                colour="dim" if down else "ink",
                bold=not down,
            )


def discs(
    canvas: Canvas,
    label: str,
    row: Sequence[tuple[str, str]],
    *,
    colour: str = "none",
    after: str = "",
    radius: float = 14,
) -> None:
    """Draw discs in a row after a label, each with a sign in it and a colour.

    Args:
        canvas: to draw on.
        label: words before the row.
        row: a sign and a colour per disc; the colour "none" is an empty one.
        colour: of a mark before the label.
        after: words after the row.
        radius: of a disc, made smaller where there are many.
    """
    left = EDGE + LABEL if label else EDGE
    room = WIDTH - EDGE - left - (110 if after else 0)
    radius = min(radius, (room / max(1, len(row)) - 4) / 2)
    high = max(2 * radius, 18)
    top = canvas.room(high)
    _named(canvas, label, top + high / 2 + 5, colour)
    for number, (sign, fill) in enumerate(row):
        x, y = left + radius + (2 * radius + 4) * number, top + high / 2
        canvas.disc(x, y, radius, fill=fill, edge="dim" if fill in ("none", "white") else "none")
        canvas.text(
            x,
            y + radius * 0.36,
            sign,
            size=max(radius, 8),
            anchor="middle",
            bold=True,
            colour="ink" if fill == "none" else "black" if fill == "white" else on(fill),
            width=2 * radius,
        )
    if after:
        canvas.text(WIDTH - EDGE, top + high / 2 + 5, after, size=14, anchor="end", width=108)
