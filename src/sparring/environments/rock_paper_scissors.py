"""Rock, paper, scissors: two seats choose at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.painted import Painted
from sparring.environments.drawing.pieces import heading, seats, table
from sparring.environments.drawing.told import due_sentence
from sparring.types import Observation

MOVES = ("rock", "paper", "scissors")
RULES = (
    "We play rock, paper, scissors. Both players choose at once. Rock beats scissors, scissors "
    "beat paper, paper beats rock. Who wins gets 1 point, the other loses 1; equal choices get 0."
)
ASK = "Choose rock, paper or scissors. Reply with exactly one of these words."


class RockPaperScissors:
    """Rules and wording."""

    name = "rock_paper_scissors"
    roles = ("left", "right")
    max_turns = 2
    min_utility, max_utility, utility_sum, zero_sum = -1.0, 1.0, 0.0, True

    def __init__(self, style: str) -> None:
        self.style, self.brief = style, style == "brief"

    def vocabulary(self) -> tuple[str, ...]:
        """Return every word of the brief wording."""
        return tuple(sorted({*MOVES, *self.roles, "choose", "they", "you"}))

    def reset(self, stream: Any) -> Choice:
        """Return a play at its start; nothing is left to chance."""
        return Choice(self)

    def openings(self) -> tuple[tuple[float, Choice], ...]:
        """Return the one play that there is at the start, with its probability."""
        return ((1.0, Choice(self)),)


class Choice(Painted):
    """One play."""

    def __init__(self, rules: RockPaperScissors, moves: tuple[str, ...] = ()) -> None:
        self.rules, self.moves = rules, moves

    @property
    def done(self) -> bool:
        """Whether both have chosen."""
        return bool(self.moves)

    @property
    def returns(self) -> tuple[float, float]:
        """1 to who won, -1 to the other; 0 where both chose the same."""
        if not self.moves:
            return (0.0, 0.0)
        left, right = (MOVES.index(move) for move in self.moves)
        won = (0.0, 1.0, -1.0)[(left - right) % 3]
        return (won, -won or 0.0)

    def due(self) -> tuple[int, ...]:
        """Return both seats: they choose at once."""
        return () if self.done else (0, 1)

    def legal(self, seat: int) -> tuple[str, ...]:
        """Return the three choices."""
        return MOVES

    def observe(self, seat: int) -> Observation:
        """Return the rules; nothing of the other's choice is known yet."""
        role = self.rules.roles[seat]
        if self.rules.brief:
            return Observation(told=f"{role} choose", key=role)
        return Observation(told=RULES, ask=ASK, key=role)

    def step(self, replies: Mapping[int, str]) -> None:
        """Take both choices."""
        self.moves = (replies[0], replies[1])

    def ending(self, seat: int) -> str:
        """Return what a seat learns at the end: the other's choice."""
        mine, theirs = self.moves[seat], self.moves[1 - seat]
        if self.rules.brief:
            return f"you {mine} they {theirs}"
        return f"You chose {mine}, the other player chose {theirs}."

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        """Draw the payoffs and, once both have chosen, the choices."""
        roles = self.rules.roles
        seats(canvas, roles, self.due(), dict(enumerate(self.moves)))
        heading(canvas, "Payoffs", "left (rows), right (columns)")
        rows: list[tuple[str, ...]] = [("", *MOVES)]
        for move in MOVES:
            pairs = (Choice(self.rules, (move, other)).returns for other in MOVES)
            rows.append((move, *(f"{one:g}, {two:g}" for one, two in pairs)))
        places = [MOVES.index(move) + 1 for move in self.moves]
        table(canvas, rows, marked=[(places[0], places[1])] if places else ())

    def described(self, seat: int | None) -> str:
        """Return who is to choose, or both choices."""
        if not self.moves:
            return due_sentence(self.rules.roles)
        left, right = self.moves
        won = ("Nobody wins", "left wins", "right wins")[int(self.returns[0]) % 3]
        return f"The play is over. left chose {left}, right chose {right}. {won}."

    def clone(self) -> Choice:
        """Return a copy."""
        return Choice(self.rules, self.moves)


def rock_paper_scissors(*, style: Literal["brief", "full"] = "brief") -> RockPaperScissors:
    """Rock, paper, scissors: both seats are asked at once, and neither sees the other's choice.

    What: one round. For several in a row, each seat told what the other chose, name it in the
    combinator ``repeated``.
    When to use: as the smallest environment with simultaneous moves; with ``repeated``, to learn
    about an opponent from round to round.
    Mathematics: The equilibrium chooses each with probability 1/3 and is worth 0 to both. Against
    an opponent that chooses with probabilities p the best choice is worth
        max over a of  p(what a beats) - p(what beats a)
    Pitfalls: in self-play the gradient circles around the equilibrium; averages of the weights
    (``learner.average``) or a magnet (loss ``magnetic_mirror_descent``) settle.
    Verified by: tests/environments/test_rock_paper_scissors.py.

    Args:
        style: "brief" (default): words for a tiny model. "full": sentences for a language model.
    """
    return RockPaperScissors(style)
