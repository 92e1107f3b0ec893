import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.methods.selection.curricula.requests import record, request

from sparring.methods.selection.curricula.xrpo_allocator import xrpo_allocator


def naive(known, groups, size, exploration, confidence):
    """Return the greedy allocation over (n, s) pairs, all priorities different."""
    counts, chosen = [n for n, _ in known], []
    for _ in range(groups):

        def half(n, s):
            return stats.t.ppf((1 + confidence) / 2, n - 1) * s / np.sqrt(n)

        total = sum(counts)
        found = [
            half(n, s) - half(n + 1, s) + exploration * np.sqrt(np.log(1 + total) / n) for n, (_, s) in zip(counts, known, strict=True)
        ]
        best = int(np.argmax(found))
        chosen.append(best)
        counts[best] += size
    return chosen


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(2, 30), st.floats(0.01, 5)), min_size=1, max_size=5, unique_by=(lambda a: a[0], lambda a: round(a[1], 2))
    ),
    st.integers(1, 12),
    st.sampled_from([0.0, 0.5, 2.0]),
    st.sampled_from([0.5, 0.95]),
)
def test_it_is_the_greedy_loop(known, groups, exploration, confidence):
    history = [[record(size=n, deviation=s * np.sqrt((n - 1) / n))] for n, s in known]
    size = max(1, round(sum(n for n, _ in known) / len(known)))
    chosen = xrpo_allocator(request(*history, groups=groups), exploration=exploration, confidence=confidence)
    assert chosen.tolist() == naive(known, groups, size, exploration, confidence)


def test_by_hand():
    """h(4) - h(5) at deviation 2: 3.1824 * 1 - 2.7764 * 0.8944 = 0.6991."""
    varied, settled, short = [record(size=4, deviation=np.sqrt(3.0))], [record(size=4, deviation=0.0)], [record(size=2, deviation=0.0)]
    assert xrpo_allocator(request(varied, settled, groups=5), exploration=0.0).tolist() == [0] * 5
    bonus = np.sqrt(np.log(7.0)) * (np.sqrt(1 / 2) - np.sqrt(1 / 4))  # what the arm known less has more
    for exploration, first in ((0.6991 / bonus * 0.99, 0), (0.6991 / bonus * 1.01, 1)):
        assert xrpo_allocator(request(varied, short), exploration=exploration).tolist() == [first]


def test_arms_never_played_come_first_and_equal_ones_in_turn():
    varied = [record(size=4, deviation=5.0)]
    assert xrpo_allocator(request(varied, [], [record(size=1)], groups=2)).tolist() != [0, 0]
    assert set(xrpo_allocator(request(varied, [], [record(size=1)], groups=2)).tolist()) == {1, 2}
    assert sorted(xrpo_allocator(request([], [], [], groups=6, step=0)).tolist()) == [0, 0, 1, 1, 2, 2]
    assert sorted(xrpo_allocator(request([], [], [], groups=3, step=0)).tolist()) == [0, 1, 2]
    assert len({xrpo_allocator(request([], [], [], seed=seed))[0] for seed in range(20)}) == 3


def test_only_the_latest_records_count():
    history = [[record(size=4, deviation=9.0), record(size=4, deviation=0.0)], [record(size=4, deviation=1.0)]]
    assert xrpo_allocator(request(*history), window=1, exploration=0.0).tolist() == [1]
    assert xrpo_allocator(request(*history), window=2, exploration=0.0).tolist() == [0]
