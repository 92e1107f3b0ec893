"""The tables of studies/vpr_methods/page.md on methods with the tiny model, and their curves."""

from __future__ import annotations

from sparring.report.svg import Series, line_chart
from studies.common.result_figures import (
    Maker,
    Results,
    Row,
    curve,
    interval_text,
    markdown,
    paired_difference,
    values,
)
from studies.common.vpr_figures import (
    METHODS,
    TRAINED_STARTS,
    format_share,
    returns_at_half_and_end,
)

GAMES = {
    "sudoku": "Sudoku, 64 puzzles",
    "minesweeper": "Minesweeper, safest cell",
    "minesweeper-best": "Minesweeper, best play",
    "tictactoe": "tic-tac-toe",
}
OUTCOMES_OF = {"minesweeper-best": "minesweeper"}
AHEAD = "over the run, minus outcome"


def cell(results: Results, game: str, method: str) -> Row | None:
    """Return the row of a game and a method on the starts of its training, or None."""
    rows = [
        row
        for row in results.rows(game=game)
        if row.get("learns by", row.get("method")) == method and row["starts"] in TRAINED_STARTS
    ]
    return rows[0] if rows else None


def methods(results: Results) -> str:
    """Return the figures of the tiny model with each method, during training."""
    head = ("game", "starts", "learns by", "return, half", "return, end", AHEAD)
    lines = []
    for game, title in GAMES.items():
        for method, name in METHODS.items():
            row = cell(results, game, method)
            if row is not None:
                figures = (*returns_at_half_and_end(row, game), ahead(results, row, game, method))
                lines.append((title, row["starts"], name, *figures))
                title = ""
    return markdown(head, lines)


def ahead(results: Results, row: Row, game: str, method: str) -> str:
    """Return a method's return over the run minus that of the outcome method."""
    if method == "outcome":
        return "-"
    if AHEAD in row.get("text", {}):
        return str(row["text"][AHEAD])
    other = cell(results, OUTCOMES_OF.get(game, game), "outcome")
    return (
        "-"
        if other is None
        else interval_text(paired_difference(row, other, "return over the run"))
    )


def by_heart(results: Results) -> str:
    """Return the shares of training puzzles and of other puzzles that the tiny model solves."""
    head = ("learns by", "starts", "solved", "best moves", "illegal replies")
    lines = []
    for method, name in METHODS.items():
        for row in results.rows(game="sudoku", learns_by=method):
            figures = (format_share(row, figure) for figure in ("solved", "best moves", "illegal"))
            lines.append((name, row["starts"], *figures))
    return markdown(head, lines)


def charts(results: Results) -> dict[str, str]:
    """Return a chart per game by file name: the mean return during training, by method."""
    files = {}
    for game in dict.fromkeys(row["game"] for row in results.rows()):
        rows = [row for row in results.rows(game=game) if row["starts"] in TRAINED_STARTS]
        files[f"vpr-methods-{game}.svg"] = line_chart(
            [Series(name=row["learns by"], points=curve(row, "return after ")) for row in rows],
            title=f"{game}: mean return while training, {rows[0]['starts']} starts",
            note=f"{len(values(rows[0], 'return, end'))} seeds",
            x_label="games",
            standalone=True,
        )
    return files


MARKERS: dict[str, Maker] = {
    "vpr methods": methods,
    "vpr by heart": by_heart,
    "vpr methods source": Results.source,
}
SECTIONS = {"While training": "vpr methods", "Learnt by heart, and new puzzles": "vpr by heart"}
