import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.core.records import snapshot
from sparring.core.rng import Stream
from sparring.league.keeping.base import KeepRequest
from sparring.league.keeping.spread import spread


def kept_steps(steps, keep):
    members = tuple(map(snapshot, steps))
    return [member.step for member in spread(KeepRequest(members=members, keep=keep, stream=Stream.from_seed(0)))]


def test_the_kept_steps_by_hand():
    assert kept_steps([10, 20, 30], 3) == [10, 20, 30]
    # 20 leaves: its neighbours 10 and 30 are the closest
    assert kept_steps([10, 20, 30, 70, 80], 4) == [
        10,
        30,
        70,
        80,
    ]
    assert kept_steps([10, 20, 30, 40], 3) == [10, 30, 40]  # 20 and 30 are equal, so the older leaves
    assert kept_steps([10, 20], 1) == [20]
    assert kept_steps([10, 20, 30, 40], 1) == [40]


def spread_of_first_version(names, keep):
    """Return the names that the rule keeps, as commit 4624d02 computed it."""
    remaining = dict.fromkeys(names)
    while len(remaining) > keep:
        names = list(remaining)
        ages = [int(member.rsplit("-", 1)[1]) for member in names]
        gaps = [ages[i + 1] - ages[i - 1] for i in range(1, len(ages) - 1)]
        del remaining[names[1 + gaps.index(min(gaps))] if gaps else names[0]]
    return list(remaining)


@given(steps=st.lists(st.integers(0, 10**6), min_size=1, max_size=12, unique=True).map(sorted), keep=st.integers(1, 12))
def test_spread_equals_the_first_version_of_the_rule(steps, keep):
    assert [f"past-{step:06d}" for step in kept_steps(steps, keep)] == spread_of_first_version(
        [f"past-{step:06d}" for step in steps], keep
    )


@pytest.mark.parametrize("keep", [2, 5])
def test_repeated_use_keeps_the_oldest_the_newest_and_even_gaps(keep):
    steps = []
    for step in range(1, 41):
        steps = kept_steps([*steps, step], keep)
        assert len(steps) == min(step, keep) and steps[-1] == step and steps == sorted(steps)
    assert steps[0] == 1
    assert keep == 2 or max(np.diff(steps)) <= 20
