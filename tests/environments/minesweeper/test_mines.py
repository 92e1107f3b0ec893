"""Counts of mine layouts: by hand, and against the enumeration of all layouts."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.environments.minesweeper.solver import mine_counts


def count_by_enumeration(constraints, cells, mines):
    layouts = [
        set(layout)
        for layout in itertools.combinations(cells, mines)
        if all(len(set(layout) & set(group)) == number for group, number in constraints)
    ]
    return {cell: sum(cell in layout for layout in layouts) for cell in cells}, len(layouts)


@pytest.mark.parametrize(
    ("constraints", "cells", "mines", "counts", "num_layouts"),
    [
        ([((0, 1), 1)], range(3), 1, {0: 1, 1: 1, 2: 0}, 2),
        ([((0, 1), 1), ((1, 2), 1)], range(4), 2, {0: 1, 1: 1, 2: 1, 3: 1}, 2),  # mines at 0 and 2, or at 1 and 3
        ([((0,), 1), ((0,), 0)], range(2), 1, {0: 0, 1: 0}, 0),
        ([((), 1)], range(2), 1, {0: 0, 1: 0}, 0),
        ([((0, 1), 3)], range(3), 3, {0: 0, 1: 0, 2: 0}, 0),
        ([], [], 0, {}, 1),
    ],
)
def test_counts_by_hand(constraints, cells, mines, counts, num_layouts):
    assert mine_counts(constraints, cells, mines) == (counts, num_layouts)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_counts_match_enumeration(data):
    cells = data.draw(st.integers(1, 10))
    mines = data.draw(st.integers(0, cells))
    mined = set(data.draw(st.permutations(range(cells)))[:mines])
    constraints = []
    for _ in range(data.draw(st.integers(0, 5))):
        group = tuple(sorted(data.draw(st.sets(st.integers(0, cells - 1), min_size=1, max_size=5))))
        constraints.append((group, len(mined & set(group)) + data.draw(st.sampled_from([0, 0, 0, 0, 1]))))
    assert mine_counts(constraints, range(cells), mines) == count_by_enumeration(constraints, range(cells), mines)


def test_the_largest_board_is_exact_and_a_larger_one_is_refused():
    counts, num_layouts = mine_counts([(tuple(range(8)), 4), (tuple(range(4, 12)), 4)], range(64), 32)
    assert sum(counts.values()) == 32 * num_layouts
    with pytest.raises(ValueError, match="at most 64"):
        mine_counts([], range(65), 1)
