"""The tables of benchmarks/README.md on what recipes learn, and its figures in README.md."""

from measured import markdown, row, rows, source, spread, values

OPPONENTS = {"random": "random", "mcts": "MCTS, 100 simulations"}


def seeds(recipe):
    """Return a recipe's figures by seed."""
    one = row("seeds", recipe=recipe)
    figures = one["values"]
    head = ("seed", "last NashConv", f"<= {one['level']:g} from step", "to the end at most", "legal", "s")
    lines = []
    for seed in sorted(figures["nash_conv"], key=int):
        last, first, worst, legal, seconds = (
            figures[name].get(seed)
            for name in (
                "nash_conv",
                "first step at the level",
                "worst from the level on",
                "legal replies",
                "seconds",
            )
        )
        cells = (f"{last:.3f}", text(first, "d"), text(worst, ".3f"), text(legal, ".2%"))
        lines.append((seed, *cells, text(seconds, ".0f")))
    return markdown(head, lines)


def text(value, form):
    """Return a figure, or a dash where there is none."""
    return "-" if value is None else f"{value:{form}}"


def reached(recipe):
    """Return how many seeds end at or below the recipe's level, in words."""
    one = row("seeds", recipe=recipe)
    last = values(one, "nash_conv")
    within = sum(value <= one["level"] for value in last)
    return f"{within} of {len(last)} seeds end at {one['level']:g} or below, the worst at {max(last):.3f}"


def seconds(recipe):
    """Return how long the runs of a recipe took."""
    found = values(row("seeds", recipe=recipe), "seconds")
    return f"{min(found):.0f} to {max(found):.0f} seconds"


def tictactoe():
    """Return how often tictactoe-tiny wins, and wins or draws."""
    cells = (
        (OPPONENTS[one["opponent"]], one["seat"], spread(one, "win", 3), spread(one, "draw", 3))
        for one in rows("tictactoe")
    )
    return markdown(("opponent", "seat", "win", "win or draw"), cells)


MADE = {
    "seeds demo": lambda: seeds("demo"),
    "seeds leduc-tiny": lambda: seeds("leduc-tiny"),
    "seeds demo reached": lambda: reached("demo"),
    "seeds leduc-tiny reached": lambda: reached("leduc-tiny"),
    "seeds demo seconds": lambda: seconds("demo"),
    "seeds source": lambda: source("seeds"),
    "tictactoe": tictactoe,
    "tictactoe source": lambda: source("tictactoe"),
}
