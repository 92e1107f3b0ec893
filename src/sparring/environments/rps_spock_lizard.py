"""Rock, paper, scissors, Spock, lizard: two seats choose one of five words at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from sparring.environments.drawing.canvas import Canvas
from sparring.environments.drawing.painted import Painted
from sparring.environments.drawing.pieces import heading, seats, table
from sparring.environments.drawing.told import due_sentence
from sparring.types import Observation

MOVES = ("rock", "paper", "scissors", "spock", "lizard")
BEATS: Mapping[str, tuple[str, str]] = {
    "rock": ("scissors", "lizard"),
    "paper": ("rock", "spock"),
    "scissors": ("paper", "lizard"),
    "spock": ("rock", "scissors"),
    "lizard": ("paper", "spock"),
}
RULES = (
    "We play rock, paper, scissors, Spock, lizard. Both players choose at once. Rock beats "
    "scissors and lizard, paper beats rock and Spock, scissors beat paper and lizard, Spock beats "
    "rock and scissors, lizard beats paper and Spock. Who wins gets 1 point, the other loses 1; "
    "equal choices get 0."
)
ASK = "Choose rock, paper, scissors, spock or lizard. Reply with exactly one of these words."


def won_by(left: str, right: str) -> float:
    """Return what the first choice gets from the second: 1, 0 or -1."""
    return float(right in BEATS[left]) - float(left in BEATS[right])


class RpsSpockLizard:
    """Rules and wording."""

    name = "rps_spock_lizard"
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
    """One play.

    Attributes:
        moves: what both chose; empty before.
    """

    def __init__(self, rules: RpsSpockLizard, moves: tuple[str, ...] = ()) -> None:
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
        won = won_by(*self.moves)
        return (won, -won or 0.0)

    def due(self) -> tuple[int, ...]:
        """Return both seats: they choose at once."""
        return () if self.done else (0, 1)

    def legal(self, seat: int) -> tuple[str, ...]:
        """Return the five choices."""
        return MOVES

    def kind(self, seat: int) -> str:
        """Return the kind of action: what both say is compared."""
        return "throw"

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
        """Draw what the left seat gets for each pair and, once both have chosen, the choices."""
        seats(canvas, self.rules.roles, self.due(), dict(enumerate(self.moves)))
        heading(canvas, "What left gets", "left (rows), right (columns)")
        rows: list[tuple[str, ...]] = [("", *MOVES)]
        rows += [(move, *(f"{won_by(move, other):g}" for other in MOVES)) for move in MOVES]
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


def rps_spock_lizard(*, style: Literal["brief", "full"] = "brief") -> RpsSpockLizard:
    """Rock, paper, scissors, Spock, lizard: five choices, both seats at once.

    What: one round. Each choice beats two others and loses to two.
    When to use: to see whether a method finds actions that its model hardly ever takes. A language
    model says rock, paper and scissors far more often than Spock and lizard, and the equilibrium of
    three or four of the words is as bad in the game of five as it can be.
    Mathematics: The equilibrium chooses each of the five with probability 1/5 and is worth 0 to
    both. Against an opponent that chooses with probabilities p the best choice is worth
        max over a of  sum of p over the two that a beats - sum of p over the two that beat a
    which is 1/3 against the equilibrium of any three or four of the words that hold rock, paper and
    scissors: Spock makes rock dominated, lizard is dominated itself.
    Pitfalls: in self-play the gradient circles around the equilibrium, as in
    ``rock_paper_scissors``. Spock beats rock and shares letters with it, so that an embedding by
    letters takes the two for alike.
    Reference: the game of Xu et al., 2025 (LSPO, arXiv:2502.04686), on which the method is shown
    before Werewolf.
    Verified by: tests/environments/test_rps_spock_lizard.py.

    Args:
        style: "brief" (default): words for a tiny model. "full": sentences for a language model.
    """
    return RpsSpockLizard(style)
