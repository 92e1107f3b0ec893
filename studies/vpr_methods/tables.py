"""The tables of studies/vpr_methods/page.md on methods with the tiny model, and their curves."""

from __future__ import annotations

from sparring.report.svg import Series, line_chart
from studies.common.result_figures import Maker, Results, Row, curve, less, markdown, shown, values
from studies.common.vpr_figures import METHODS, TRAINED, part, returns

GAMES = {
    "sudoku": "Sudoku, 64 puzzles",
    "minesweeper": "Minesweeper, safest cell",
    "minesweeper-best": "Minesweeper, best play",
    "tictactoe": "tic-tac-toe",
}
OUTCOMES_OF = {"minesweeper-best": "minesweeper"}
AHEAD = "over the run, less outcome's"


def cell(results: Results, game: str, method: str) -> Row | None:
    """Return the row of a game and a method on the starts of its training, or None."""
    found = [
        one
        for one in results.rows(game=game)
        if one.get("learns by", one.get("method")) == method and one["starts"] in TRAINED
    ]
    return found[0] if found else None


def methods(results: Results) -> str:
    """Return what the tiny model learns by each method, while training."""
    head = ("game", "starts", "learns by", "return, half", "return, end", AHEAD)
    lines = []
    for game, title in GAMES.items():
        for method, name in METHODS.items():
            one = cell(results, game, method)
            if one is not None:
                found = (*returns(one, game), ahead(results, one, game, method))
                lines.append((title, one["starts"], name, *found))
                title = ""
    return markdown(head, lines)


def ahead(results: Results, one: Row, game: str, method: str) -> str:
    """Return by how much a method's return over the run is larger than the outcome run's."""
    if method == "outcome":
        return "-"
    if AHEAD in one.get("text", {}):
        return str(one["text"][AHEAD])
    other = cell(results, OUTCOMES_OF.get(game, game), "outcome")
    return "-" if other is None else shown(less(one, other, "return over the run"))


def by_heart(results: Results) -> str:
    """Return what the tiny model solves of training's 64 puzzles, and of others."""
    head = ("learns by", "starts", "solved", "best moves", "illegal replies")
    lines = []
    for method, name in METHODS.items():
        for one in results.rows(game="sudoku", learns_by=method):
            found = (part(one, figure) for figure in ("solved", "best moves", "illegal"))
            lines.append((name, one["starts"], *found))
    return markdown(head, lines)


def charts(results: Results) -> dict[str, str]:
    """Return the mean return of each game while training, by method: a chart by file name."""
    found = {}
    for game in dict.fromkeys(one["game"] for one in results.rows()):
        rows = [one for one in results.rows(game=game) if one["starts"] in TRAINED]
        found[f"vpr-methods-{game}.svg"] = line_chart(
            [Series(name=one["learns by"], points=curve(one, "return after ")) for one in rows],
            title=f"{game}: mean return while training, {rows[0]['starts']} starts",
            note=f"{len(values(rows[0], 'return, end'))} seeds",
            x_label="games",
            standalone=True,
        )
    return found


MADE: dict[str, Maker] = {
    "vpr methods": methods,
    "vpr by heart": by_heart,
    "vpr methods source": Results.source,
}
SHOWN = {"While training": "vpr methods", "Learnt by heart, and new puzzles": "vpr by heart"}
