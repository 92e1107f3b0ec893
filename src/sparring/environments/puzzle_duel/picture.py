"""The picture of a duel of puzzles: the numbers allowed, the puzzles and how each ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.pieces import heading, paragraph, seats, table
from sparring.environments.drawing.told import due_sentence
from sparring.environments.puzzle_duel.puzzles import written

if TYPE_CHECKING:
    from sparring.environments.puzzle_duel.rules import Duel

ROLES = ("proposer", "solver")
SHOWN = 10  # rounds, the latest ones


def paint(canvas: Canvas, play: Duel, seat: int | None) -> None:
    """Draw a duel.

    Args:
        canvas: to draw on.
        play: the duel.
        seat: who looks: the numbers allowed are told to the proposer; None: nothing is hidden.
    """
    now, paid = play.position, {}
    if seat is None:
        paid = {one: f"{value:+g}" for one, value in enumerate(play.returns)}
    seats(canvas, ROLES, play.due(), paid)
    if seat != 1:
        paragraph(canvas, f"Numbers allowed: {' '.join(map(str, now.allowed))}.")
    heading(canvas, "Puzzles", f"{len(now.solved)} of {play.rules.rounds} rounds")
    rows, first = [("", "puzzle", "solver")], max(0, len(now.posed) - SHOWN)
    colours = {}
    for number, puzzle in enumerate(now.posed[first:], start=first):
        ended = _ended(play, number)
        if number < len(now.solved):
            colours[len(rows), 2] = "green" if now.solved[number] else "orange"
        rows.append((str(number + 1), written(puzzle, "full"), ended))
    table(canvas, rows, colours=colours, shares=(2, 1))
    if now.invalid:
        paragraph(canvas, "The last puzzle was not valid, which ends the play.")


def describe(play: Duel, seat: int | None) -> str:
    """Return who is due, the newest puzzle and how the ones before ended."""
    now = play.position
    parts = [due_sentence([ROLES[one] for one in play.due()])]
    if seat != 1:
        parts.append(f"Numbers allowed: {' '.join(map(str, now.allowed))}.")
    if now.posed:
        number = len(now.posed) - 1
        parts.append(
            f"Puzzle {number + 1}: {written(now.posed[-1], 'full')}, {_ended(play, number)}."
        )
    if now.invalid:
        parts.append("The last puzzle was not valid.")
    parts.append(f"{sum(now.solved)} of {len(now.solved)} puzzles were solved.")
    return " ".join(parts)


def _ended(play: Duel, number: int) -> str:
    """Return how a puzzle ended, in words."""
    solved = play.position.solved
    if number >= len(solved):
        return "to be solved"
    return "solved" if solved[number] else "not solved"
