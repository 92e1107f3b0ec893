"""The table of studies/mars/page.md on SmolLM2, and its figures in README.md."""

from measured import markdown, rows, source, spread, values


def smol():
    """Return SmolLM2's figures before and while training."""
    lines = []
    for row in rows("smol"):
        figures = [
            spread(row, figure) if figure in row["values"] else "-"
            for figure in ("first", "second")
        ]
        legal = f"{100 * values(row, 'legal')[0]:.3g} %"
        exact = f"{values(row, 'nash_conv')[0]:.3f}" if "nash_conv" in row["values"] else "-"
        lines.append((row["recipe"], row["when"], legal, *figures, exact))
    head = ("recipe", "when", "legal replies", "return as first", "as second", "NashConv")
    return markdown(head, lines)


def kuhn():
    """Return what SmolLM2 learns of Kuhn poker."""
    before, *_, after = rows("smol", recipe="mars/kuhn-smol")
    legal = (f"{100 * values(row, 'legal')[0]:.3g} %" for row in (before, after))
    returns = (spread(row, "first") for row in (before, after))
    return (
        f"legal replies go from {' to '.join(legal)}, and the return as first player against "
        f"random play from {' to '.join(returns)}, {after['when']}"
    )


MARKERS = {
    "smol kuhn": kuhn,
    "smol": smol,
    "smol source": lambda: source("smol"),
}
