"""Pieces of pictures: a canvas that grows downwards, and what environments draw on it."""

from sparring.environments.drawing.boards import Card, Cell, cards, dice, discs, grid
from sparring.environments.drawing.canvas import Canvas, Painted, Theme, seat_colour
from sparring.environments.drawing.pieces import (
    Exchange,
    Said,
    describe_told,
    draw_told,
    due_sentence,
    heading,
    paragraph,
    printed,
    seats,
    strip,
    table,
    timeline,
)

__all__ = [
    "Canvas",
    "Card",
    "Cell",
    "Exchange",
    "Painted",
    "Said",
    "Theme",
    "cards",
    "describe_told",
    "dice",
    "discs",
    "draw_told",
    "due_sentence",
    "grid",
    "heading",
    "paragraph",
    "printed",
    "seat_colour",
    "seats",
    "strip",
    "table",
    "timeline",
]
