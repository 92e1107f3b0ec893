"""Pictures of positions: a canvas that grows downwards, and the pieces to draw on it."""

from sparring.environments.drawing.boards import BoardCell, Card, cards, dice, discs, grid
from sparring.environments.drawing.canvas import Canvas, PaintedPlay, Theme, seat_colour
from sparring.environments.drawing.pieces import (
    PastTurn,
    TimelineMessage,
    describe_play,
    draw_play,
    due_sentence,
    heading,
    paragraph,
    printed_lines,
    seats,
    strip,
    table,
    timeline,
)

__all__ = [
    "BoardCell",
    "Canvas",
    "Card",
    "PaintedPlay",
    "PastTurn",
    "Theme",
    "TimelineMessage",
    "cards",
    "describe_play",
    "dice",
    "discs",
    "draw_play",
    "due_sentence",
    "grid",
    "heading",
    "paragraph",
    "printed_lines",
    "seat_colour",
    "seats",
    "strip",
    "table",
    "timeline",
]
