"""Helpers of the tables of studies/vpr_methods/page.md."""

from __future__ import annotations

from studies.common.result_figures import Row, points, spread

TRAINED_STARTS = ("seen", "all")  # values of `starts` for training states
METHODS = {
    "vpr": "VPR",
    "outcome": "outcome",
    "playouts": "MC-PR",
    "vpr-to-go": "VPR, summed",
    "vpr-outcome": "VPR + outcome",
}


def format_share(row: Row, figure: str, digits: int = 2) -> str:
    """Return a share with its interval as text, clipped to [0, 1]."""
    return spread(row, figure, digits, low=0.0, high=1.0)


def figure_at(row: Row, point: str) -> str:
    """Return the name of the return at "half" or "the end" of the run of a row."""
    if "text" in row:
        return f"return at {point}"
    if point == "half" and "return, half" not in row["values"]:
        curve = points(row, "return after ")
        early = [name for games, name in curve if games <= curve[-1][0] / 2]
        return early[-1] if early else curve[0][1]
    return f"return, {point.removeprefix('the ')}"


def returns_at_half_and_end(row: Row, task: str) -> list[str]:
    """Return the texts of the returns at half of a run and at its end."""
    low = -1.0 if task == "tictactoe" else 0.0
    return [spread(row, figure_at(row, point), low=low, high=1.0) for point in ("half", "the end")]
