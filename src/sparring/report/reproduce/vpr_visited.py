"""The table of docs/reproduction/vpr.md on the states that guiding leads to."""

from __future__ import annotations

from sparring.report.reproduce.vpr_released import ARMS
from sparring.report.result_figures import Maker, Results, markdown, spread
from sparring.report.vpr_figures import part

SIZES = {"sudoku": "four puzzles", "minesweeper": "2x3, six fields", "sokoban": "four rooms"}


def visited(results: Results) -> str:
    """Return how far the best of K replies leads from the states of the policy alone, exactly."""
    head = ("puzzle", "learns by", "tokens sampled", "K", "decisions", "solved", "illegal", "shift")
    lines = []
    for one in results.rows():
        own = (f"{one['game']}, {SIZES[one['game']]}", ARMS[one["arm"]], f"{int(one['sampled']):,}")
        parts = (part(one, "success"), part(one, "illegal"), part(one, "distance", 3))
        lines.append((*own, one["replies"], spread(one, "decisions"), *parts))
    return markdown(head, lines)


MADE: dict[str, Maker] = {}  # markers of the page, once there are published figures
SHOWN = {"Visited states": visited}
