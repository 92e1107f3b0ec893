"""Puzzles of arithmetic: numbers, a target, and expressions, parsed without eval."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Literal, NamedTuple

from sparring.core.rng import Stream

SIGNS = ("+", "-", "*")
MAX_ATTEMPTS = 64  # number of random expressions to try; after them a sum, always valid
MAX_CHARACTERS = 200  # largest number of characters of a puzzle or an expression
TOKEN = re.compile(r"\s*(?:(0|[1-9][0-9]{0,5})(?![0-9])|([-+*()]))")
Style = Literal["brief", "full"]


class Puzzle(NamedTuple):
    """Numbers, which a solution uses exactly once each, and the target value."""

    numbers: tuple[int, ...]
    target: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PuzzleLimits:
    """Bounds of a valid puzzle.

    Attributes:
        numbers: a puzzle has 2 to ``numbers`` numbers.
        most: a target is from 1 to ``most``.
    """

    numbers: int
    most: int


def tokenize(text: str) -> list[str] | None:
    """Return the numbers, signs and brackets of an expression; None for any other text."""
    text = text.strip(" \t\r\n")
    if len(text) > MAX_CHARACTERS or not text.isascii():
        return None
    tokens, start = list[str](), 0
    while start < len(text):
        match = TOKEN.match(text, start)
        if match is None:
            return None
        tokens.append(match[1] or match[2])
        start = match.end()
    return tokens


def value_of(text: str) -> tuple[int, tuple[int, ...]] | None:
    """Return (value, sorted numbers) of an expression; None for any other text.

    The grammar has whole numbers, ``+``, ``-``, ``*`` and brackets, with the usual precedence and
    no sign before a number. Numbers stay below 10^6, expressions below ``MAX_CHARACTERS``, so
    values stay small.
    """
    tokens = tokenize(text)
    if not tokens:
        return None
    values, signs = list[int](), list[str]()
    expects_number = True  # whether a number or an opening bracket must come next
    for token in tokens:
        if token == "(" or token.isdigit():
            if not expects_number:
                return None
            if token == "(":
                signs.append(token)
                continue
            values.append(int(token))
            expects_number = False
            continue
        if expects_number:
            return None
        _reduce(values, signs, token)
        if token != ")":
            signs.append(token)
            expects_number = True
        elif not signs or signs.pop() != "(":
            return None
    if expects_number:
        return None
    _reduce(values, signs, ")")
    if signs:
        return None
    return values[0], tuple(sorted(int(token) for token in tokens if token.isdigit()))


def _reduce(values: list[int], signs: list[str], next_sign: str) -> None:
    """Apply the signs on the stack that bind at least as tightly as the next sign."""
    while signs and signs[-1] != "(" and (next_sign != "*" or signs[-1] == "*"):
        sign, right, left = signs.pop(), values.pop(), values.pop()
        values.append(
            left + right if sign == "+" else left - right if sign == "-" else left * right
        )


def solves(puzzle: Puzzle, text: str) -> bool:
    """Return whether an expression uses every number of a puzzle once and reaches its target."""
    return value_of(text) == (puzzle.target, tuple(sorted(puzzle.numbers)))


def text_in_tags(reply: str, tag: str) -> str | None:
    """Return the text between the last <tag> and </tag> of a reply, or None."""
    end = reply.rfind(f"</{tag}>")
    start = reply.rfind(f"<{tag}>", 0, max(end, 0))
    return None if start < 0 else reply[start + len(tag) + 2 : end]


def read_puzzle(
    reply: str, style: Style, allowed: tuple[int, ...], limits: PuzzleLimits
) -> Puzzle | None:
    """Return the puzzle in a proposer's reply; None unless it is valid.

    A valid puzzle has the required form, is within the limits, uses allowed numbers only, and has a
    correct proof.
    """
    if style == "full":
        statement, proof = text_in_tags(reply, "puzzle"), text_in_tags(reply, "proof")
        numbers_text, arrow, target_text = (statement or "").partition("->")
    else:
        statement, mark, proof = reply.partition("proof")
        numbers_text, arrow, target_text = statement.partition("target")
        proof = proof if mark else None
    if not arrow or proof is None:
        return None
    numbers, target = _parse_numbers(numbers_text), _parse_numbers(target_text)
    if numbers is None or target is None or len(target) != 1:
        return None
    puzzle = Puzzle(numbers, target[0])
    is_within_limits = (
        2 <= len(puzzle.numbers) <= limits.numbers
        and 1 <= puzzle.target <= limits.most
        and set(puzzle.numbers) <= set(allowed)
    )
    return puzzle if is_within_limits and solves(puzzle, proof) else None


def _parse_numbers(text: str) -> tuple[int, ...] | None:
    tokens = tokenize(text)
    if not tokens or not all(token.isdigit() for token in tokens):
        return None
    return tuple(map(int, tokens))


def read_solution(reply: str, style: Style) -> str:
    """Return the expression in a solver's reply, or a text that does not parse."""
    return (text_in_tags(reply, "solution") or "") if style == "full" else reply


def random_puzzle(
    allowed: tuple[int, ...], limits: PuzzleLimits, stream: Stream
) -> tuple[Puzzle, str]:
    """Return a valid puzzle and its proof: an expression of random numbers and signs.

    The count of numbers, the numbers and the signs are uniform. If the value of an expression is
    out of bounds, a new one is drawn; the last attempt is a sum.
    """
    num_numbers = 2 + stream.integer(0, limits.numbers - 1)
    for attempt in range(MAX_ATTEMPTS + 1):
        attempt_stream = stream.child(attempt)
        indices = (attempt_stream.integer(key, len(allowed)) for key in range(num_numbers))
        numbers = tuple(allowed[index] for index in indices)
        proof = _join_with_signs(
            numbers, attempt_stream.child("signs"), SIGNS if attempt < MAX_ATTEMPTS else "+"
        )
        result = value_of(proof)
        if result is not None and 1 <= result[0] <= limits.most:
            break
    assert result is not None
    return Puzzle(numbers, result[0]), proof


def random_solution(puzzle: Puzzle, stream: Stream) -> str:
    """Return the numbers of a puzzle in random order with random signs between them."""
    numbers, shuffled = list(puzzle.numbers), list[int]()
    for index in range(len(numbers)):
        shuffled.append(numbers.pop(stream.integer(index, len(numbers))))
    return _join_with_signs(tuple(shuffled), stream.child("signs"), SIGNS)


def _join_with_signs(numbers: tuple[int, ...], stream: Stream, signs: tuple[str, ...] | str) -> str:
    draws = (stream.integer(index, len(signs)) for index in range(len(numbers) - 1))
    pairs = zip(numbers, chain((signs[draw] for draw in draws), repeat("")), strict=False)
    return " ".join(f"{number} {sign}" for number, sign in pairs).strip()


def puzzle_text(puzzle: Puzzle, style: Style) -> str:
    """Return the text of a puzzle in a normal form."""
    numbers = " ".join(map(str, puzzle.numbers))
    return f"{numbers} {'->' if style == 'full' else 'target'} {puzzle.target}"
