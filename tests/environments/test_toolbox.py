"""The calculator and the search: results by hand, and robustness against any text."""

import ast
import pickle
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.environments.toolbox import ToolError, calculate, search
from tests.cases import every_case

LIBRARY = ("ada owns red", "red holds lamp", "lamp weighs 7", "bob owns blue")
HOSTILE_QUERIES = [
    "",
    " ",
    '"',
    "'; DROP TABLE documents; --",
    '" OR body MATCH "',
    "NEAR(ada red)",
    "ada AND",
    "body:ada",
    "ada*",
    "^ada",
    "{ada}",
    "(",
    "-ada",
    "\x00ada\x00",
    "\ud800",
    "é" * 1000,
    "🦆" * 50,
    "ada " * 100_000,
    "x" * 100_000,
    "__",
]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2*(3+4)", "14"),
        ("7-10", "-3"),
        ("-(2)--3", "1"),
        ("1/4", "0.25"),
        ("2/3", "0.666667"),
        ("-2/3", "-0.666667"),
        ("-1/9999999", "0"),
        ("1/3*3", "1"),
        ("0.1+0.2", "0.3"),
        ("2-3-4", "-5"),
        ("16/4/2", "2"),
        (" 2 * 3\n", "6"),
        ("999999*999999", "999998000001"),
    ],
)
def test_calculations_by_hand(text, value):
    assert calculate(text) == value


@every_case(
    ("text", "message"),
    [
        ("1/0", "divide by zero"),
        ("1/(2-2)", "divide by zero"),
        ("", "cannot read"),
        ("2+", "cannot read"),
        ("2 3", "cannot read"),
        (")", "cannot read"),
        ("(2", "not closed"),
        ("2**3", "cannot read"),
        ("2^3", "knows numbers"),
        ("1e9", "knows numbers"),
        ("1.2.3", "knows numbers"),
        ("1,000", "knows numbers"),
        ("٣+١", "knows numbers"),
        ("__import__('os')", "knows numbers"),
        ("9" * 16, "knows numbers"),
        ("1" * 201, "longer than 200"),
        ("(" * 30 + "1" + ")" * 30, "20 levels"),
        ("-" * 100 + "1", "20 levels"),
        ("999999999*999999999", "too large"),
        ("1/99999999/99999999", "too large"),
        ("\x00", "knows numbers"),
        ("\ud800", "knows numbers"),
    ],
)
def test_errors_of_the_calculator(text, message):
    with pytest.raises(ToolError, match=message):
        calculate(text)


def exact_value(node):
    if isinstance(node, ast.BinOp):
        left, right = exact_value(node.left), exact_value(node.right)
        return {ast.Add: left + right, ast.Sub: left - right, ast.Mult: left * right}[type(node.op)]
    return -exact_value(node.operand) if isinstance(node, ast.UnaryOp) else Fraction(node.value)


NUMBERS = st.integers(0, 99).map(str)
EXPRESSIONS = st.recursive(
    NUMBERS,
    lambda inner: st.tuples(inner, st.sampled_from(["+", "-", "*", "-1*"]), inner).map(
        lambda parts: f"({''.join(parts)})"
    ),
    max_leaves=8,
)


@given(EXPRESSIONS)
def test_calculations_match_exact_fractions(text):
    try:
        result = calculate(text)
    except ToolError:
        return
    assert result == str(exact_value(ast.parse(text, mode="eval").body))


@given(st.text(max_size=300) | st.text("0123456789+-*/(). ", max_size=60))
def test_any_text_is_computed_or_refused(text):
    try:
        assert len(calculate(text)) < 40
    except ToolError as error:
        assert text == "" or len(str(error)) < 100


def test_searches_by_hand():
    assert search(LIBRARY, "lamp") == ("red holds lamp", "lamp weighs 7")
    assert search(LIBRARY, "LAMP weighs?") == ("lamp weighs 7", "red holds lamp")
    assert search(LIBRARY, "lamp", limit=1) == ("red holds lamp",)
    assert search(LIBRARY, "lam") == search(LIBRARY, "nobody") == search((), "ada") == ()
    assert len(search(["same word"] * 50, "word", limit=99)) == 20
    assert pickle.loads(pickle.dumps(LIBRARY)) == LIBRARY


@every_case("text", HOSTILE_QUERIES)
def test_hostile_queries_never_break_a_search(text):
    assert set(search(LIBRARY, text)) <= set(LIBRARY)
    assert search(LIBRARY, "ada") == ("ada owns red",)  # the index is intact
