"""Layouts equal filtered combinations; searches by hand. test_solver.py compares the search with recursion."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.environments.minesweeper.solver import LongMinesweeperSearchError, Sweeper, layouts_of


@given(
    st.lists(
        st.tuples(st.sets(st.integers(0, 5), min_size=1).map(lambda cells: tuple(sorted(cells))), st.integers(0, 3)),
        max_size=4,
    ),
    st.integers(0, 6),
)
def test_layouts_match_filtering_of_all_combinations(constraints, mines):
    def agrees(mined):
        return all(len(set(group) & set(mined)) == count for group, count in constraints)

    expected = [sum(1 << cell for cell in mined) for mined in itertools.combinations(range(6), mines) if agrees(mined)]
    assert sorted(layouts_of(constraints, range(6), mines)) == sorted(expected)


def neighbours_in_row(cells):
    return [[other for other in (cell - 1, cell + 1) if 0 <= other < cells] for cell in range(cells)]


def test_values_and_search_limit_by_hand():
    layouts = [1 << cell for cell in (1, 2, 3)]  # the first cell is known to be safe
    sweeper = Sweeper(layouts, neighbours_in_row(4), share=False, beliefs=100)
    # cell 0 shows 1 if the mine is at 1; else it opens cell 1, whose count tells 2 from 3: all 3 layouts are won
    assert sweeper.value_of_reveal(range(3), 0, 0) == 3
    # cell 3 loses if the mine is there; else its count tells 1 from 2: 2 of 3 layouts are won
    assert sweeper.value_of_reveal(range(3), 0, 3) == 2
    share_sweeper = Sweeper(layouts, neighbours_in_row(4), share=True, beliefs=100)
    assert share_sweeper.value_of_reveal(range(3), 0, 0) == 9 and share_sweeper.value_of_reveal(range(3), 1, 1) == 1 + 6
    assert Sweeper([2, 2], neighbours_in_row(3), share=False, beliefs=10).value_of_reveal(range(2), 0, 0) == 2
    layouts = list(layouts_of([], range(1, 9), 3))
    neighbours_in_grid = [
        [
            other
            for other in range(9)
            if other != cell and max(abs(other // 3 - cell // 3), abs(other % 3 - cell % 3)) == 1
        ]
        for cell in range(9)
    ]
    assert (
        Sweeper(layouts, neighbours_in_grid, share=False, beliefs=10_000).value_of_reveal(range(len(layouts)), 0, 0) > 0
    )
    with pytest.raises(LongMinesweeperSearchError):
        Sweeper(layouts, neighbours_in_grid, share=False, beliefs=3).value_of_reveal(range(len(layouts)), 0, 0)
