from hypothesis import given
from hypothesis import strategies as st

from sparring.core.records import snapshot
from sparring.core.rng import Stream
from sparring.league.keeping.base import KeepRequest
from sparring.league.keeping.newest import newest
from sparring.league.keeping.spread import spread


def request(steps, keep):
    return KeepRequest(members=tuple(map(snapshot, steps)), keep=keep, stream=Stream.from_seed(0))


def test_the_newest_members_stay():
    assert newest(request([10, 20, 30], 2)) == (snapshot(20), snapshot(30))
    assert newest(request([10], 2)) == (snapshot(10),)
    assert request([10, 20], 1).steps == (10, 20)


@given(steps=st.lists(st.integers(0, 99), min_size=1, max_size=9, unique=True).map(sorted), keep=st.integers(1, 9))
def test_every_kept_member_is_newer_than_every_dropped_one(steps, keep):
    kept_steps = [member.step for member in newest(request(steps, keep))]
    dropped_steps = set(steps) - set(kept_steps)
    assert len(kept_steps) == min(keep, len(steps)) and max(dropped_steps, default=-1) < min(kept_steps)


@given(steps=st.lists(st.integers(0, 99), min_size=1, max_size=9, unique=True).map(sorted))
def test_with_keep_1_newest_equals_spread(steps):
    assert newest(request(steps, 1)) == spread(request(steps, 1))
