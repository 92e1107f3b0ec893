import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.core.records import LEARNER, ref
from sparring.league.payoffs import Payoffs, Results, RowKey
from sparring.league.schedules.gate import gate
from sparring.league.schedules.steps import steps
from sparring.testing import schedule_request

TAGS = {"main": "main", "exploiter": "exploiter"}
MEMBERS = ["past-000000", "past-000010", "past-exploiter-000010"]


def book_of_wins(wins, learner=LEARNER, games=100):
    rows = {
        RowKey("kuhn_poker", 0, learner, ref(member)): Results(games=games, wins=num_won, losses=games - num_won)
        for member, num_won in wins.items()
    }
    return Payoffs(rows)


def request_with(wins, age=10, **options):
    return schedule_request(age, members=MEMBERS, tags=TAGS, payoffs=book_of_wins(wins), **options)


BEATS_ALL = dict.fromkeys(MEMBERS, 80)


def test_the_gate_opens_if_every_member_is_beaten():
    assert gate(request_with(BEATS_ALL))
    assert not gate(request_with({**BEATS_ALL, "past-000010": 70}))  # the rate must be above 0.7, not equal
    assert gate(request_with({**BEATS_ALL, "past-000010": 71}))
    assert gate(request_with({**BEATS_ALL, "past-000010": 60}), rate=0.55)
    assert not gate(request_with(dict.fromkeys(MEMBERS[:2], 80)))  # the third member has no results


def test_the_gate_opens_between_every_and_the_latest_step():
    assert not gate(request_with(BEATS_ALL, age=9))
    assert not gate(request_with({}, age=19)) and gate(request_with({}, age=20))
    assert not gate(request_with({}, age=29), longest=3.0) and gate(request_with({}, age=30), longest=3.0)
    # without members only the timer opens the gate
    assert not gate(schedule_request(10)) and gate(schedule_request(20))


def test_too_few_games_do_not_count():
    few_games = Payoffs({row: Results(games=5, wins=5) for row in book_of_wins(BEATS_ALL).rows})
    request = schedule_request(10, members=MEMBERS, tags=TAGS, payoffs=few_games)
    assert not gate(request) and gate(request, least=5.0)


def test_options_choose_which_members_count():
    weak_exploiter = {**BEATS_ALL, "past-exploiter-000010": 10}
    assert not gate(request_with(weak_exploiter)) and gate(request_with(weak_exploiter), tags=["main"])
    assert gate(request_with({**BEATS_ALL, "past-000000": 0}), against="newest") and not gate(
        request_with({**BEATS_ALL, "past-000000": 0})
    )
    against_learners = schedule_request(
        10,
        learner="learner-exploiter",
        tags=TAGS,
        members=MEMBERS,
        payoffs=book_of_wins({"learner": 90}, ref("learner-exploiter")),
    )
    assert gate(against_learners, against="learners", tags=["main"]) and not gate(against_learners)
    assert not gate(against_learners, against="learners", tags=["exploiter"])  # the learner is no opponent of itself


def test_earned_compares_the_mean_return_instead_of_wins():
    """As in poker: 51 of 100 games are won, but the mean return is 0.33."""
    row = RowKey("kuhn_poker", 0, LEARNER, ref("past-000010"))
    poker_book = Payoffs({row: Results(games=100, wins=51, losses=49, returns=33.0)})
    request = schedule_request(10, members=["past-000010"], payoffs=poker_book)
    assert not gate(request, rate=0.55) and gate(request, earned=0.32) and not gate(request, earned=0.33)
    assert not gate(request, earned=0.1, least=101.0) and not gate(
        schedule_request(10, members=["past-000010"]), earned=-1.0, least=0.0
    )


@given(st.integers(0, 100))
def test_for_returns_of_1_and_minus_1_earned_equals_the_rate(num_won):
    row = RowKey("tic_tac_toe", 0, LEARNER, ref("past-000010"))
    request = schedule_request(
        10,
        members=["past-000010"],
        payoffs=Payoffs({row: Results(games=100, wins=num_won, losses=100 - num_won, returns=2.0 * num_won - 100)}),
    )
    assert gate(request, earned=0.1) == gate(request, rate=0.55)


def test_a_draw_counts_as_half_a_win():
    drawn_book = Payoffs({row: Results(games=100, draws=100) for row in book_of_wins(BEATS_ALL).rows})
    request = schedule_request(10, members=MEMBERS, tags=TAGS, payoffs=drawn_book)
    assert gate(request, rate=0.49) and not gate(request, rate=0.5)


@given(age=st.integers(1, 40), every=st.integers(1, 20))
def test_with_longest_1_gate_equals_the_schedule_steps(age, every):
    request = schedule_request(age, every, members=MEMBERS)
    assert gate(request, longest=1.0) == steps(request)


@given(wins=st.lists(st.integers(0, 100), min_size=3, max_size=3), num_more=st.integers(0, 20), index=st.integers(0, 2))
def test_more_wins_never_close_the_gate(wins, num_more, index):
    more_wins = list(wins)
    more_wins[index] = min(100, more_wins[index] + num_more)
    is_open, is_open_with_more = (
        gate(request_with(dict(zip(MEMBERS, win_counts, strict=True)))) for win_counts in (wins, more_wins)
    )
    assert is_open_with_more or not is_open


@pytest.mark.parametrize("games", [1e6, 1e-9])
def test_very_large_and_very_small_counts_of_games_work(games):
    scaled_book = Payoffs(
        {row: Results(games=games, wins=0.8 * games, losses=0.2 * games) for row in book_of_wins(BEATS_ALL).rows}
    )
    assert gate(schedule_request(10, members=MEMBERS, tags=TAGS, payoffs=scaled_book), least=0.0) is (games > 1)
