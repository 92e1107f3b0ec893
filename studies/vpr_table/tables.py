"""The tables of studies/vpr_methods/page.md on a table of logits."""

from __future__ import annotations

from studies.common.result_figures import Maker, Results, markdown
from studies.common.vpr_figures import TRAINED, part, returns

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
    """Return what the table of logits learns."""
    head = ("varied", "task", "starts", "learns by", "return, half", "return, end")
    lines = []
    for one in results.rows():
        if one["starts"] in TRAINED:
            group = "" if one["group"] == 8 else f", groups of {one['group']}"
            labels = (one["varied"], TASKS[one["task"]], one["starts"], one["learns by"] + group)
            lines.append((*labels, *returns(one, one["task"])))
    return markdown(head, lines)


def new_boards(results: Results) -> str:
    """Return what the table does on unseen starts beside seen ones."""
    head = ("task", "learns by", "seen: return, end", "unseen: return, end")
    lines = []
    for one in results.rows(varied="kind of game", starts="unseen"):
        name = {"task": one["task"], "learns_by": one["learns by"]}
        seen = results.row(varied="kind of game", starts="seen", **name)
        found = (part(seen, "return, end"), part(one, "return, end"))
        lines.append((TASKS[one["task"]], one["learns by"], *found))
    return markdown(head, lines)


MADE: dict[str, Maker] = {
    "vpr table": table,
    "vpr new boards": new_boards,
    "vpr table source": Results.source,
}
SHOWN = {"What is learnt": "vpr table", "Starts that training never met": "vpr new boards"}
