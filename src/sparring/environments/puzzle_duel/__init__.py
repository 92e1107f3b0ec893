"""Puzzle duel: a proposer writes arithmetic puzzles, and a solver solves them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import Field

from sparring.core.errors import ConfigError, GameError
from sparring.core.records import Observation
from sparring.core.rng import Stream
from sparring.environments.bank import BANKS, Bank
from sparring.environments.drawing.canvas import Canvas, PaintedPlay
from sparring.environments.drawing.pieces import due_sentence, heading, paragraph, seats, table
from sparring.environments.options import check_range
from sparring.environments.puzzle_duel.puzzles import (
    SIGNS,
    Puzzle,
    PuzzleLimits,
    Style,
    puzzle_text,
    random_puzzle,
    random_solution,
    read_puzzle,
    read_solution,
    solves,
)

WORDS = ("propose", "solve", "target", "proof", "solved", "failed", "(", ")", *SIGNS)
PUZZLE_FORM = "<puzzle>3 5 7 -> 22</puzzle><proof>3*5+7</proof>"
SOLUTION_FORM = "<solution>3*5+7</solution>"


def rules_text(rules: PuzzleDuel) -> str:
    """Return the rules in plain sentences."""
    limits = rules.limits
    pay_text = (
        "A solved puzzle pays the solver 1 point and costs the proposer 1. A puzzle that is not "
        "valid costs the proposer 1 point for this round and for every round left, which the "
        "solver gets."
        if rules.payoff == "duel"
        else "The solver gets 1 point for every puzzle it solves. The proposer gets 1 point for a "
        f"valid puzzle that is not solved and {rules.easy:g} for one that is; a puzzle that is "
        "not valid costs it 1 point."
    )
    return (
        f"We play {rules.rounds} round(s) of a duel of puzzles. In every round the proposer "
        f"writes a puzzle: 2 to {limits.numbers} numbers and a target from 1 to {limits.most}, "
        "with a proof that the target can be reached. The solver is told the puzzle without the "
        "proof. A solution, and a proof too, is an expression that uses each number of the puzzle "
        "exactly once, with +, -, * and brackets, and whose value is the target. "
        f"{pay_text} A puzzle that is not valid ends the play."
    )


def prompt_for(
    seat: int,
    allowed: tuple[int, ...],
    puzzles: tuple[Puzzle, ...],
    is_solved: tuple[bool, ...],
    rules: PuzzleDuel,
) -> tuple[str, str]:
    """Return (news, question) for a seat that is due."""
    last_result = ("solved" if is_solved[-1] else "failed") if is_solved else ""
    numbers = " ".join(map(str, allowed))
    if rules.style == "brief":
        news = f"propose {numbers}" if seat == 0 else f"solve {puzzle_text(puzzles[-1], 'brief')}"
        return f"{last_result} {news}".strip(), ""
    lines = (
        [f"The last puzzle was {'solved' if last_result == 'solved' else 'not solved'}."]
        if is_solved
        else [f"{rules_text(rules)} You are the {('proposer', 'solver')[seat]}."]
    )
    round_text = f"Round {len(is_solved) + 1} of {rules.rounds}."
    if seat == 0:
        lines.append(f"{round_text} The numbers of your puzzle may be, also repeatedly: {numbers}.")
        return "\n".join(lines), f"Write your puzzle in this form: {PUZZLE_FORM}"
    lines.append(f"{round_text} The puzzle: {puzzle_text(puzzles[-1], 'full')}")
    return "\n".join(lines), f"Write your solution in this form: {SOLUTION_FORM}"


PROPOSER, SOLVER = 0, 1
ROLES = ("proposer", "solver")
MAX_ROWS = 10  # a picture shows at most this many rounds, the latest ones


@dataclass(frozen=True, kw_only=True, slots=True)
class PuzzleDuelPosition:
    """The state of an episode.

    Attributes:
        allowed: the numbers that puzzles may use; they are the initial state.
        is_solved: for each finished round, whether the puzzle was solved.
        puzzles: the puzzles so far; one more than the finished rounds if the solver is due.
        is_invalid: whether the proposer wrote an invalid puzzle, which ends the episode.
    """

    allowed: tuple[int, ...]
    is_solved: tuple[bool, ...] = ()
    puzzles: tuple[Puzzle, ...] = ()
    is_invalid: bool = False


class Duel(PaintedPlay):
    """One episode: the proposer and the solver act in turn, the proposer first."""

    __slots__ = ("position", "rules")

    def __init__(self, rules: PuzzleDuel, position: PuzzleDuelPosition) -> None:
        self.rules, self.position = rules, position

    def clone(self) -> Duel:
        return Duel(self.rules, self.position)

    @property
    def done(self) -> bool:
        return self.position.is_invalid or len(self.position.is_solved) == self.rules.rounds

    @property
    def returns(self) -> tuple[float, float]:
        """The payoffs of the proposer and the solver for the rounds so far."""
        position, rules = self.position, self.rules
        num_solved, rounds_left = sum(position.is_solved), rules.rounds - len(position.is_solved)
        if rules.payoff == "duel":
            gain = float(num_solved + rounds_left * position.is_invalid)
            return (0.0 - gain, gain)
        num_failed = len(position.is_solved) - num_solved
        return (num_failed + rules.easy * num_solved - position.is_invalid, float(num_solved))

    def paint(self, canvas: Canvas, seat: int | None) -> None:
        position, scores = self.position, {}
        if seat is None:
            scores = {player: f"{value:+g}" for player, value in enumerate(self.returns)}
        seats(canvas, ROLES, self.due(), scores)
        if seat != 1:
            paragraph(canvas, f"Numbers allowed: {' '.join(map(str, position.allowed))}.")
        heading(canvas, "Puzzles", f"{len(position.is_solved)} of {self.rules.rounds} rounds")
        rows, first = [("", "puzzle", "solver")], max(0, len(position.puzzles) - MAX_ROWS)
        colours = {}
        for number, puzzle in enumerate(position.puzzles[first:], start=first):
            outcome = _outcome_text(self, number)
            if number < len(position.is_solved):
                colours[len(rows), 2] = "green" if position.is_solved[number] else "orange"
            rows.append((str(number + 1), puzzle_text(puzzle, "full"), outcome))
        table(canvas, rows, colours=colours, shares=(2, 1))
        if position.is_invalid:
            paragraph(canvas, "The last puzzle was not valid, which ends the play.")

    def described(self, seat: int | None) -> str:
        position = self.position
        parts = [due_sentence([ROLES[player] for player in self.due()])]
        if seat != 1:
            parts.append(f"Numbers allowed: {' '.join(map(str, position.allowed))}.")
        if position.puzzles:
            parts.append(
                f"Puzzle {len(position.puzzles)}: {puzzle_text(position.puzzles[-1], 'full')}, "
                f"{_outcome_text(self, len(position.puzzles) - 1)}."
            )
        if position.is_invalid:
            parts.append("The last puzzle was not valid.")
        parts.append(f"{sum(position.is_solved)} of {len(position.is_solved)} puzzles were solved.")
        return " ".join(parts)

    def due(self) -> tuple[int, ...]:
        if self.done:
            return ()
        return (
            (SOLVER,) if len(self.position.puzzles) > len(self.position.is_solved) else (PROPOSER,)
        )

    def legal(self, seat: int) -> None:
        """Return None: any text is a reply."""
        return

    def observe(self, seat: int) -> Observation:
        """Return the allowed numbers or the puzzle, and how the previous round ended."""
        position, rules = self.position, self.rules
        finished_rounds = zip(position.puzzles, position.is_solved, strict=False)
        rounds = " ".join(
            f"{puzzle_text(puzzle, 'full')} {'solved' if is_solved else 'failed'};"
            for puzzle, is_solved in finished_rounds
        )
        view = position.allowed if seat == PROPOSER else position.puzzles[-1:]
        news, ask = prompt_for(seat, position.allowed, position.puzzles, position.is_solved, rules)
        return Observation(prompt=news, ask=ask, key=f"{seat} {view} {rounds}", view=str(view))

    def step(self, replies: Mapping[int, str]) -> None:
        """Check a puzzle or its solution.

        Raises:
            GameError: another seat is due.
        """
        if tuple(replies) != self.due():
            raise GameError(f"puzzle_duel: seats {self.due()} are due, got {tuple(replies)}.")
        position, style = self.position, self.rules.style
        if PROPOSER in replies:
            puzzle = read_puzzle(replies[PROPOSER], style, position.allowed, self.rules.limits)
            self.position = (
                replace(position, is_invalid=True)
                if puzzle is None
                else replace(position, puzzles=(*position.puzzles, puzzle))
            )
        else:
            is_right = solves(position.puzzles[-1], read_solution(replies[SOLVER], style))
            self.position = replace(position, is_solved=(*position.is_solved, is_right))

    def sample(self, seat: int, stream: Stream) -> str:
        """Return a valid random puzzle, or a random attempt with all numbers and random signs."""
        is_full = self.rules.style == "full"
        if seat == SOLVER:
            attempt = random_solution(self.position.puzzles[-1], stream)
            return f"<solution>{attempt}</solution>" if is_full else attempt
        puzzle, proof = random_puzzle(self.position.allowed, self.rules.limits, stream)
        text = puzzle_text(puzzle, self.rules.style)
        return (
            f"<puzzle>{text}</puzzle><proof>{proof}</proof>" if is_full else f"{text} proof {proof}"
        )


def _outcome_text(play: Duel, number: int) -> str:
    is_solved = play.position.is_solved
    if number >= len(is_solved):
        return "to be solved"
    return "solved" if is_solved[number] else "not solved"


@dataclass(kw_only=True, eq=False)
class PuzzleDuel(Bank):
    """Puzzle duel for 2 seats: the proposer writes puzzles of arithmetic, the solver solves them.

    In a round the proposer writes numbers, a target, and a proof that the target can be reached;
    the solver sees the puzzle, never the proof, and writes a solution. Proofs and solutions are
    expressions that use each number of the puzzle exactly once, with +, -, * and brackets. The
    check is exact, and any text is a reply. An invalid puzzle ends the episode, and the proposer
    loses. In full style a puzzle is ``<puzzle>3 5 7 -> 22</puzzle><proof>3*5+7</proof>`` and a
    solution is ``<solution>3*5+7</solution>``, with any text around them; the last pair of tags
    counts. In brief style a reply is only words: "3 5 7 target 22 proof 3 * 5 + 7", then
    "3 * 5 + 7".

    Chance draws the numbers that puzzles of an episode may use from a bank; nothing else is random.

    Mathematics:
        payoffs of a round for (proposer, solver):
        duel:      solved (-1, 1), not solved (0, 0); invalid (-L, L), where L is the number of
                   rounds left, including this round
        frontier:  solved (easy, 1), not solved (1, 0); invalid (-1, 0)
    Pitfalls: in "duel" an invalid puzzle costs no more than a solved one, so a proposer learns
    validity only if the solver sometimes fails. The solver tries each puzzle once, so
    how hard a puzzle is shows only in the mean over episodes. Held-out initial states are other
    sets of numbers, but small puzzles from these sets may also occur in training.

    Args:
        numbers: a puzzle has 2 to ``numbers`` numbers; 2 to 6.
        largest: puzzles use numbers from 1 to ``largest``; 2 to 99.
        most: targets are from 1 to ``most``; at least ``numbers`` times ``largest`` and at most
            9,999.
        allowed: number of different numbers that the puzzles of an episode may use, 2 to
            ``largest``; a puzzle may repeat a number.
        rounds: rounds per episode, 1 to 16; roles stay the same.
        payoff: "duel": zero-sum; "frontier": every valid puzzle pays the proposer, an unsolved
            puzzle pays most.
        easy: payoff of the proposer for a solved puzzle in "frontier", 0 to 1.
        sets: number of sets of allowed numbers in the bank, 1 to 100,000.
        bank: seed of the bank.
        style: wording, "brief" for tiny models, "full" for language models.

    Raises:
        ConfigError: a number out of range.

    Reference: Zhao et al., "Absolute Zero: Reinforced self-play reasoning with zero data", 2025
    (a proposer and a solver with an exact check, for programs).
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
    size_option = "sets"
    roles = ("proposer", "solver")
    num_seats = 2

    def __post_init__(self) -> None:
        min_target = self.numbers * self.largest
        check_range("puzzle_duel: allowed", self.allowed, 2, self.largest)
        if not min_target <= self.most <= 9999:
            raise ConfigError(
                f"puzzle_duel: most={self.most} must be at least numbers * largest = {min_target}, "
                f"so that every sum is a target, and at most 9999; write most={min_target}."
            )
        self.limits = PuzzleLimits(numbers=self.numbers, most=self.most)
        self.brief = self.style == "brief"
        self.max_turns = 2 * self.rounds
        self.zero_sum = self.payoff == "duel"
        self.utility_sum = 0.0 if self.zero_sum else None
        self.max_utility = float(self.rounds)
        self.min_utility = -self.max_utility if self.zero_sum else -1.0
        self.rules = rules_text(self)

    def vocabulary(self) -> tuple[str, ...]:
        return tuple(sorted({*WORDS, *map(str, range(1, max(self.largest, self.most) + 1))}))

    def reset(self, stream: Stream) -> Duel:
        return Duel(self, PuzzleDuelPosition(allowed=self.start(stream.integer(0, self.sets))))

    def start(self, number: int) -> tuple[int, ...]:
        """Return one of the bank's sets of numbers, ascending."""
        stream = Stream.from_seed(self.bank).child("puzzle_duel").child(number)
        numbers = list(range(1, self.largest + 1))
        indices = range(self.allowed)
        return tuple(sorted(numbers.pop(stream.integer(i, len(numbers))) for i in indices))

    def start_of(self, play: Any) -> Hashable:
        """Return the numbers that puzzles may use, drawn by chance."""
        allowed: tuple[int, ...] = play.position.allowed
        return allowed

    def stake(self, play: Duel, seat: int) -> float:
        """Return the most that a seat can lose: its rounds left in "duel", else 1."""
        rounds_left = self.rounds - len(play.position.is_solved)
        return float(rounds_left) if self.zero_sum else 1.0


puzzle_duel = PuzzleDuel
