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


def test_by_hand():
    assert kept_steps([10, 20, 30], 3) == [10, 20, 30]
    assert kept_steps([10, 20, 30, 70, 80], 4) == [10, 30, 70, 80]  # 20 lies between 10 and 30: a gap of 20
    assert kept_steps([10, 20, 30, 40], 3) == [10, 30, 40]  # the first of equals
    assert kept_steps([10, 20], 1) == [20]
    assert kept_steps([10, 20, 30, 40], 1) == [40]


def before(names, keep):
    """The rule as the engine had it, at 4624d02."""
    past = dict.fromkeys(names)
    while len(past) > keep:
        names = list(past)
        ages = [int(member.rsplit("-", 1)[1]) for member in names]
        gaps = [ages[i + 1] - ages[i - 1] for i in range(1, len(ages) - 1)]
        del past[names[1 + gaps.index(min(gaps))] if gaps else names[0]]
    return list(past)


@given(steps=st.lists(st.integers(0, 10**6), min_size=1, max_size=12, unique=True).map(sorted), keep=st.integers(1, 12))
def test_it_is_the_rule_of_before(steps, keep):
    assert [f"past-{step:06d}" for step in kept_steps(steps, keep)] == before(
        [f"past-{step:06d}" for step in steps], keep
    )


@pytest.mark.parametrize("keep", [2, 5])
def test_one_after_another_the_oldest_and_the_newest_stay_and_the_rest_is_spread(keep):
    steps = []
    for step in range(1, 41):
        steps = kept_steps([*steps, step], keep)
        assert len(steps) == min(step, keep) and steps[-1] == step and steps == sorted(steps)
    assert steps[0] == 1
    assert keep == 2 or max(np.diff(steps)) <= 20
