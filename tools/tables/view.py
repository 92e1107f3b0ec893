"""The tables of benchmarks/README.md on the viewer: benchmarks/view.py and benchmarks/view_paint.py."""

from measured import markdown, rows, source


def format_value(row):
    """Return a figure with its unit, to three digits."""
    value, unit = row["value"], row["unit"]
    if unit == "share":
        return f"{100 * value:.1f} %"
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.3g} ms"


def aim(row):
    """Return what a figure may be at most; nothing where no aim was set."""
    return format_value({**row, "value": row["aim"]}) if "aim" in row else ""


def view():
    """Return times of the index and of a filter, and the server's share of processor time."""
    lines = [(row["what"], format_value(row), aim(row)) for row in rows("view")]
    return markdown(("what", "figure", "aim, at most"), lines)


def paint():
    """Return when each page is drawn, and its largest paint."""
    lines = [(row["page"], row["what"], format_value(row), aim(row)) for row in rows("view_paint")]
    return markdown(("page", "what", "median", "aim, at most"), lines)


MARKERS = {
    "view": view,
    "view paint": paint,
    "view source": lambda: source("view"),
    "view paint source": lambda: source("view_paint"),
}
