"""Words for the actions and payoffs of any game of OpenSpiel."""

from __future__ import annotations

import pyspiel

_MAX_LISTED = 5000  # actions asked for their names up front


def one_word(text: str, index: int) -> str:
    """Return an action string as one word without spaces (the action id if nothing is left)."""
    return "-".join(text.split()) or str(index)


def listed_actions(spiel: pyspiel.Game) -> list[str]:
    """Return the words of all actions that OpenSpiel can name without a position."""
    words = []
    for index in range(min(spiel.num_distinct_actions(), _MAX_LISTED)):
        for player in range(spiel.num_players()):
            try:
                words.append(one_word(spiel.action_to_string(player, index), index))
            except (pyspiel.SpielError, RuntimeError):
                return words
    return words


def matrix_text(spiel: pyspiel.Game) -> str:
    """Return the payoffs of a matrix game in words, or "" for other games."""
    if not isinstance(spiel, pyspiel.MatrixGame):
        return ""
    lines = [
        (
            "Both players choose one action without seeing the other's choice. The payoffs "
            "(seat0, seat1):"
        )
    ]
    for row in range(spiel.num_rows()):
        for column in range(spiel.num_cols()):
            mine, theirs = (
                spiel.player_utility(0, row, column),
                spiel.player_utility(1, row, column),
            )
            lines.append(
                f"seat0 {spiel.row_action_name(row)}, "
                f"seat1 {spiel.col_action_name(column)}: {mine:g}, {theirs:g}"
            )
    return "\n".join(lines)


def matrix_rows(spiel: pyspiel.Game) -> tuple[tuple[str, ...], ...]:
    """Return the payoffs of a matrix game as rows of cells, names first; () for other games."""
    if not isinstance(spiel, pyspiel.MatrixGame):
        return ()
    head = ("", *(spiel.col_action_name(column) for column in range(spiel.num_cols())))
    rows = [head]
    for row in range(spiel.num_rows()):
        pairs = (
            (spiel.player_utility(0, row, column), spiel.player_utility(1, row, column))
            for column in range(spiel.num_cols())
        )
        rows.append((spiel.row_action_name(row), *(f"{one:g}, {two:g}" for one, two in pairs)))
    return tuple(rows)
