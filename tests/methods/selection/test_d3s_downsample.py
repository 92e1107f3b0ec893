from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.methods.credit import tables

from sparring.core.errors import CreditError
from sparring.core.rng import Stream
from sparring.methods.selection.d3s_downsample import d3s_downsample

STREAM = Stream.from_seed(0)


def advantages(turns):
    returns = np.bincount(turns.trajectory, weights=turns.reward)
    groups = turns.group[np.unique(turns.trajectory, return_index=True)[1]]
    return np.array([r - returns[groups == g].mean() for r, g in zip(returns, groups, strict=True)])


@pytest.mark.parametrize(
    ("share", "kept"),
    [(0.5, [0, 1, 4, 5]), (0.3, [0, 1, 5]), (0.25, [0, 5]), (0.01, [None]), (1.0, [0, 1, 2, 3, 4, 5, 6, 7])],
)
def test_by_hand(share, kept):
    """Advantages -4, -2, 0, 0, 3, 6, -1.5, -1.5; of three, -4, -2, 6 vary by 56 in sum of squares, -4, 3, 6 by 52.7."""
    turns = tables.table([[0.0], [2.0], [4.0], [4.0], [7.0], [10.0, 0.0], [2.5], [2.5]], groups=[0] * 8)
    rows = d3s_downsample(turns, STREAM, share=share)
    found = sorted(set(turns.trajectory[rows].tolist()))
    assert len(found) == len(kept)
    if None not in kept:
        assert found == kept


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-5, 5)), min_size=1, max_size=9), st.floats(0.05, 1.0))
def test_no_subset_of_the_size_varies_more(trajectories, share):
    turns = tables.table([[float(r)] for _, r in trajectories], groups=[g for g, _ in trajectories])
    mask, values = d3s_downsample(turns, STREAM, share=share), advantages(turns)
    size = int(mask.sum())
    assert size == max(1, int(np.ceil(share * len(values) - 1e-9)))
    best = max(np.var([values[i] for i in subset]) for subset in combinations(range(len(values)), size))
    assert np.var(values[mask]) == pytest.approx(best, abs=1e-9)


def test_equals_are_drawn_and_more_comes_from_the_top():
    turns = tables.table([[1.0], [1.0], [-1.0], [-1.0], [-1.0], [1.0]], groups=[0] * 6)
    picked = {tuple(d3s_downsample(turns, Stream.from_seed(s), share=0.5).tolist()) for s in range(30)}
    assert len(picked) > 5
    for mask in picked:
        assert sorted(turns.reward[list(mask)].tolist()) == [-1.0, 1.0, 1.0]


def test_hard_tables():
    assert d3s_downsample(tables.table([]), STREAM).shape == (0,)
    assert d3s_downsample(tables.table([[5.0]]), STREAM).all()
    assert d3s_downsample(tables.table([[1.0]] * 4, groups=[0] * 4), STREAM).sum() == 2
    turns = tables.table([[1e6], [1e6 + 1], [1e6 + 0.5], [1e6 + 0.5]], groups=[0] * 4)
    assert d3s_downsample(turns, STREAM).tolist() == [True, True, False, False]
    with pytest.raises(CreditError, match=r"d3s_downsample.*row 0"):
        d3s_downsample(tables.table([[np.nan]]), STREAM)
