from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.ops.matching import (
    ToolCall,
    calls_of,
    exact_matching,
    greedy_matching,
    similarities,
    similarity_of,
    transport_plan,
)
from tests.cases import every_case

MOVE = (ToolCall("move", {"x": "1", "y": "2"}),)


@every_case(
    ("text", "calls"),
    [
        ("move(x=1, y=2)", MOVE),
        (" move( y=2,x=1 ) ", MOVE),
        ('{"name": "move", "arguments": {"x": 1, "y": 2}}', MOVE),
        ('{"name": "move", "parameters": {"y": 2, "x": 1}}', MOVE),
        ('{"name": "move", "arguments": "{\\"x\\": 1, \\"y\\": 2}"}', MOVE),
        ('[{"name": "move", "arguments": {"x": 1, "y": 2}}, {"name": "end"}]', (*MOVE, ToolCall("end", {}))),
        ("up", (ToolCall("up", {}),)),
        ("up()", (ToolCall("up", {}),)),
        ("r1c2=3", (ToolCall("r1c2", {"1": "3"}),)),
        ("a1 4", (ToolCall("a1", {"1": "4"}),)),
        ("offer:3wood-2gold", (ToolCall("offer", {"1": '"3wood-2gold"'}),)),
        ("x(0,1)", (ToolCall("x", {"1": "0", "2": "1"}),)),
        ("say('a, b', to=bob, loud=true)", (ToolCall("say", {"1": '"a, b"', "to": '"bob"', "loud": "true"}),)),
        ("say(a=[1, 'x'], **more)", (ToolCall("say", {"a": '[1, "x"]', "**": '"more"'}),)),
        ("say(a={'to': 1, 'by': 2})", (ToolCall("say", {"a": '{"by": 2, "to": 1}'}),)),
        ("a1,b2", (ToolCall("a1", {"1": '"b2"'}),)),
        ("say(a={1, 2})", (ToolCall("say", {"a": "{1, 2}"}),)),
        ('{"name": "go", "arguments": ["north", 2]}', (ToolCall("go", {"1": '"north"', "2": "2"}),)),
        ('{"move": 1}', (ToolCall('{"move"', {"1": '"1}"'}),)),  # JSON that is not a call is read as words
        ("move(x=", (ToolCall("move(x", {}),)),
        ("", ()),
        (" = ", ()),
    ],
)
def test_tool_calls_are_read_from_text(text, calls):
    assert calls_of(text) == calls


def test_unreadable_texts_become_words():
    for text in ("(" * 5000, "f(" + "-" * 5000 + "1)", "f(x=0x" + "f" * 9000 + ")", "a\0b", "\ud800"):
        assert len(calls_of(text)) == 1


@settings(max_examples=200, deadline=None)
@given(text=st.text(alphabet="ab1(){}[]=,:'\"* \n", max_size=20))
def test_any_text_is_read_and_has_similarity_1_with_itself(text):
    for call in calls_of(text):
        assert similarity_of(call, call) == 1.0


def test_similarity_by_hand():
    (call,) = calls_of("f(x=1, y=2)")
    assert similarity_of(call, *calls_of("g(x=1, y=2)")) == 0.0
    assert similarity_of(call, *calls_of("F(y=2, x=1)")) == 1.0
    assert similarity_of(call, *calls_of("f(x=1, y=3)")) == pytest.approx((1 + 1 + 1) / 4)
    assert similarity_of(call, *calls_of("f(x=1)")) == pytest.approx((1 + 1 / 2 + 1) / 3)  # one parameter too many
    assert similarity_of(*calls_of("f(x=1)"), call) == pytest.approx((1 + 1 / 2 + 1) / 4)  # one parameter missing
    assert similarity_of(call, *calls_of("f")) == pytest.approx((1 + 0) / 2)
    assert similarity_of(*calls_of("f"), *calls_of("f()")) == 1.0
    # the string '1' differs from the number 1
    assert similarity_of(call, *calls_of("f(x='1', y=2)")) == pytest.approx(3 / 4)
    assert similarity_of(*calls_of("r1c2=3"), *calls_of("r1c2=4")) == pytest.approx(2 / 3)


def test_the_table_of_similarities():
    calls, references = [*calls_of("f(1)"), *calls_of("g(1)")], [*calls_of("g(1)"), *calls_of("f(2)"), *calls_of("h")]
    assert similarities(calls, references) == pytest.approx(np.array([[0, 2 / 3, 0], [1, 0, 0]]))
    assert similarities([], references).shape == (0, 3) and similarities(calls, []).shape == (2, 0)


LEVELS = st.sampled_from([0.0, 0.0, 1 / 3, 1 / 2, 2 / 3, 3 / 4, 1.0])


@st.composite
def tables(draw, min_size=0):
    rows, columns = draw(st.integers(min_size, 4)), draw(st.integers(min_size, 4))
    entry = draw(st.sampled_from([LEVELS, st.floats(0, 1)]))
    return np.array([[draw(entry) for _ in range(columns)] for _ in range(rows)]).reshape(rows, columns)


def best_total(similarity):
    rows, columns = similarity.shape
    size = max(rows, columns)
    padded = np.zeros((size, size))
    padded[:rows, :columns] = similarity
    return max(sum(padded[row, column] for row, column in enumerate(order)) for order in permutations(range(size)))


def matched_similarities(similarity, column_of_row):
    """Return the matched similarity of each row; check that no column matches two rows and no match has similarity 0."""
    matched = [match for match in column_of_row.tolist() if match >= 0]
    assert len(set(matched)) == len(matched) and column_of_row.shape == (len(similarity),)
    row_similarities = [
        similarity[row, match] if match >= 0 else 0.0 for row, match in enumerate(column_of_row.tolist())
    ]
    assert all(value > 0.0 for value, match in zip(row_similarities, column_of_row.tolist(), strict=True) if match >= 0)
    return row_similarities


def test_greedy_and_exact_matching_differ_by_hand():
    similarity = np.array([[0.9, 0.8], [0.8, 0.1]])
    assert greedy_matching(similarity).tolist() == [0, 1] and exact_matching(similarity).tolist() == [1, 0]
    similarity = np.array([[0.5, 0.0, 0.4], [0.5, 0.0, 0.0], [0.0, 0.0, 0.0]])
    assert greedy_matching(similarity).tolist() == [0, -1, -1] and exact_matching(similarity).tolist() == [2, 0, -1]


@settings(max_examples=150, deadline=None)
@given(similarity=tables())
def test_exact_matching_equals_the_best_permutation(similarity):
    assert sum(matched_similarities(similarity, exact_matching(similarity))) == pytest.approx(
        best_total(similarity), abs=1e-8
    )


@settings(max_examples=100, deadline=None)
@given(similarity=tables())
def test_greedy_matching_takes_the_largest_remaining_value(similarity):
    remaining, row_similarities = similarity.copy(), [0.0] * len(similarity)
    while remaining.size and remaining.max() > 0:
        row, column = divmod(int(remaining.argmax()), remaining.shape[1])
        row_similarities[row] = remaining[row, column]
        remaining[row], remaining[:, column] = 0.0, 0.0
    assert matched_similarities(similarity, greedy_matching(similarity)) == row_similarities


@pytest.mark.parametrize("match", [exact_matching, greedy_matching])
def test_between_equal_rows_the_first_is_matched(match):
    assert match(np.ones((3, 1))).tolist() == [0, -1, -1]
    assert match(np.ones((5, 3)))[3:].tolist() == [-1, -1]
    assert [column >= 0 for column in match(np.array([[0.5, 0.5], [0.5, 0.0], [0.5, 0.5], [0.0, 0.0]]))] == (
        [True, True, False, False] if match is exact_matching else [True, False, True, False]
    )


@settings(max_examples=80, deadline=None)
@given(similarity=tables(min_size=1), scale=st.sampled_from([0.6, 1.0]))
def test_a_transport_plan_has_its_marginals_and_form(similarity, scale):
    similarity = similarity * scale
    plan = transport_plan(similarity, 0.1)
    rows, columns = similarity.shape
    assert plan.sum(1) == pytest.approx(np.full(rows, 1 / rows), abs=1e-12)
    assert plan.sum(0) == pytest.approx(
        np.full(columns, 1 / columns), abs=1e-8 if scale < 1 else 1e-3
    )  # Sinkhorn may stop before convergence
    row_and_column_terms = np.log(plan) - similarity / 0.1  # each entry is a row number plus a column number
    assert row_and_column_terms - row_and_column_terms[:1] == pytest.approx(
        np.broadcast_to((row_and_column_terms - row_and_column_terms[:1])[:, :1], row_and_column_terms.shape), abs=1e-6
    )


def test_a_transport_plan_tends_to_uniform_or_exact_matching():
    similarity = np.array([[0.9, 0.8, 0.1], [0.8, 0.1, 0.3], [0.2, 0.3, 0.6]])
    assert transport_plan(similarity, 1e6) == pytest.approx(np.full((3, 3), 1 / 9), abs=1e-6)
    sharp = transport_plan(similarity, 0.01)
    assert sharp[range(3), exact_matching(similarity)] == pytest.approx(np.full(3, 1 / 3), abs=1e-3)
    # two by two by hand: T11 / T12 = sqrt(e^((0.9 + 0.1 - 0.8 - 0.8) / 0.1)) = e^-3
    two_by_two = transport_plan(similarity[:2, :2], 0.1)
    assert two_by_two[0, 0] / two_by_two[0, 1] == pytest.approx(np.exp(-3), rel=1e-6)
