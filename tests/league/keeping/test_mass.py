import itertools

from hypothesis import given
from hypothesis import strategies as st

from sparring.core.records import ref, refs, snapshot
from sparring.core.rng import Stream
from sparring.league.keeping.base import KeepRequest
from sparring.league.keeping.mass import mass
from sparring.league.keeping.newest import newest
from sparring.league.payoffs import Payoffs, Results, RowKey


def book_of_strengths(strength):
    rows = {}
    for (player, player_strength), (opponent, opponent_strength) in itertools.permutations(strength.items(), 2):
        payoff = (player_strength > opponent_strength) - (player_strength < opponent_strength)
        rows[RowKey("kuhn_poker", 0, ref(player), ref(opponent))] = Results(
            games=10, wins=10 * (payoff > 0), draws=10 * (payoff == 0), losses=10 * (payoff < 0), returns=10.0 * payoff
        )
    return Payoffs(rows)


def request(steps, keep, payoffs=None, others=()):
    return KeepRequest(
        members=tuple(map(snapshot, steps)),
        keep=keep,
        payoffs=payoffs or Payoffs(),
        stream=Stream.from_seed(0),
        permanent_members=refs(others),
    )


def test_a_member_that_loses_to_all_others_leaves():
    # past-000015 loses to all; 10, 20 and 30 beat each other in a cycle, as rock, paper and scissors
    payoffs = book_of_strengths(dict.fromkeys(["past-000010", "past-000020", "past-000030"], 1) | {"past-000015": 0})
    for winner, loser in ((10, 20), (20, 30), (30, 10)):
        payoffs.rows[RowKey("kuhn_poker", 0, snapshot(winner), snapshot(loser))] = Results(
            games=10, wins=10, returns=10.0
        )
        payoffs.rows[RowKey("kuhn_poker", 0, snapshot(loser), snapshot(winner))] = Results(
            games=10, losses=10, returns=-10.0
        )
    assert mass(request([10, 15, 20, 30, 40], 4, payoffs)) == tuple(map(snapshot, (10, 20, 30, 40)))


def test_the_newest_stays_without_results_and_the_oldest_of_equals_leaves():
    assert mass(request([10, 20, 30], 1)) == (snapshot(30),)
    assert mass(request([10, 20, 30], 2)) == (snapshot(20), snapshot(30))
    assert mass(request([10], 2)) == (snapshot(10),)


def test_members_outside_the_choice_count_in_the_meta_game():
    payoffs = book_of_strengths({"past-000010": 1, "past-000020": 2, "past-000030": 0, "past-counter-000020": 3})
    request_alone, request_with_counter = (
        request([10, 20, 30], 2, payoffs),
        request([10, 20, 30], 2, payoffs, ["past-counter-000020"]),
    )
    assert mass(request_alone) == (snapshot(20), snapshot(30))
    # the counter beats all members and has weight 1; the other weights are equal, so the oldest member leaves
    assert mass(request_with_counter, solver="nash") == (snapshot(20), snapshot(30))


@given(steps=st.lists(st.integers(0, 99), min_size=1, max_size=6, unique=True).map(sorted), keep=st.integers(1, 6))
def test_with_the_uniform_solver_mass_equals_newest(steps, keep):
    assert mass(request(steps, keep), solver="uniform") == newest(request(steps, keep))
