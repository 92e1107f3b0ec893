"""The table of docs/reproduction/mage.md on SmolLM2 with written notes."""

from measured import markdown, rows, source, spread

FILE = "mage-smol"


def notes():
    """Return what SmolLM2 earns in each attempt after each stage of training, all opponents together."""
    head = ("after", "role", "opponents", "trials", "attempt 1", "attempt 2", "attempt 3", "3 less 1", "share of the headroom, attempt 3", "at most")
    lines = []
    for one in rows(FILE, opponent="all"):
        share = "share of the headroom, attempt 3"
        points = (spread(one, f"attempt {number}") for number in (1, 2, 3))
        earned = spread(one, share) if share in one["values"] else "-"
        most = f"{one['ceiling'][2]:.2f}" if one["ceiling"] else "-"
        lines.append((one["arm"], one["role"], one["opponents"], str(one["trials"]), *points, spread(one, "gain"), earned, most))
    return markdown(head, lines)


def trained_by():
    """Return how the runs of that table were trained."""
    arms = {one["arm"]: f"`{one['trained by'].removeprefix('sparring train ')}` at {one['trained at']}" for one in rows(FILE)}
    return "; ".join(f"{arm} by {how}" for arm, how in arms.items()) + "."


MADE = {
    "mage smol": notes,
    "mage smol trained": trained_by,
    "mage smol source": lambda: source(FILE),
}
