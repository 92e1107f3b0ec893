"""Base class of games like rock, paper, scissors: two seats choose a word at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from sparring.core.records import Observation
from sparring.environments.base import Environment
from sparring.environments.drawing.canvas import Canvas, PaintedPlay
from sparring.environments.drawing.pieces import due_sentence, heading, seats, table


@dataclass(kw_only=True, eq=False)
class SimultaneousChoice(Environment):
    """Rules and wording of a game with one simultaneous choice.

    Attributes:
        beats: the words that each word beats.
        moves: all words.
        rules: the rules in sentences.
        ask: the question in a sentence.
        payoff_heading: heading of the payoff table in the picture.
    """

    name = ""
    beats: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    moves: ClassVar[tuple[str, ...]] = ()
    rules, ask, payoff_heading = "", "", ""
    roles = ("left", "right")
    max_turns = 2
    min_utility, max_utility, utility_sum, zero_sum = -1.0, 1.0, 0.0, True

    style: Literal["brief", "full"] = "brief"

    def __post_init__(self) -> None:
        self.brief = self.style == "brief"

    @classmethod
    def payoff(cls, left: str, right: str) -> float:
        """Return the payoff of the first word against the second: 1, 0 or -1."""
        return float(right in cls.beats[left]) - float(left in cls.beats[right])

    def payoff_text(self, left: str, right: str) -> str:
        """Return the text of a pair of words in the payoff table of the picture."""
        return f"{self.payoff(left, right):g}"

    def vocabulary(self) -> tuple[str, ...]:
        return tuple(sorted({*self.moves, *self.roles, "choose", "they", "you"}))

    def play(self) -> SimultaneousChoicePlay:
        """Return a play in its initial state."""
        return SimultaneousChoicePlay(self)

    def reset(self, stream: Any) -> SimultaneousChoicePlay:
        return self.play()

    def openings(self) -> tuple[tuple[float, SimultaneousChoicePlay], ...]:
        return ((1.0, self.play()),)


class SimultaneousChoicePlay(PaintedPlay):
    """One episode of a simultaneous choice.

    Attributes:
        moves: the choices of both seats; empty before the choices.
    """

    def __init__(self, rules: SimultaneousChoice, moves: tuple[str, ...] = ()) -> None:
        self.rules, self.moves = rules, moves

    @property
    def done(self) -> bool:
        return bool(self.moves)

    @property
    def returns(self) -> tuple[float, float]:
        """1 for the winner and -1 for the loser; 0 for both if the choices are equal."""
        if not self.moves:
            return (0.0, 0.0)
        payoff = self.rules.payoff(*self.moves)
        return (payoff, -payoff or 0.0)

    def due(self) -> tuple[int, ...]:
        return () if self.done else (0, 1)

    def legal(self, seat: int) -> tuple[str, ...]:
        return self.rules.moves

    def observe(self, seat: int) -> Observation:
        """Return the rules and the question."""
        role = self.rules.roles[seat]
        if self.rules.brief:
            return Observation(prompt=f"{role} choose", key=role)
        return Observation(prompt=self.rules.rules, ask=self.rules.ask, key=role)

    def step(self, replies: Mapping[int, str]) -> None:
        self.moves = (replies[0], replies[1])

    def ending(self, seat: int) -> str:
        """Return both choices."""
        own_move, other_move = self.moves[seat], self.moves[1 - seat]
        if self.rules.brief:
            return f"you {own_move} they {other_move}"
        return f"You chose {own_move}, the other player chose {other_move}."

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        rules, words = self.rules, self.rules.moves
        seats(canvas, rules.roles, self.due(), dict(enumerate(self.moves)))
        heading(canvas, rules.payoff_heading, "left (rows), right (columns)")
        rows: list[tuple[str, ...]] = [("", *words)]
        rows += [(word, *(rules.payoff_text(word, other) for other in words)) for word in words]
        indices = [words.index(word) + 1 for word in self.moves]
        table(canvas, rows, marked=[(indices[0], indices[1])] if indices else ())

    def described(self, seat: int | None) -> str:
        if not self.moves:
            return due_sentence(self.rules.roles)
        left, right = self.moves
        result = ("Nobody wins", "left wins", "right wins")[int(self.returns[0]) % 3]
        return f"The play is over. left chose {left}, right chose {right}. {result}."

    def clone(self) -> SimultaneousChoicePlay:
        return type(self)(self.rules, self.moves)
