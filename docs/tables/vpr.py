"""The table of docs/reproduction/vpr.md on SmolLM2."""

from measured import markdown, rows, source, spread


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
}
