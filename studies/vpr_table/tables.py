"""The tables of studies/vpr_methods/page.md on a table of logits."""

from __future__ import annotations

from studies.common.result_figures import Maker, Results, markdown
from studies.common.vpr_figures import TRAINED_STARTS, format_share, returns_at_half_and_end

TASKS = {
    "sudoku2": "Sudoku, 2 empty",
    "sudoku4": "Sudoku, 4 empty",
    "sudoku6": "Sudoku, 6 empty",
    "sudoku8": "Sudoku, 8 empty",
    "minesweeper3": "Minesweeper 3x3, safest",
    "minesweeper3-best": "the same, best play",
    "tictactoe": "tic-tac-toe",
}


def table(results: Results) -> str:
    """Return the figures of the table of logits."""
    head = ("varied", "task", "starts", "learns by", "return, half", "return, end")
    lines = []
    for row in results.rows():
        if row["starts"] in TRAINED_STARTS:
            group = "" if row["group"] == 8 else f", groups of {row['group']}"
            labels = (row["varied"], TASKS[row["task"]], row["starts"], row["learns by"] + group)
            lines.append((*labels, *returns_at_half_and_end(row, row["task"])))
    return markdown(head, lines)


def new_boards(results: Results) -> str:
    """Return the figures of the table on seen and unseen initial states."""
    head = ("task", "learns by", "seen: return, end", "unseen: return, end")
    lines = []
    for row in results.rows(varied="kind of game", starts="unseen"):
        name = {"task": row["task"], "learns_by": row["learns by"]}
        seen = results.row(varied="kind of game", starts="seen", **name)
        figures = (format_share(seen, "return, end"), format_share(row, "return, end"))
        lines.append((TASKS[row["task"]], row["learns by"], *figures))
    return markdown(head, lines)


MARKERS: dict[str, Maker] = {
    "vpr table": table,
    "vpr new boards": new_boards,
    "vpr table source": Results.source,
}
SECTIONS = {"What is learnt": "vpr table", "Starts that training never met": "vpr new boards"}
