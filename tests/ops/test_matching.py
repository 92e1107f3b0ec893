"""Matching: exact against all permutations, greedy against a plain search, transport by what defines its plan."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.ops.matching import exact_matching, greedy_matching, transport_plan

LEVELS = st.sampled_from([0.0, 0.0, 1 / 3, 1 / 2, 2 / 3, 3 / 4, 1.0])


@st.composite
def tables(draw, least=0):
    """Similarities with many ties and zeros, or without ties."""
    rows, columns = draw(st.integers(least, 4)), draw(st.integers(least, 4))
    cell = draw(st.sampled_from([LEVELS, st.floats(0, 1)]))
    return np.array([[draw(cell) for _ in range(columns)] for _ in range(rows)]).reshape(rows, columns)


def best_sum(similarity):
    """Return the largest sum of a one-to-one matching, by trying all permutations."""
    rows, columns = similarity.shape
    size = max(rows, columns)
    padded = np.zeros((size, size))
    padded[:rows, :columns] = similarity
    return max(sum(padded[row, column] for row, column in enumerate(order)) for order in permutations(range(size)))


def paid(similarity, column):
    """Return what each row gets; no column may be there twice, and none of similarity 0."""
    found = [other for other in column.tolist() if other >= 0]
    assert len(set(found)) == len(found) and column.shape == (len(similarity),)
    pay = [similarity[row, other] if other >= 0 else 0.0 for row, other in enumerate(column.tolist())]
    assert all(value > 0.0 for value, other in zip(pay, column.tolist(), strict=True) if other >= 0)
    return pay


def test_by_hand_where_greedy_is_not_exact():
    similarity = np.array([[0.9, 0.8], [0.8, 0.1]])
    assert greedy_matching(similarity).tolist() == [0, 1] and exact_matching(similarity).tolist() == [1, 0]
    similarity = np.array([[0.5, 0.0, 0.4], [0.5, 0.0, 0.0], [0.0, 0.0, 0.0]])
    assert greedy_matching(similarity).tolist() == [0, -1, -1] and exact_matching(similarity).tolist() == [2, 0, -1]


@settings(max_examples=150, deadline=None)
@given(similarity=tables())
def test_exact_is_the_best_of_all_permutations(similarity):
    assert sum(paid(similarity, exact_matching(similarity))) == pytest.approx(best_sum(similarity), abs=1e-8)


@settings(max_examples=100, deadline=None)
@given(similarity=tables())
def test_greedy_takes_the_largest_that_is_left(similarity):
    left, pay = similarity.copy(), [0.0] * len(similarity)
    while left.size and left.max() > 0:
        row, column = divmod(int(left.argmax()), left.shape[1])
        pay[row] = left[row, column]
        left[row], left[:, column] = 0.0, 0.0
    assert paid(similarity, greedy_matching(similarity)) == pay


@pytest.mark.parametrize("match", [exact_matching, greedy_matching])
def test_of_equal_rows_the_first_is_matched(match):
    assert match(np.ones((3, 1))).tolist() == [0, -1, -1]
    assert match(np.ones((5, 3)))[3:].tolist() == [-1, -1]
    assert [column >= 0 for column in match(np.array([[0.5, 0.5], [0.5, 0.0], [0.5, 0.5], [0.0, 0.0]]))] == (
        [True, True, False, False] if match is exact_matching else [True, False, True, False]
    )


@settings(max_examples=60, deadline=None)
@given(similarity=tables(least=1), data=st.data())
def test_the_order_of_rows_and_columns_changes_no_sum_and_no_plan(similarity, data):
    rows = data.draw(st.permutations(range(similarity.shape[0])))
    columns = data.draw(st.permutations(range(similarity.shape[1])))
    mixed = similarity[np.ix_(rows, columns)]
    assert sum(paid(mixed, exact_matching(mixed))) == pytest.approx(sum(paid(similarity, exact_matching(similarity))), abs=1e-8)
    assert transport_plan(mixed, 0.1) == pytest.approx(transport_plan(similarity, 0.1)[np.ix_(rows, columns)], abs=1e-6)


@settings(max_examples=80, deadline=None)
@given(similarity=tables(least=1), scale=st.sampled_from([0.6, 1.0]))
def test_a_plan_has_its_sums_and_the_form_that_defines_it(similarity, scale):
    similarity = similarity * scale
    plan = transport_plan(similarity, 0.1)
    rows, columns = similarity.shape
    assert plan.sum(1) == pytest.approx(np.full(rows, 1 / rows), abs=1e-12)
    assert plan.sum(0) == pytest.approx(np.full(columns, 1 / columns), abs=1e-8 if scale < 1 else 1e-3)  # not all ends within the rounds
    rest = np.log(plan) - similarity / 0.1  # a number per row and one per column
    assert rest - rest[:1] == pytest.approx(np.broadcast_to((rest - rest[:1])[:, :1], rest.shape), abs=1e-6)


def test_a_plan_lies_between_all_alike_and_the_exact_matching():
    similarity = np.array([[0.9, 0.8, 0.1], [0.8, 0.1, 0.3], [0.2, 0.3, 0.6]])
    assert transport_plan(similarity, 1e6) == pytest.approx(np.full((3, 3), 1 / 9), abs=1e-6)
    sharp = transport_plan(similarity, 0.01)
    assert sharp[range(3), exact_matching(similarity)] == pytest.approx(np.full(3, 1 / 3), abs=1e-3)
    # two by two by hand: T11 / T12 = sqrt(e^((0.9 + 0.1 - 0.8 - 0.8) / 0.1)) = e^-3
    small = transport_plan(similarity[:2, :2], 0.1)
    assert small[0, 0] / small[0, 1] == pytest.approx(np.exp(-3), rel=1e-6)


def test_tables_without_rows_or_columns():
    for shape in ((0, 0), (0, 3), (3, 0)):
        for match in (exact_matching, greedy_matching):
            assert match(np.zeros(shape)).tolist() == [-1] * shape[0]
