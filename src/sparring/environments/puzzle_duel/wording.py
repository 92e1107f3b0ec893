"""What the proposer and the solver are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparring.environments.puzzle_duel.puzzles import SIGNS, Puzzle, written

if TYPE_CHECKING:
    from sparring.environments.puzzle_duel import PuzzleDuel

WORDS = ("propose", "solve", "target", "proof", "solved", "failed", "(", ")", *SIGNS)
PUZZLE_FORM = "<puzzle>3 5 7 -> 22</puzzle><proof>3*5+7</proof>"
SOLUTION_FORM = "<solution>3*5+7</solution>"


def rules_text(rules: PuzzleDuel) -> str:
    """Return the rules in plain sentences."""
    limits = rules.limits
    pay = (
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
        f"{pay} A puzzle that is not valid ends the play."
    )


def told_to(
    seat: int,
    allowed: tuple[int, ...],
    posed: tuple[Puzzle, ...],
    solved: tuple[bool, ...],
    rules: PuzzleDuel,
) -> tuple[str, str]:
    """Return the news of a seat that is due, and its question."""
    last = ("solved" if solved[-1] else "failed") if solved else ""
    listed = " ".join(map(str, allowed))
    if rules.style == "brief":
        news = f"propose {listed}" if seat == 0 else f"solve {written(posed[-1], 'brief')}"
        return f"{last} {news}".strip(), ""
    lines = [_opening(seat, rules) if not solved else f"The last puzzle was {_ended(last)}."]
    number = f"Round {len(solved) + 1} of {rules.rounds}."
    if seat == 0:
        lines.append(f"{number} The numbers of your puzzle may be, also repeatedly: {listed}.")
        return "\n".join(lines), f"Write your puzzle in this form: {PUZZLE_FORM}"
    lines.append(f"{number} The puzzle: {written(posed[-1], 'full')}")
    return "\n".join(lines), f"Write your solution in this form: {SOLUTION_FORM}"


def _opening(seat: int, rules: PuzzleDuel) -> str:
    """Return the rules and which role the seat has."""
    return f"{rules_text(rules)} You are the {('proposer', 'solver')[seat]}."


def _ended(last: str) -> str:
    """Return how a round ended, in words."""
    return "solved" if last == "solved" else "not solved"
