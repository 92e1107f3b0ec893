"""The table of benchmarks/README.md on what tictactoe-tiny learns."""

from measured import markdown, rows, source, spread

OPPONENTS = {"random": "random", "mcts": "MCTS, 100 simulations"}


def tictactoe():
    """Return how often tictactoe-tiny wins, and wins or draws."""
    cells = (
        (OPPONENTS[one["opponent"]], one["seat"], spread(one, "win", 3), spread(one, "draw", 3))
        for one in rows("tictactoe")
    )
    return markdown(("opponent", "seat", "win", "win or draw"), cells)


MADE = {
    "tictactoe": tictactoe,
    "tictactoe source": lambda: source("tictactoe"),
}
