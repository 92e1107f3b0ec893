"""The table of studies/vpr_methods/page.md on the states that the best of K replies leads to."""

from __future__ import annotations

from studies.common.result_figures import Maker, Results, Row, markdown
from studies.common.vpr_figures import format_share
from studies.vpr_released.tables import ARMS
from studies.vpr_visited.study import START

SIZES = {"sudoku": "four puzzles", "minesweeper": "2x3, six fields", "sokoban": "four rooms"}


def visited(results: Results) -> str:
    """Return the shares solved with K replies, and the distance of their visits from those of one
    reply.
    """
    sampled = sorted({int(arm_row["sampled"]) for arm_row in results.rows()})
    head = ("puzzle", "learns by", "K")
    names = [f"{what} after {number:,}" for what in ("solved", "shift") for number in sampled]
    lines = []
    for arm_row in results.rows(sampled=str(sampled[-1])):
        at = [_at(results, arm_row, number) for number in sampled]
        labels = (
            f"{arm_row['game']}, {SIZES[arm_row['game']]}",
            ARMS[arm_row["arm"]],
            arm_row["replies"],
        )
        solved = (format_share(row, "success") for row in at)
        lines.append((*labels, *solved, *(format_share(row, "distance") for row in at)))
    return markdown((*head, *names), lines)


def _at(results: Results, row: Row, sampled: int) -> Row:
    """Return the row of an arm after a number of tokens; 0 tokens means the start."""
    arm = START if sampled == 0 else row["arm"]
    return results.row(game=row["game"], arm=arm, replies=row["replies"], sampled=str(sampled))


MARKERS: dict[str, Maker] = {"vpr visited": visited, "vpr visited source": Results.source}
SECTIONS = {"Visited states": "vpr visited"}
