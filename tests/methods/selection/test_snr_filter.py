import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.methods.credit import tables

from sparring.core.errors import CreditError
from sparring.core.rng import Stream
from sparring.methods.selection.equal_groups import equal_groups
from sparring.methods.selection.snr_filter import snr_filter

STREAM = Stream.from_seed(0)


def of_gaps(*gaps):
    """Return a table with a group of two for each gap between two returns: variance gap^2 / 2."""
    return tables.table([r for gap in gaps for r in ([0.0], [gap])], groups=np.repeat(np.arange(len(gaps)), 2))


def kept_groups(turns, mask):
    return sorted(set(turns.group[mask].tolist()))


@pytest.mark.parametrize(
    ("options", "groups"),
    [
        ({"top_p": 0.6}, [3]),  # variances 0, 2, 8, 18 of 28: 18 is 64 %
        ({"top_p": 0.65}, [2, 3]),  # 26 is 93 %
        ({"top_p": 0.95}, [1, 2, 3]),
        ({"top_p": 1.0}, [1, 2, 3]),
        ({"top_p": 0.6, "score": "deviation"}, [2, 3]),  # deviations as 0, 2, 4, 6 of 12: 6 is 50 %
        ({"top_p": 0.5, "score": "deviation"}, [3]),
        ({"top_p": 1.0, "min_p": 0.4}, [2, 3]),
        ({"top_p": 1.0, "min_p": 0.5}, [3]),
        ({"top_p": 0.65, "tolerance": 1.0}, [3]),  # 18 >= 18.2 - 1
    ],
)
def test_by_hand(options, groups):
    turns = of_gaps(0.0, 2.0, 4.0, 6.0)
    assert kept_groups(turns, snr_filter(turns, STREAM, **options)) == groups


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=9), st.floats(0.05, 1.0))
def test_it_is_the_loop_over_sorted_groups(gaps, top_p):
    turns = of_gaps(*map(float, gaps))
    left, covered, number = sorted((gap * gap / 2 for gap in gaps), reverse=True), 0.0, 0
    total = sum(left)
    while left and left[0] > 0 and covered < top_p * total - 1e-9:
        covered += left.pop(0)
        number += 1
    assert len(kept_groups(turns, snr_filter(turns, STREAM, top_p=top_p))) == number


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0, 100).filter(lambda gap: gap == 0 or gap > 1e-3), min_size=1, max_size=9))
def test_at_one_it_is_the_filter_of_equal_groups(gaps):
    turns = of_gaps(*gaps)
    assert snr_filter(turns, STREAM, top_p=1.0).tolist() == equal_groups(turns, STREAM, policy="drop").tolist()


def test_hard_tables():
    assert snr_filter(tables.table([]), STREAM).shape == (0,)
    assert not snr_filter(tables.table([[1.0]]), STREAM).any()
    assert not snr_filter(of_gaps(0.0, 0.0), STREAM, tolerance=0.01).any()
    assert not snr_filter(tables.table([[0.1, 0.2], [0.3]], groups=[0, 0]), STREAM).any()
    assert snr_filter(tables.table([[1e6], [1e6 + 1]], groups=[0, 0]), STREAM).all()
    assert snr_filter(tables.table([[1e-5], [0.0], [1e-5], [0.0]], groups=[0, 0, 1, 1]), STREAM, top_p=1.0).all()
    with pytest.raises(CreditError, match=r"snr_filter.*row 1"):
        snr_filter(tables.table([[0.0, np.inf]]), STREAM)
