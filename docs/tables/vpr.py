"""The tables of studies/vpr_methods/page.md on SmolLM2."""

from measured import less, markdown, results, rows, shown, source, spread

from studies.common.result_figures import sides, worded
from studies.common.vpr_figures import TRAINED
from studies.vpr_methods.tables import GAMES, OUTCOMES_OF, cell
from studies.vpr_released.tables import ARMS
from studies.vpr_table.tables import TASKS

OUTCOMES_OF_TABLE = {"minesweeper3-best": "minesweeper3"}
TABLE_ARMS = {"vpr": "vpr", "vpr-outcome": "vpr_mixed", "outcome": "outcome", "playouts": "playouts"}
COMPARED = {
    ("vpr", "outcome"): "verdicts, less outcomes",
    ("vpr-outcome", "outcome"): "both signals, less outcomes",
    ("vpr", "playouts"): "verdicts, less MC-PR",
}


def smol():
    """Return SmolLM2's figures before and while training, by one run."""
    head = ("", "legal replies", "best moves as X", "best moves as O", "return as X", "return as O")
    names = ("legal", "best as X", "best as O", "return as X", "return as O")
    lines = []
    for one in rows("vpr-smol"):
        found = (spread(one, name) if name in one["values"] else "-" for name in names)
        lines.append((one["when"], *found))
    return markdown(head, lines)


def transfer():
    """Return what SmolLM2 solves of puzzles and of word problems, after each stage of training."""
    head = ("after", "row", "starts", "games", "solved", "illegal replies", "best moves")
    lines = []
    for one in rows("vpr-transfer"):
        best = spread(one, "best moves") if "best moves" in one["values"] else "-"
        figures = (spread(one, "solved"), spread(one, "illegal"), best)
        lines.append((one["arm"], one["row"], one["starts"], str(one["games"]), *figures))
    return markdown(head, lines)


def trained_by():
    """Return how the runs of that table were trained."""
    arms = {
        one["arm"]: f"`{one['trained by'].removeprefix('sparring train ')}` at {one['trained at']}"
        for one in rows("vpr-transfer")
    }
    return "; ".join(f"{arm} by {how}" for arm, how in arms.items()) + "."


def walks():
    """Return what policies do in Sokoban, by who taught them, over seeds."""
    solved = [f"solved, {best} moves" for best in range(1, 5)]
    ends = ("an illegal reply", "out of moves", "lost", "moves back")
    course = ("entropy, first", "entropy, last", "equal groups, first", "equal groups, last")
    head = ("learns by", *(f"solved of {best}" for best in range(1, 5)))
    lines = []
    for one in rows("sokoban-walks"):
        names = (*solved, *ends, *course)
        found = (spread(one, name) if name in one["values"] else "-" for name in names)
        lines.append((ARMS[one["arm"]], *found))
    return markdown((*head, *ends, *course), lines)


def judging():
    """Return judging's share of a step, by puzzle."""
    head = ("recipe", "judging's share of a step", "largest", "at most", "met")
    lines = [
        (
            f"`{one['what']}`",
            *(f"{one[name]:.2f}" for name in ("value", "worst_share", "aim")),
            one["met"],
        )
        for one in rows("judging")
    ]
    return markdown(head, lines)


def claims():
    """Return the comparisons behind the page's claims, paired by seed, with corrected words."""
    lines, gains = [], []

    def add(who, task, what, first, second, figure):
        if first is not None and second is not None:
            gains.append(less(first, second, figure))
            lines.append((what, who, task, shown(gains[-1])))

    of_table = [one for one in rows("vpr-table") if one["starts"] in TRAINED]
    for (one, other), what in COMPARED.items():
        for game, title in GAMES.items():
            pair = (cell(results("vpr-methods"), game, one), cell(results("vpr-methods"), OUTCOMES_OF.get(game, game), other))
            add("tiny model", title, what, *pair, "return over the run")
        for task, title in TASKS.items():
            pair = (_of_table(of_table, task, one), _of_table(of_table, OUTCOMES_OF_TABLE.get(task, task), other))
            add("table", title, what, *pair, "return, end")
    for first in rows("vpr-general", learns_by="vpr", starts="unseen"):
        empty = first["empty cells"]
        (second,) = rows("vpr-general", learns_by="outcome", starts="unseen", empty_cells=empty)
        add("tiny model", f"new puzzles of Sudoku, {empty} empty", COMPARED["vpr", "outcome"], first, second, "solved")
    return worded(("compared", "learner", "task", "gain", "verdict"), lines, sides(gains, "ahead", "behind"))


def _of_table(found, task, method):
    """Return the row of a task and a method on the table of logits, in groups of 8, or None."""
    wanted = (task, TABLE_ARMS[method], 8)
    own = [one for one in found if (one["task"], one["learns by"], one["group"]) == wanted]
    return own[0] if own else None


MADE = {
    "vpr claims": claims,
    "judging in play": judging,
    "judging in play source": lambda: source("judging"),
    "sokoban walks": walks,
    "sokoban walks source": lambda: source("sokoban-walks"),
    "vpr transfer": transfer,
    "vpr transfer trained": trained_by,
    "vpr transfer source": lambda: source("vpr-transfer"),
    "vpr smol": smol,
    "vpr smol source": lambda: source("vpr-smol"),
}
