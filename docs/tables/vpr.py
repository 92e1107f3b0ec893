"""The tables of docs/reproduction/vpr.md on SmolLM2."""

from measured import markdown, rows, source, spread

from sparring.report.reproduce.vpr_released import ARMS


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


MADE = {
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
