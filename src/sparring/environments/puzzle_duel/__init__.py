"""Puzzle duel: a proposer writes puzzles of arithmetic, and a solver solves them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from sparring.core.errors import ConfigError
from sparring.core.rng import Stream
from sparring.environments.bank import BANKS, Bank
from sparring.environments.options import check_range
from sparring.environments.puzzle_duel.puzzles import Limits, Style
from sparring.environments.puzzle_duel.rules import Duel, Position
from sparring.environments.puzzle_duel.wording import WORDS, rules_text


@dataclass(kw_only=True, eq=False)
class PuzzleDuel(Bank):
    """Puzzle duel for 2 seats: the proposer writes puzzles of arithmetic, the solver solves them.

    A round: the proposer writes numbers, a target, and a proof that the target can be reached; the
    solver is told the puzzle, never the proof, and writes a solution. Proofs and solutions are
    expressions that use each number of the puzzle exactly once, with +, -, * and brackets; they are
    checked exactly, and any text is a reply. A reply of the proposer that is no valid puzzle ends
    the play, and it loses. In full style a puzzle is written
    ``<puzzle>3 5 7 -> 22</puzzle><proof>3*5+7</proof>`` and a solution
    ``<solution>3*5+7</solution>``, with any text around them; the last pair of tags counts. In
    brief style a reply is words and nothing else: "3 5 7 target 22 proof 3 * 5 + 7", then
    "3 * 5 + 7".

    Chance draws the numbers that puzzles of a play may use from a bank; nothing else is random.

    Mathematics:
        of a round, for the proposer and the solver:
        duel:      solved (-1, 1), not solved (0, 0); invalid (-L, L), L the rounds left, this one
                   included
        frontier:  solved (easy, 1), not solved (1, 0); invalid (-1, 0)
    Pitfalls: In "duel" an invalid puzzle costs no more than a solved one, so a proposer learns to
    be valid only where the solver sometimes fails. One play tries a puzzle once: whether it is at
    the edge of what the solver can do shows in the mean over plays only. Held-out starts are other
    sets of numbers; small puzzles of theirs may also arise from the sets that training met.

    Args:
        numbers: most numbers of a puzzle, 2 to 6; the fewest are 2.
        largest: largest number that a puzzle may use, 2 to 99; the smallest is 1.
        most: largest target, at least ``numbers`` times ``largest`` and at most 9,999; the smallest
            is 1.
        allowed: how many different numbers puzzles of one play may use, also repeatedly: 2 to
            ``largest``.
        rounds: rounds per play, 1 to 16; roles stay as they are.
        payoff: "duel": zero-sum; "frontier": the proposer is paid for every valid puzzle, most for
            one that is not solved.
        easy: what a solved puzzle pays the proposer in "frontier", 0 to 1.
        sets: how many sets of allowed numbers the bank has, 1 to 100,000.
        bank: seed of the bank.
        style: wording, "brief" for tiny models, "full" for language models.

    Raises:
        ConfigError: a number out of range.

    Reference: Zhao et al., "Absolute Zero: Reinforced self-play reasoning with zero data", 2025
    (proposer and solver, with an exact check; there, programs).
    """

    numbers: Annotated[int, Field(ge=2, le=6)] = 3
    largest: Annotated[int, Field(ge=2, le=99)] = 9
    most: int = 99
    allowed: int = 4
    rounds: Annotated[int, Field(ge=1, le=16)] = 1
    payoff: Literal["duel", "frontier"] = "frontier"
    easy: Annotated[float, Field(ge=0, le=1)] = 0.5
    sets: Annotated[int, Field(ge=1, le=100_000)] = 64
    bank: Annotated[int, Field(ge=0, lt=BANKS)] = 0
    style: Style = "brief"

    name = "puzzle_duel"
    counted = "sets"
    roles = ("proposer", "solver")
    num_seats = 2

    def __post_init__(self) -> None:
        least = self.numbers * self.largest
        check_range("puzzle_duel: allowed", self.allowed, 2, self.largest)
        if not least <= self.most <= 9999:
            raise ConfigError(
                f"puzzle_duel: most={self.most} must be at least numbers * largest = {least}, so "
                f"that every sum is a target, and at most 9999; write most={least}."
            )
        self.limits = Limits(numbers=self.numbers, most=self.most)
        self.brief = self.style == "brief"
        self.max_turns = 2 * self.rounds
        self.zero_sum = self.payoff == "duel"
        self.utility_sum = 0.0 if self.zero_sum else None
        self.max_utility = float(self.rounds)
        self.min_utility = -self.max_utility if self.zero_sum else -1.0
        self.rules = rules_text(self)

    def vocabulary(self) -> tuple[str, ...]:
        """Return every word of the brief style, sorted."""
        highest = max(self.largest, self.most)
        return tuple(sorted({*WORDS, *map(str, range(1, highest + 1))}))

    def reset(self, stream: Stream) -> Duel:
        """Return a play from one of the bank's sets of numbers, all equally likely."""
        return Duel(self, Position(allowed=self.start(stream.integer(0, self.sets))))

    def start(self, number: int) -> tuple[int, ...]:
        """Return one of the bank's sets of numbers, ascending."""
        own = Stream.from_seed(self.bank).child("puzzle_duel").child(number)
        left = list(range(1, self.largest + 1))
        drawn = [left.pop(own.integer(place, len(left))) for place in range(self.allowed)]
        return tuple(sorted(drawn))

    def start_of(self, play: Any) -> Hashable:
        """Return the numbers that puzzles may use, which chance has drawn."""
        allowed: tuple[int, ...] = play.position.allowed
        return allowed

    def stake(self, play: Duel, seat: int) -> float:
        """Return what a seat can lose: its rounds left in "duel", else 1."""
        left = self.rounds - len(play.position.solved)
        return float(left) if self.zero_sum else 1.0


puzzle_duel = PuzzleDuel
