"""The table of benchmarks/README.md on what tictactoe-tiny learns."""

from measured import markdown, rows, source, spread

OPPONENTS = {"random": "random", "mcts": "MCTS, 100 simulations"}


def tictactoe():
    """Return how often tictactoe-tiny wins, and wins or draws."""
    cells = (
        (OPPONENTS[row["opponent"]], row["seat"], spread(row, "win", 3), spread(row, "draw", 3))
        for row in rows("tictactoe")
    )
    return markdown(("opponent", "seat", "win", "win or draw"), cells)


MARKERS = {
    "tictactoe": tictactoe,
    "tictactoe source": lambda: source("tictactoe"),
}
