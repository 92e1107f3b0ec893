"""Layouts against plain filtering, and the search's limit; best play itself is tested in tests/environments/minesweeper/test_solver.py."""

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
def test_layouts_are_those_that_agree(constraints, mines):
    def agrees(mined):
        return all(len(set(some) & set(mined)) == count for some, count in constraints)

    expected = [sum(1 << cell for cell in mined) for mined in itertools.combinations(range(6), mines) if agrees(mined)]
    assert sorted(layouts_of(constraints, range(6), mines)) == sorted(expected)


def row(cells):
    return [[other for other in (cell - 1, cell + 1) if 0 <= other < cells] for cell in range(cells)]


def test_best_play_by_hand():
    layouts = [1 << cell for cell in (1, 2, 3)]  # the first cell is known to be safe
    sweeper = Sweeper(layouts, row(4), share=False, beliefs=100)
    # cell 0 shows 1 where the mine is next to it: then all is known; else 0 opens cell 1, whose count parts the others: 3 of 3
    assert sweeper.revealing(range(3), 0, 0) == 3
    # cell 3: lost to the mine there; else its count parts the other two: 2 of 3
    assert sweeper.revealing(range(3), 0, 3) == 2
    shared = Sweeper(layouts, row(4), share=True, beliefs=100)
    assert shared.revealing(range(3), 0, 0) == 9 and shared.revealing(range(3), 1, 1) == 1 + 6
    assert Sweeper([2, 2], row(3), share=False, beliefs=10).revealing(range(2), 0, 0) == 2
    layouts = list(layouts_of([], range(1, 9), 3))
    around = [
        [
            other
            for other in range(9)
            if other != cell and max(abs(other // 3 - cell // 3), abs(other % 3 - cell % 3)) == 1
        ]
        for cell in range(9)
    ]
    assert Sweeper(layouts, around, share=False, beliefs=10_000).revealing(range(len(layouts)), 0, 0) > 0
    with pytest.raises(LongMinesweeperSearchError):
        Sweeper(layouts, around, share=False, beliefs=3).revealing(range(len(layouts)), 0, 0)
