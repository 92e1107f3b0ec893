"""The tables of docs/reproduction/vpr.md."""

from measured import less, markdown, rows, shown, source, spread, values

GAMES = {
    "sudoku": "Sudoku, 64 puzzles",
    "minesweeper": "Minesweeper, safest cell",
    "minesweeper-best": "Minesweeper, best play",
    "tictactoe": "tic-tac-toe",
}
METHODS = {
    "vpr": "VPR",
    "outcome": "outcome",
    "playouts": "MC-PR",
    "vpr-to-go": "VPR, summed",
    "vpr-outcome": "VPR + outcome",
}
TASKS = {
    "sudoku2": "Sudoku, 2 empty",
    "sudoku4": "Sudoku, 4 empty",
    "sudoku6": "Sudoku, 6 empty",
    "sudoku8": "Sudoku, 8 empty",
    "minesweeper3": "Minesweeper 3x3, safest",
    "minesweeper3-best": "the same, best play",
    "tictactoe": "tic-tac-toe",
}
TRAINED = ("seen", "all")  # what the starts of training can be
OUTCOMES_OF = {"minesweeper-best": "minesweeper", "minesweeper3-best": "minesweeper3"}
AHEAD = "over the run, less outcome's"


def cell(file, game, method):
    """Return the row of a game and a method on the starts of its training, or None."""
    found = [
        one
        for one in rows(file, game=game)
        if one.get("learns by", one.get("method")) == method and one["starts"] in TRAINED
    ]
    return found[0] if found else None


def methods():
    """Return what the tiny model learns by each method, while training."""
    head = ("game", "starts", "learns by", "return, half", "return, end", AHEAD)
    lines = []
    for game, title in GAMES.items():
        for method, name in METHODS.items():
            one = cell("vpr-methods", game, method)
            if one is None:
                continue
            low = -1.0 if game == "tictactoe" else 0.0
            found = (
                spread(one, when(one, point), low=low, high=1.0) for point in ("half", "the end")
            )
            lines.append((title, one["starts"], name, *found, ahead(game, method)))
            title = ""
    return markdown(head, lines)


def ahead(game, method):
    """Return by how much a method's return over the run is larger than the outcome run's, by seed."""
    one = cell("vpr-methods", game, method)
    if method == "outcome":
        return "-"
    if AHEAD in one.get("text", {}):
        return one["text"][AHEAD]
    other = cell("vpr-methods", OUTCOMES_OF.get(game, game), "outcome")
    return shown(less(one, other, "return over the run"))


def by_heart():
    """Return what the tiny model solves of training's 64 puzzles, and of others."""
    head = ("learns by", "starts", "solved", "best moves", "illegal replies")
    lines = []
    for method, name in METHODS.items():
        for one in rows("vpr-methods", game="sudoku", learns_by=method):
            found = (part(one, figure) for figure in ("solved", "best moves", "illegal"))
            lines.append((name, one["starts"], *found))
    return markdown(head, lines)


def part(one, figure, digits=2):
    """Return a share with its interval, held to [0, 1]."""
    return spread(one, figure, digits, low=0.0, high=1.0)


def general():
    """Return what is solved of new puzzles by the recipe of thousands of puzzles."""
    head = ("learns by", "empty cells", "starts", "solved, first step", "solved, end", "by seed")
    lines = []
    for one in rows("vpr-general"):
        seeds = ", ".join(f"{value:.2f}" for value in values(one, "solved"))
        found = (part(one, points(one, "solved after ")[0][1]), part(one, "solved"))
        lines.append(
            (METHODS[one["learns by"]], str(one["empty cells"]), one["starts"], *found, seeds)
        )
    return markdown(head, lines)


def general_paired():
    """Return VPR's share of unseen puzzles solved less that of outcomes, paired by seed."""
    head = ("empty cells", "VPR less outcome, unseen", "by seed")
    lines = []
    for one in rows("vpr-general", learns_by="vpr", starts="unseen"):
        (other,) = rows(
            "vpr-general", learns_by="outcome", starts="unseen", empty_cells=one["empty cells"]
        )
        pairs = zip(values(one, "solved"), values(other, "solved"), strict=True)
        seeds = ", ".join(f"{first - second:+.2f}" for first, second in pairs)
        lines.append((str(one["empty cells"]), shown(less(one, other, "solved")), seeds))
    return markdown(head, lines)


def points(one, prefix):
    """Return (games, name of the figure) of the figures of a curve, in order."""
    names = (name for name in one["values"] if name.startswith(prefix))
    return sorted((int(name.removeprefix(prefix)), name) for name in names)


def noise():
    """Return what is learnt under each pair of rates, ordered by TPR - FPR."""
    head = ("TPR", "FPR", "TPR - FPR", "accuracy at first", "return over the run", "return, end")
    names = ("return over the run", "return, end")
    found = [one for one in rows("vpr-noise", starts="seen") if "TPR" in one]
    lines = []
    for one in sorted(found, key=lambda one: (-round(one["TPR"] - one["FPR"], 6), one["FPR"])):
        right, wrong = one["TPR"], one["FPR"]
        accuracy = right / 4 + (1 - wrong) * 3 / 4  # one legal digit of four is right
        labels = (f"{right:g}", f"{wrong:g}", f"{right - wrong:.1f}", f"{accuracy:.2f}")
        lines.append((*labels, *(part(one, name) for name in names)))
    for one in rows("vpr-noise", starts="seen", learns_by="outcome"):
        lines.append(("outcome", "-", "-", "-", *(part(one, name) for name in names)))
    return markdown(head, lines)


def when(one, point):
    """Return the name of the return at "half" or at "the end" of a row's run."""
    if "text" in one:
        return f"return at {point}"
    if point == "half" and "return, half" not in one["values"]:
        curve = points(one, "return after ")
        return [name for games, name in curve if games <= curve[-1][0] / 2][-1]
    return f"return, {point.removeprefix('the ')}"


def table():
    """Return what the table of logits learns."""
    head = ("varied", "task", "starts", "learns by", "return, half", "return, end")
    lines = []
    for one in rows("vpr_table"):
        if one["starts"] in TRAINED:
            low = -1.0 if one["task"] == "tictactoe" else 0.0
            name = one["learns by"] + ("" if one["group"] == 8 else f", groups of {one['group']}")
            found = (
                spread(one, when(one, point), low=low, high=1.0) for point in ("half", "the end")
            )
            lines.append((one["varied"], TASKS[one["task"]], one["starts"], name, *found))
    return markdown(head, lines)


def new_boards():
    """Return what the table does on unseen starts beside seen ones."""
    head = ("task", "learns by", "seen: return, end", "unseen: return, end")
    lines = []
    for one in rows("vpr_table", varied="kind of game", starts="unseen"):
        (seen,) = rows(
            "vpr_table",
            varied="kind of game",
            task=one["task"],
            learns_by=one["learns by"],
            starts="seen",
        )
        name = (TASKS[one["task"]], one["learns by"])
        lines.append((*name, part(seen, "return, end"), part(one, "return, end")))
    return markdown(head, lines)


def smol():
    """Return SmolLM2's figures before and while training, by one run."""
    head = ("", "legal replies", "best moves as X", "best moves as O", "return as X", "return as O")
    names = ("legal", "best as X", "best as O", "return as X", "return as O")
    lines = []
    for one in rows("vpr-smol"):
        found = (spread(one, name) if name in one["values"] else "-" for name in names)
        lines.append((one["when"], *found))
    return markdown(head, lines)


MADE = {
    "vpr smol": smol,
    "vpr smol source": lambda: source("vpr-smol"),
    "vpr methods": methods,
    "vpr by heart": by_heart,
    "vpr methods source": lambda: source("vpr-methods"),
    "vpr table": table,
    "vpr new boards": new_boards,
    "vpr table source": lambda: source("vpr_table"),
    "vpr general": general,
    "vpr general source": lambda: source("vpr-general"),
    "vpr general paired": general_paired,
    "vpr noise": noise,
    "vpr noise source": lambda: source("vpr-noise"),
}
