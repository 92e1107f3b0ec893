"""Those stay who have weight in the meta-strategy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError
from sparring.core.records import ref, refs, snapshot
from sparring.core.rng import Stream
from sparring.league.keeping.base import KeepRequest
from sparring.league.keeping.mass import mass
from sparring.league.keeping.newest import newest
from sparring.league.payoffs import Payoffs, Results, Row


def book(strength):
    rows = {}
    for one, own in strength.items():
        for other, its in strength.items():
            if one != other:
                u = (own > its) - (own < its)
                rows[Row("kuhn_poker", 0, ref(one), ref(other))] = Results(games=10, wins=10 * (u > 0), draws=10 * (u == 0), losses=10 * (u < 0), returns=10.0 * u)
    return Payoffs(rows)


def asked(steps, keep, payoffs=None, others=()):
    return KeepRequest(members=tuple(map(snapshot, steps)), keep=keep, payoffs=payoffs or Payoffs(), stream=Stream.from_seed(0), others=refs(others))


def cycle(weak):
    order = ["past-000010", "past-000020", "past-000030"]
    rows = {}
    for place, one in enumerate(order):
        for other, u in ((order[(place + 1) % 3], 1), (order[(place + 2) % 3], -1), (weak, 1)):
            rows[Row("kuhn_poker", 0, ref(one), ref(other))] = Results(games=10, wins=10 * (u > 0), losses=10 * (u < 0), returns=10.0 * u)
        rows[Row("kuhn_poker", 0, ref(weak), ref(one))] = Results(games=10, losses=10, returns=-10.0)
    return Payoffs(rows)


def test_one_that_all_others_beat_leaves():
    kept = mass(asked([10, 15, 20, 30, 40], 4, cycle("past-000015")))
    assert kept == tuple(map(snapshot, (10, 20, 30, 40)))


def test_the_newest_stays_though_it_has_met_nobody_and_of_equals_the_oldest_leaves():
    assert mass(asked([10, 20, 30], 1)) == (snapshot(30),)
    assert mass(asked([10, 20, 30], 2)) == (snapshot(20), snapshot(30))
    assert mass(asked([10], 2)) == (snapshot(10),)


def test_members_that_stay_anyway_count():
    strong = book({"past-000010": 1, "past-000020": 2, "past-000030": 0, "past-counter-000020": 3})
    alone, beside = asked([10, 20, 30], 2, strong), asked([10, 20, 30], 2, strong, ["past-counter-000020"])
    assert mass(alone) == (snapshot(20), snapshot(30))
    # the counter beats all and has all of the weight, so that the others are equals and the oldest leaves
    assert mass(beside, solver="nash") == (snapshot(20), snapshot(30))


@given(steps=st.lists(st.integers(0, 99), min_size=1, max_size=6, unique=True).map(sorted), keep=st.integers(1, 6))
def test_by_the_uniform_solver_it_is_newest(steps, keep):
    assert mass(asked(steps, keep), solver="uniform") == newest(asked(steps, keep))


def test_an_unknown_solver_is_refused():
    with pytest.raises(ConfigError, match="Did you mean 'nash'"):
        bind("league.keeping", "mass", {"solver": "nahs"})
