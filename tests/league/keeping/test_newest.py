from hypothesis import given
from hypothesis import strategies as st

from sparring.core.records import snapshot
from sparring.core.rng import Stream
from sparring.league.keeping.base import KeepRequest
from sparring.league.keeping.newest import newest
from sparring.league.keeping.spread import spread


def request(steps, keep):
    return KeepRequest(members=tuple(map(snapshot, steps)), keep=keep, stream=Stream.from_seed(0))


def test_by_hand():
    assert newest(request([10, 20, 30], 2)) == (snapshot(20), snapshot(30))
    assert newest(request([10], 2)) == (snapshot(10),)
    assert request([10, 20], 1).steps == (10, 20)


@given(steps=st.lists(st.integers(0, 99), min_size=1, max_size=9, unique=True).map(sorted), keep=st.integers(1, 9))
def test_nobody_who_left_is_newer_than_one_who_stayed(steps, keep):
    stayed = [member.step for member in newest(request(steps, keep))]
    leavers = set(steps) - set(stayed)
    assert len(stayed) == min(keep, len(steps)) and max(leavers, default=-1) < min(stayed)


@given(steps=st.lists(st.integers(0, 99), min_size=1, max_size=9, unique=True).map(sorted))
def test_of_one_that_stays_it_is_spread(steps):
    assert newest(request(steps, 1)) == spread(request(steps, 1))
