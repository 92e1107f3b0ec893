"""The tables of studies/vpr_methods/page.md on SmolLM2."""

from measured import interval_text, markdown, paired_difference, results, rows, source, spread

from studies.common.result_figures import table_with_words, words_of_differences
from studies.common.vpr_figures import TRAINED_STARTS
from studies.vpr_methods.tables import GAMES, OUTCOMES_OF, cell
from studies.vpr_released.tables import ARMS
from studies.vpr_table.tables import TASKS

OUTCOMES_OF_TABLE = {"minesweeper3-best": "minesweeper3"}
TABLE_ARMS = {
    "vpr": "vpr",
    "vpr-outcome": "vpr_mixed",
    "outcome": "outcome",
    "playouts": "playouts",
}
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
    for row in rows("vpr-smol"):
        figures = (spread(row, name) if name in row["values"] else "-" for name in names)
        lines.append((row["when"], *figures))
    return markdown(head, lines)


def transfer():
    """Return what SmolLM2 solves of puzzles and of word problems, after each stage of training."""
    head = ("after", "row", "starts", "games", "solved", "illegal replies", "best moves")
    lines = []
    for row in rows("vpr-transfer"):
        best = spread(row, "best moves") if "best moves" in row["values"] else "-"
        figures = (spread(row, "solved"), spread(row, "illegal"), best)
        lines.append((row["arm"], row["row"], row["starts"], str(row["games"]), *figures))
    return markdown(head, lines)


def training_of_arms():
    """Return how the runs of that table were trained."""
    arms = {
        row["arm"]: f"`{row['trained by'].removeprefix('sparring train ')}` at {row['trained at']}"
        for row in rows("vpr-transfer")
    }
    return "; ".join(f"{arm} by {training}" for arm, training in arms.items()) + "."


def walks():
    """Return what policies do in Sokoban, by who taught them, over seeds."""
    solved_columns = [f"solved, {best} moves" for best in range(1, 5)]
    end_columns = ("an illegal reply", "out of moves", "lost", "moves back")
    course_columns = (
        "entropy, first",
        "entropy, last",
        "equal groups, first",
        "equal groups, last",
    )
    head = ("learns by", *(f"solved of {best}" for best in range(1, 5)))
    lines = []
    for row in rows("sokoban-walks"):
        names = (*solved_columns, *end_columns, *course_columns)
        figures = (spread(row, name) if name in row["values"] else "-" for name in names)
        lines.append((ARMS[row["arm"]], *figures))
    return markdown((*head, *end_columns, *course_columns), lines)


def judging():
    """Return judging's share of a step, by puzzle."""
    head = ("recipe", "judging's share of a step", "largest", "at most", "met")
    lines = [
        (
            f"`{row['what']}`",
            *(f"{row[name]:.2f}" for name in ("value", "worst_share", "aim")),
            row["met"],
        )
        for row in rows("judging")
    ]
    return markdown(head, lines)


def claims():
    """Return the comparisons behind the page's claims, paired by seed, with corrected words."""
    lines, gains = [], []

    def add(who, task, what, first, second, figure):
        if first is not None and second is not None:
            gains.append(paired_difference(first, second, figure))
            lines.append((what, who, task, interval_text(gains[-1])))

    table_rows = [method for method in rows("vpr-table") if method["starts"] in TRAINED_STARTS]
    for (method, other), what in COMPARED.items():
        for game, title in GAMES.items():
            first_and_second = (
                cell(results("vpr-methods"), game, method),
                cell(results("vpr-methods"), OUTCOMES_OF.get(game, game), other),
            )
            add("tiny model", title, what, *first_and_second, "return over the run")
        for task, title in TASKS.items():
            first_and_second = (
                _of_table(table_rows, task, method),
                _of_table(table_rows, OUTCOMES_OF_TABLE.get(task, task), other),
            )
            add("table", title, what, *first_and_second, "return, end")
    for first in rows("vpr-general", learns_by="vpr", starts="unseen"):
        num_empty = first["empty cells"]
        (second,) = rows("vpr-general", learns_by="outcome", starts="unseen", empty_cells=num_empty)
        add(
            "tiny model",
            f"new puzzles of Sudoku, {num_empty} empty",
            COMPARED["vpr", "outcome"],
            first,
            second,
            "solved",
        )
    return table_with_words(
        ("compared", "learner", "task", "gain", "verdict"),
        lines,
        words_of_differences(gains, "ahead", "behind"),
    )


def _of_table(table_rows, task, method):
    """Return the row of a task and a method on the table of logits, in groups of 8, or None."""
    key = (task, TABLE_ARMS[method], 8)
    matches = [row for row in table_rows if (row["task"], row["learns by"], row["group"]) == key]
    return matches[0] if matches else None


MARKERS = {
    "vpr claims": claims,
    "judging in play": judging,
    "judging in play source": lambda: source("judging"),
    "sokoban walks": walks,
    "sokoban walks source": lambda: source("sokoban-walks"),
    "vpr transfer": transfer,
    "vpr transfer trained": training_of_arms,
    "vpr transfer source": lambda: source("vpr-transfer"),
    "vpr smol": smol,
    "vpr smol source": lambda: source("vpr-smol"),
}
