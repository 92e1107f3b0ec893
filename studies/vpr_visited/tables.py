"""The table of studies/vpr_methods/page.md on the states that guiding leads to."""

from __future__ import annotations

from studies.common.result_figures import Maker, Results, Row, markdown
from studies.common.vpr_figures import part
from studies.vpr_released.tables import ARMS
from studies.vpr_visited.study import START

SIZES = {"sudoku": "four puzzles", "minesweeper": "2x3, six fields", "sokoban": "four rooms"}


def visited(results: Results) -> str:
    """Return what is solved with so many replies, and how far they lead from one's states."""
    sampled = sorted({int(one["sampled"]) for one in results.rows()})
    head = ("puzzle", "learns by", "K")
    names = [f"{what} after {number:,}" for what in ("solved", "shift") for number in sampled]
    lines = []
    for one in results.rows(sampled=str(sampled[-1])):
        at = [_at(results, one, number) for number in sampled]
        own = (f"{one['game']}, {SIZES[one['game']]}", ARMS[one["arm"]], one["replies"])
        solved = (part(row, "success") for row in at)
        lines.append((*own, *solved, *(part(row, "distance") for row in at)))
    return markdown((*head, *names), lines)


def _at(results: Results, one: Row, sampled: int) -> Row:
    """Return the row of an arm and a number of replies after so many tokens, 0 for the start."""
    arm = START if sampled == 0 else one["arm"]
    return results.row(game=one["game"], arm=arm, replies=one["replies"], sampled=str(sampled))


MADE: dict[str, Maker] = {"vpr visited": visited, "vpr visited source": Results.source}
SHOWN = {"Visited states": "vpr visited"}
