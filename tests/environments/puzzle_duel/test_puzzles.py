"""Expressions and puzzles: parsed as Python parses them, but without eval; malformed text is refused."""

import ast
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sparring.core.rng import Stream
from sparring.environments.puzzle_duel.puzzles import (
    MAX_CHARACTERS,
    Puzzle,
    PuzzleLimits,
    puzzle_text,
    random_puzzle,
    random_solution,
    read_puzzle,
    read_solution,
    solves,
    text_in_tags,
    value_of,
)
from tests.cases import every_case

LIMITS = PuzzleLimits(numbers=3, most=99)
ALLOWED = (3, 5, 7)


def python_value(text):
    """Return the value by Python's own parser, or None if our grammar does not allow the expression."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError:
        return None
    kinds = (ast.Expression, ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Constant)
    if not all(isinstance(node, kinds) for node in ast.walk(tree)):
        return None
    if any(isinstance(node, ast.Constant) and node.value > 999_999 for node in ast.walk(tree)):
        return None  # our numbers have at most 6 digits
    return eval(compile(tree, "", "eval"), {"__builtins__": {}})


@pytest.mark.filterwarnings("ignore::SyntaxWarning")  # 3 (5) looks to Python like a call
@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(["3", "5", "12", "+", "-", "*", "(", ")", " "]), max_size=12).map("".join))
@example("3 +")
@example("()")
@example("2-3-4")
@example("2-3*4+5")
@example("((2)*(3+4))-1")
def test_values_of_expressions_match_python(text):
    value, expected = value_of(text), python_value(text)
    assert (None if value is None else value[0]) == expected
    if value is not None:
        assert value[1] == tuple(sorted(map(int, re.findall(r"\d+", text))))


@every_case(
    "text",
    [
        *[
            "",
            " ",
            "3 5",
            "3+",
            "+3",
            "-3",
            "3**5",
            "3/5",
            "3.5",
            "(3",
            "3)",
            "()",
            "03",
            "3+05",
            "1_0",
            "1e3",
            "1234567",
            "٣+٥",
            "³",
            "3\x00",
            "3\u00a0+5",
        ],
        *[
            "__import__('os')",
            "3;5",
            "3+5#",
            "'3'+'5'",
            '"3"',
            "(" * 10**6,
            "3+" * 10**6 + "3",
            "9" * 10**6,
            "3" + " " * MAX_CHARACTERS + "+ 5",
        ],
    ],
)
def test_malformed_expressions_have_no_value(text):
    assert value_of(text) is None


def test_expressions_and_tags_by_hand():
    assert value_of("3*5+7") == (22, (3, 5, 7))
    assert value_of("3*(5+7)") == (36, (3, 5, 7))
    assert value_of("3-5-7") == (-9, (3, 5, 7))
    assert value_of("3-(5-7)") == (5, (3, 5, 7))
    assert value_of("0") == (0, (0,))
    puzzle = Puzzle((3, 3, 5), 14)
    assert solves(puzzle, "3*3+5") and solves(puzzle, "5 + 3 * 3")
    assert (
        not solves(puzzle, "9+5")
        and not solves(puzzle, "3*3+5+3-3")
        and not solves(puzzle, "14")
        and not solves(puzzle, "3+3+5")
    )
    assert text_in_tags("<a>1</a> <a>2</a>", "a") == "2"
    assert text_in_tags("<a><a>2</a>", "a") == "2"
    assert (
        text_in_tags("</a><a>", "a") is None
        and text_in_tags("", "a") is None
        and text_in_tags("<a>" * 10**6, "a") is None
    )
    assert read_solution("<solution>3</solution>", "brief") == "<solution>3</solution>"
    assert read_solution("3*5", "full") == ""


@every_case("style", ["brief", "full"])
@every_case(
    ("numbers_text", "target", "proof", "is_valid"),
    [
        ("3 5 7", "22", "3*5+7", True),
        ("3 3", "9", "3*3", True),
        ("3 5 7", "23", "3*5+7", False),  # the proof is wrong
        ("3 5", "22", "3*5+7", False),  # the proof uses other numbers
        ("3", "3", "3", False),  # too few numbers
        ("3 3 3 3", "12", "3+3+3+3", False),  # too many numbers
        ("3 4", "7", "3+4", False),  # 4 is not allowed
        ("3 3", "0", "3-3", False),  # the target is too small
        ("5 7 7", "245", "5*7*7", False),  # the target is too large
        ("3 5 7", "", "3*5+7", False),
        ("3 five 7", "22", "3*5+7", False),
    ],
)
def test_only_valid_puzzles_are_read(style, numbers_text, target, proof, is_valid):
    text = f"{numbers_text} target {target} proof {proof}"
    if style == "full":
        text = f"Let me think <b>. <puzzle>{numbers_text} -> {target}</puzzle> so <proof>{proof}</proof> done"
    puzzle = read_puzzle(text, style, ALLOWED, LIMITS)
    assert puzzle == (Puzzle(tuple(map(int, numbers_text.split())), int(target)) if is_valid else None)


@pytest.mark.parametrize("style", ["brief", "full"])
@settings(max_examples=100, deadline=None)
@given(
    text=st.text()
    | st.lists(
        st.sampled_from(["3", "5", "target", "proof", "<puzzle>", "</puzzle>", "->", "<proof>", "</proof>", "'", '"'])
    ).map(" ".join)
)
def test_random_text_never_breaks_the_parser(style, text):
    puzzle = read_puzzle(text, style, ALLOWED, LIMITS)
    assert puzzle is None or set(puzzle.numbers) <= set(ALLOWED)
    assert solves(Puzzle((3, 5), 15), read_solution(text, style)) in (True, False)


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    allowed=st.sets(st.integers(1, 9), min_size=1, max_size=9).map(sorted).map(tuple),
    numbers=st.integers(2, 6),
)
def test_random_puzzles_are_valid_and_random_solutions_use_every_number(seed, allowed, numbers):
    limits, stream = PuzzleLimits(numbers=numbers, most=9 * numbers), Stream.from_seed(seed)
    puzzle, proof = random_puzzle(allowed, limits, stream)
    assert read_puzzle(f"{puzzle_text(puzzle, 'brief')} proof {proof}", "brief", allowed, limits) == puzzle
    assert (
        read_puzzle(f"<puzzle>{puzzle_text(puzzle, 'full')}</puzzle><proof>{proof}</proof>", "full", allowed, limits)
        == puzzle
    )
    value = value_of(random_solution(puzzle, stream))
    assert value is not None and value[1] == tuple(sorted(puzzle.numbers))
