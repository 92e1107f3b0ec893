"""Puzzles of arithmetic: numbers, a target, and expressions, parsed without eval."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Literal, NamedTuple

from sparring.core.rng import Stream

SIGNS = ("+", "-", "*")
DRAWS = 64  # random chains to try before a sum, which always fits
LONGEST = 200  # characters of a puzzle or an expression
PARTS = re.compile(r"\s*(?:(0|[1-9][0-9]{0,5})(?![0-9])|([-+*()]))")
Style = Literal["brief", "full"]


class Puzzle(NamedTuple):
    """Numbers, each to be used exactly once, and the target to reach."""

    numbers: tuple[int, ...]
    target: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PuzzleLimits:
    """Bounds of a valid puzzle.

    Attributes:
        numbers: most numbers of a puzzle; the fewest are 2.
        most: largest target; the smallest is 1.
    """

    numbers: int
    most: int


def parts_of(text: str) -> list[str] | None:
    """Return the numbers, signs and brackets of an expression; None if it holds anything else."""
    text = text.strip(" \t\r\n")
    if len(text) > LONGEST or not text.isascii():
        return None
    parts, place = list[str](), 0
    while place < len(text):
        match = PARTS.match(text, place)
        if match is None:
            return None
        parts.append(match[1] or match[2])
        place = match.end()
    return parts


def value_of(text: str) -> tuple[int, tuple[int, ...]] | None:
    """Return (value, sorted numbers) of an expression; None for any other text.

    Whole numbers, ``+``, ``-``, ``*`` and brackets, with the usual precedence; no sign before a
    number. Numbers stay below 10^6 and expressions below ``LONGEST``, so values stay small.
    """
    parts = parts_of(text)
    if not parts:
        return None
    values, signs = list[int](), list[str]()
    number_due = True  # whether a number or an opening bracket must come next
    for part in parts:
        if part == "(" or part.isdigit():
            if not number_due:
                return None
            if part == "(":
                signs.append(part)
                continue
            values.append(int(part))
            number_due = False
            continue
        if number_due:
            return None
        _reduce(values, signs, part)
        if part != ")":
            signs.append(part)
            number_due = True
        elif not signs or signs.pop() != "(":
            return None
    if number_due:
        return None
    _reduce(values, signs, ")")
    if signs:
        return None
    return values[0], tuple(sorted(int(part) for part in parts if part.isdigit()))


def _reduce(values: list[int], signs: list[str], coming: str) -> None:
    """Apply the signs on the stack that bind at least as tightly as the next sign."""
    while signs and signs[-1] != "(" and (coming != "*" or signs[-1] == "*"):
        sign, right, left = signs.pop(), values.pop(), values.pop()
        values.append(
            left + right if sign == "+" else left - right if sign == "-" else left * right
        )


def solves(puzzle: Puzzle, text: str) -> bool:
    """Return whether an expression uses every number of a puzzle once and reaches its target."""
    return value_of(text) == (puzzle.target, tuple(sorted(puzzle.numbers)))


def tagged(reply: str, tag: str) -> str | None:
    """Return the text between the last pair of tags of this name, or None."""
    end = reply.rfind(f"</{tag}>")
    begin = reply.rfind(f"<{tag}>", 0, max(end, 0))
    return None if begin < 0 else reply[begin + len(tag) + 2 : end]


def read_puzzle(
    reply: str, style: Style, allowed: tuple[int, ...], limits: PuzzleLimits
) -> Puzzle | None:
    """Return the puzzle in a proposer's reply; None unless it is valid.

    A valid puzzle has the required form, is within the limits, uses allowed numbers only, and has a
    correct proof.
    """
    if style == "full":
        stated, proof = tagged(reply, "puzzle"), tagged(reply, "proof")
        left, arrow, right = (stated or "").partition("->")
    else:
        stated, mark, proof = reply.partition("proof")
        left, arrow, right = stated.partition("target")
        proof = proof if mark else None
    if not arrow or proof is None:
        return None
    numbers, target = _numbers(left), _numbers(right)
    if numbers is None or target is None or len(target) != 1:
        return None
    puzzle = Puzzle(numbers, target[0])
    fits = (
        2 <= len(puzzle.numbers) <= limits.numbers
        and 1 <= puzzle.target <= limits.most
        and set(puzzle.numbers) <= set(allowed)
    )
    return puzzle if fits and solves(puzzle, proof) else None


def _numbers(text: str) -> tuple[int, ...] | None:
    parts = parts_of(text)
    if not parts or not all(part.isdigit() for part in parts):
        return None
    return tuple(map(int, parts))


def read_solution(reply: str, style: Style) -> str:
    """Return the expression in a solver's reply, or a text that does not parse."""
    return (tagged(reply, "solution") or "") if style == "full" else reply


def random_puzzle(
    allowed: tuple[int, ...], limits: PuzzleLimits, stream: Stream
) -> tuple[Puzzle, str]:
    """Return a valid puzzle and its proof: a chain of random numbers and signs.

    The count of numbers, the numbers and the signs are uniform; a chain whose value is out of
    bounds is drawn again, at last as a sum.
    """
    count = 2 + stream.integer(0, limits.numbers - 1)
    for attempt in range(DRAWS + 1):
        draws = stream.child(attempt)
        numbers = tuple(allowed[draws.integer(place, len(allowed))] for place in range(count))
        proof = _chain(numbers, draws.child("signs"), SIGNS if attempt < DRAWS else "+")
        value = value_of(proof)
        if value is not None and 1 <= value[0] <= limits.most:
            break
    assert value is not None
    return Puzzle(numbers, value[0]), proof


def random_solution(puzzle: Puzzle, stream: Stream) -> str:
    """Return the numbers of a puzzle in random order with random signs between them."""
    numbers, order = list(puzzle.numbers), list[int]()
    for place in range(len(numbers)):
        order.append(numbers.pop(stream.integer(place, len(numbers))))
    return _chain(tuple(order), stream.child("signs"), SIGNS)


def _chain(numbers: tuple[int, ...], stream: Stream, signs: tuple[str, ...] | str) -> str:
    chosen = (signs[stream.integer(place, len(signs))] for place in range(len(numbers) - 1))
    pairs = zip(numbers, chain(chosen, repeat("")), strict=False)
    return " ".join(f"{number} {sign}" for number, sign in pairs).strip()


def puzzle_text(puzzle: Puzzle, style: Style) -> str:
    """Return the text of a puzzle in a normal form."""
    numbers = " ".join(map(str, puzzle.numbers))
    return f"{numbers} {'->' if style == 'full' else 'target'} {puzzle.target}"
