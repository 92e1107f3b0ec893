"""The duel: rounds in which the proposer writes a puzzle and the solver answers it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.painted import Painted
from sparring.environments.puzzle_duel import picture
from sparring.environments.puzzle_duel.puzzles import (
    Limits,
    Puzzle,
    Style,
    random_puzzle,
    random_solution,
    read_puzzle,
    read_solution,
    solves,
    written,
)
from sparring.environments.puzzle_duel.wording import told_to
from sparring.errors import GameError
from sparring.rng import Stream
from sparring.types import Observation

PROPOSER, SOLVER = 0, 1
Payoff = Literal["duel", "frontier"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """What does not change during a play: see the options of ``puzzle_duel``."""

    limits: Limits
    rounds: int
    payoff: Payoff
    easy: float
    style: Style


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

    __slots__ = ("position", "setting")

    def __init__(self, setting: Setting, position: Position) -> None:
        self.setting, self.position = setting, position

    def clone(self) -> Duel:
        """Return an independent copy."""
        return Duel(self.setting, self.position)

    @property
    def done(self) -> bool:
        """Whether all rounds are played, or a puzzle was none."""
        return self.position.invalid or len(self.position.solved) == self.setting.rounds

    @property
    def returns(self) -> tuple[float, float]:
        """What the rounds so far have paid the proposer and the solver."""
        now, setting = self.position, self.setting
        right, left = sum(now.solved), setting.rounds - len(now.solved)
        if setting.payoff == "duel":
            won = float(right + left * now.invalid)
            return (0.0 - won, won)
        failed = len(now.solved) - right
        return (failed + setting.easy * right - now.invalid, float(right))

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        """Draw the numbers for who may use them, and the puzzles with how they ended."""
        picture.paint(canvas, self, seat)

    def described(self, seat: int | None) -> str:
        """Return who is due, the newest puzzle and how the ones before ended."""
        return picture.describe(self, seat)

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
        now, setting = self.position, self.setting
        past = zip(now.posed, now.solved, strict=False)
        rounds = " ".join(
            f"{written(puzzle, 'full')} {'solved' if right else 'failed'};"
            for puzzle, right in past
        )
        current = now.allowed if seat == PROPOSER else now.posed[-1:]
        told, ask = told_to(seat, now.allowed, now.posed, now.solved, setting)
        return Observation(told=told, ask=ask, key=f"{seat} {current} {rounds}", view=str(current))

    def step(self, replies: Mapping[int, str]) -> None:
        """Check a puzzle, or a solution of it.

        Raises:
            GameError: another seat is due.
        """
        if tuple(replies) != self.due():
            raise GameError(f"puzzle_duel: seats {self.due()} are due, got {tuple(replies)}.")
        now, style = self.position, self.setting.style
        if PROPOSER in replies:
            puzzle = read_puzzle(replies[PROPOSER], style, now.allowed, self.setting.limits)
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
        full = self.setting.style == "full"
        if seat == SOLVER:
            attempt = random_solution(self.position.posed[-1], stream)
            return f"<solution>{attempt}</solution>" if full else attempt
        puzzle, proof = random_puzzle(self.position.allowed, self.setting.limits, stream)
        text = written(puzzle, self.setting.style)
        return f"<puzzle>{text}</puzzle><proof>{proof}</proof>" if full else f"{text} proof {proof}"
