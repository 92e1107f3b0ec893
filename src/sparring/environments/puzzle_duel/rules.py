"""The duel: rounds in which the proposer writes a puzzle and the solver answers it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sparring.core.errors import GameError
from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.painted import Painted
from sparring.environments.drawing.pieces import heading, paragraph, seats, table
from sparring.environments.drawing.told import due_sentence
from sparring.environments.puzzle_duel.puzzles import (
    Puzzle,
    random_puzzle,
    random_solution,
    read_puzzle,
    read_solution,
    solves,
    written,
)
from sparring.environments.puzzle_duel.wording import told_to

if TYPE_CHECKING:
    from sparring.environments.puzzle_duel import PuzzleDuel

PROPOSER, SOLVER = 0, 1
ROLES = ("proposer", "solver")
SHOWN = 10  # rounds, the latest ones


@dataclass(frozen=True, kw_only=True, slots=True)
class Position:
    """Where a play stands.

    Attributes:
        allowed: the numbers that puzzles may use: the start.
        solved: whether each finished round's puzzle was solved.
        posed: the puzzles so far; one more than ``solved`` where the solver is due.
        invalid: whether the proposer has written a puzzle that is none, which ends the play.
    """

    allowed: tuple[int, ...]
    solved: tuple[bool, ...] = ()
    posed: tuple[Puzzle, ...] = ()
    invalid: bool = False


class Duel(Painted):
    """One play: the proposer and the solver are due in turn, the proposer first."""

    __slots__ = ("position", "rules")

    def __init__(self, rules: PuzzleDuel, position: Position) -> None:
        self.rules, self.position = rules, position

    def clone(self) -> Duel:
        """Return an independent copy."""
        return Duel(self.rules, self.position)

    @property
    def done(self) -> bool:
        """Whether all rounds are played, or a puzzle was none."""
        return self.position.invalid or len(self.position.solved) == self.rules.rounds

    @property
    def returns(self) -> tuple[float, float]:
        """What the rounds so far have paid the proposer and the solver."""
        now, rules = self.position, self.rules
        right, left = sum(now.solved), rules.rounds - len(now.solved)
        if rules.payoff == "duel":
            won = float(right + left * now.invalid)
            return (0.0 - won, won)
        failed = len(now.solved) - right
        return (failed + rules.easy * right - now.invalid, float(right))

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        """Draw the numbers for who may use them, and the puzzles with how they ended."""
        now, paid = self.position, {}
        if seat is None:
            paid = {one: f"{value:+g}" for one, value in enumerate(self.returns)}
        seats(canvas, ROLES, self.due(), paid)
        if seat != 1:
            paragraph(canvas, f"Numbers allowed: {' '.join(map(str, now.allowed))}.")
        heading(canvas, "Puzzles", f"{len(now.solved)} of {self.rules.rounds} rounds")
        rows, first = [("", "puzzle", "solver")], max(0, len(now.posed) - SHOWN)
        colours = {}
        for number, puzzle in enumerate(now.posed[first:], start=first):
            ended = _ended(self, number)
            if number < len(now.solved):
                colours[len(rows), 2] = "green" if now.solved[number] else "orange"
            rows.append((str(number + 1), written(puzzle, "full"), ended))
        table(canvas, rows, colours=colours, shares=(2, 1))
        if now.invalid:
            paragraph(canvas, "The last puzzle was not valid, which ends the self.")

    def described(self, seat: int | None) -> str:
        """Return who is due, the newest puzzle and how the ones before ended."""
        now = self.position
        parts = [due_sentence([ROLES[one] for one in self.due()])]
        if seat != 1:
            parts.append(f"Numbers allowed: {' '.join(map(str, now.allowed))}.")
        if now.posed:
            number = len(now.posed) - 1
            parts.append(
                f"Puzzle {number + 1}: {written(now.posed[-1], 'full')}, {_ended(self, number)}."
            )
        if now.invalid:
            parts.append("The last puzzle was not valid.")
        parts.append(f"{sum(now.solved)} of {len(now.solved)} puzzles were solved.")
        return " ".join(parts)

    def due(self) -> tuple[int, ...]:
        """Return the proposer, then the solver, in every round."""
        if self.done:
            return ()
        return (SOLVER,) if len(self.position.posed) > len(self.position.solved) else (PROPOSER,)

    def legal(self, seat: int) -> None:
        """Return None: any text is a reply."""
        return

    def observe(self, seat: int) -> Observation:
        """Return the numbers allowed, or the puzzle; and how the round before ended."""
        now, rules = self.position, self.rules
        past = zip(now.posed, now.solved, strict=False)
        rounds = " ".join(
            f"{written(puzzle, 'full')} {'solved' if right else 'failed'};"
            for puzzle, right in past
        )
        current = now.allowed if seat == PROPOSER else now.posed[-1:]
        told, ask = told_to(seat, now.allowed, now.posed, now.solved, rules)
        return Observation(told=told, ask=ask, key=f"{seat} {current} {rounds}", view=str(current))

    def step(self, replies: Mapping[int, str]) -> None:
        """Check a puzzle, or a solution of it.

        Raises:
            GameError: another seat is due.
        """
        if tuple(replies) != self.due():
            raise GameError(f"puzzle_duel: seats {self.due()} are due, got {tuple(replies)}.")
        now, style = self.position, self.rules.style
        if PROPOSER in replies:
            puzzle = read_puzzle(replies[PROPOSER], style, now.allowed, self.rules.limits)
            self.position = (
                replace(now, invalid=True)
                if puzzle is None
                else replace(now, posed=(*now.posed, puzzle))
            )
        else:
            right = solves(now.posed[-1], read_solution(replies[SOLVER], style))
            self.position = replace(now, solved=(*now.solved, right))

    def sample(self, seat: int, stream: Stream) -> str:
        """Return a valid random puzzle, or a random attempt: all numbers, random signs."""
        full = self.rules.style == "full"
        if seat == SOLVER:
            attempt = random_solution(self.position.posed[-1], stream)
            return f"<solution>{attempt}</solution>" if full else attempt
        puzzle, proof = random_puzzle(self.position.allowed, self.rules.limits, stream)
        text = written(puzzle, self.rules.style)
        return f"<puzzle>{text}</puzzle><proof>{proof}</proof>" if full else f"{text} proof {proof}"


def _ended(play: Duel, number: int) -> str:
    """Return how a puzzle ended, in words."""
    solved = play.position.solved
    if number >= len(solved):
        return "to be solved"
    return "solved" if solved[number] else "not solved"
