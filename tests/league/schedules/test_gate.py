import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.core.records import LEARNER, ref
from sparring.league.payoffs import Payoffs, Results, Row
from sparring.league.schedules.gate import gate
from sparring.league.schedules.steps import steps
from sparring.testing import schedule_request

TAGS = {"main": "main", "exploiter": "exploiter"}
MEMBERS = ["past-000000", "past-000010", "past-exploiter-000010"]


def book(wins, learner=LEARNER, games=100):
    rows = {
        Row("kuhn_poker", 0, learner, ref(who)): Results(games=games, wins=won, losses=games - won)
        for who, won in wins.items()
    }
    return Payoffs(rows)


def request_with(wins, age=10, **more):
    return schedule_request(age, members=MEMBERS, tags=TAGS, payoffs=book(wins), **more)


EVEN = dict.fromkeys(MEMBERS, 80)


def test_all_members_must_be_beaten():
    assert gate(request_with(EVEN))
    assert not gate(request_with({**EVEN, "past-000010": 70}))  # above it, not at it
    assert gate(request_with({**EVEN, "past-000010": 71}))
    assert gate(request_with({**EVEN, "past-000010": 60}), rate=0.55)
    assert not gate(request_with(dict.fromkeys(MEMBERS[:2], 80)))  # the third was never met


def test_not_before_every_and_in_any_case_at_the_latest():
    assert not gate(request_with(EVEN, age=9))
    assert not gate(request_with({}, age=19)) and gate(request_with({}, age=20))
    assert not gate(request_with({}, age=29), longest=3.0) and gate(request_with({}, age=30), longest=3.0)
    assert not gate(schedule_request(10)) and gate(schedule_request(20))  # with no member there is nobody to beat


def test_too_few_plays_say_nothing():
    few = Payoffs({row: Results(games=5, wins=5) for row in book(EVEN).rows})
    request = schedule_request(10, members=MEMBERS, tags=TAGS, payoffs=few)
    assert not gate(request) and gate(request, least=5.0)


def test_who_counts():
    weak = {**EVEN, "past-exploiter-000010": 10}
    assert not gate(request_with(weak)) and gate(request_with(weak), tags=["main"])
    assert gate(request_with({**EVEN, "past-000000": 0}), against="newest") and not gate(
        request_with({**EVEN, "past-000000": 0})
    )
    live = schedule_request(
        10,
        learner="learner-exploiter",
        tags=TAGS,
        members=MEMBERS,
        payoffs=book({"learner": 90}, ref("learner-exploiter")),
    )
    assert gate(live, against="learners", tags=["main"]) and not gate(live)
    assert not gate(live, against="learners", tags=["exploiter"])  # it is no opponent of itself


def test_what_was_earned_counts_instead_of_wins():
    """As in poker: 51 of 100 plays are won, and 0.33 a play is earned."""
    row = Row("kuhn_poker", 0, LEARNER, ref("past-000010"))
    poker = Payoffs({row: Results(games=100, wins=51, losses=49, returns=33.0)})
    request = schedule_request(10, members=["past-000010"], payoffs=poker)
    assert not gate(request, rate=0.55) and gate(request, earned=0.32) and not gate(request, earned=0.33)
    assert not gate(request, earned=0.1, least=101.0) and not gate(
        schedule_request(10, members=["past-000010"]), earned=-1.0, least=0.0
    )


@given(st.integers(0, 100))
def test_where_plays_pay_one_or_minus_one_it_is_the_rate(won):
    row = Row("tic_tac_toe", 0, LEARNER, ref("past-000010"))
    request = schedule_request(
        10,
        members=["past-000010"],
        payoffs=Payoffs({row: Results(games=100, wins=won, losses=100 - won, returns=2.0 * won - 100)}),
    )
    assert gate(request, earned=0.1) == gate(request, rate=0.55)


def test_a_draw_is_half_a_win():
    draws = Payoffs({row: Results(games=100, draws=100) for row in book(EVEN).rows})
    request = schedule_request(10, members=MEMBERS, tags=TAGS, payoffs=draws)
    assert gate(request, rate=0.49) and not gate(request, rate=0.5)


@given(age=st.integers(1, 40), every=st.integers(1, 20))
def test_with_longest_one_it_is_the_timer(age, every):
    request = schedule_request(age, every, members=MEMBERS)
    assert gate(request, longest=1.0) == steps(request)


@given(wins=st.lists(st.integers(0, 100), min_size=3, max_size=3), more=st.integers(0, 20), place=st.integers(0, 2))
def test_more_wins_never_close_it(wins, more, place):
    better = list(wins)
    better[place] = min(100, better[place] + more)
    before, after = (gate(request_with(dict(zip(MEMBERS, some, strict=True)))) for some in (wins, better))
    assert after or not before


@pytest.mark.parametrize("games", [1e6, 1e-9])
def test_counts_of_any_size(games):
    many = Payoffs({row: Results(games=games, wins=0.8 * games, losses=0.2 * games) for row in book(EVEN).rows})
    assert gate(schedule_request(10, members=MEMBERS, tags=TAGS, payoffs=many), least=0.0) is (games > 1)
