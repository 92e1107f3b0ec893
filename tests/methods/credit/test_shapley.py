import dataclasses
import json
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import table

from sparring.core.errors import CreditError
from sparring.methods.credit.outcome import outcome
from sparring.methods.credit.shapley import shapley


def played(coalitions, worths, seats_get=None):
    """One episode of one turn per trained seat for each coalition; every seat is paid the episode's worth."""
    rewards = [[worth] for coalition, worth in zip(coalitions, worths, strict=True) for _ in coalition]
    seats = [seat for coalition in coalitions for seat in coalition]
    turns = table(rewards if seats_get is None else seats_get, seats=seats, roles=[0] * len(seats))
    episodes = [number for number, coalition in enumerate(coalitions) for _ in coalition]
    return dataclasses.replace(turns, episode=np.array(episodes, dtype=np.int64))


KNOWN = {"game": {"0": [2.0, 2.0], "1": [1.0, 4.0]}}


def test_by_hand_two_seats_whose_parts_are_known():
    """v(0) = 1, v(1) = 4, this episode 7: seat 0 adds 1 first or 3 last, seat 1 adds 4 first or 6 last."""
    credit = shapley(played([(0, 1)], [7.0]), KNOWN)
    assert credit.advantages == pytest.approx([2.0, 5.0])
    assert shapley(played([(0, 1)], [7.0]), KNOWN, empty=2.0).advantages == pytest.approx([1.0, 4.0])


def test_state_holds_sums_per_coalition_and_metrics_the_values():
    credit = shapley(played([(0, 1), (1,), (1,)], [7.0, 3.0, 5.0]), KNOWN, decay=0.5)
    assert credit.state == {"game": {"0": [1.0, 1.0], "1": [2.5, 10.0], "0,1": [1.0, 7.0]}}
    assert credit.metrics == {"value/game/0": pytest.approx(2.0), "value/game/1": pytest.approx(5.0)}
    assert KNOWN == {"game": {"0": [2.0, 2.0], "1": [1.0, 4.0]}}


def test_the_gloves_of_the_textbook():
    state = {"game": {name: [1.0, worth] for name, worth in {"0": 0, "3": 0, "5": 0, "0,3": 1, "0,5": 1, "3,5": 0}.items()}}
    assert shapley(played([(0, 3, 5)], [1.0]), state).advantages == pytest.approx([2 / 3, 1 / 6, 1 / 6])


def test_unseen_coalitions_go_by_size():
    """Nothing known of three seats: a straight line from 0 to 6. With the pair 0,1 known all pairs are worth as much."""
    assert shapley(played([(0, 1, 2)], [6.0]), {}).advantages == pytest.approx([2, 2, 2])
    state = {"game": {"0": [1.0, 3.0], "0,1": [1.0, 4.0]}}
    # v(0) = 3 stands for 1 and 2 too; v(0,1) = 4 for all pairs: equal seats
    assert shapley(played([(0, 1, 2)], [6.0]), state).advantages == pytest.approx([2, 2, 2])
    state = {"game": {"0": [1.0, 3.0], "1": [1.0, 0.0]}}
    # v(2) = 1.5, and pairs lie half-way from the mean of singles 1.5 to 6
    assert shapley(played([(0, 1, 2)], [6.0]), state).advantages == pytest.approx(
        naive({1: 3, 2: 0, 4: 1.5, 3: 3.75, 5: 3.75, 6: 3.75, 7: 6})
    )


def naive(worth):
    orders = list(permutations(range(3)))
    totals = [0.0] * 3
    for order in orders:
        inside = 0
        for seat in order:
            totals[seat] += (worth[inside | 1 << seat] - worth.get(inside, 0.0)) / len(orders)
            inside |= 1 << seat
    return totals


@given(st.lists(st.floats(-100, 100), min_size=6, max_size=6), st.floats(-100, 100), st.floats(-5, 5))
def test_shares_of_an_episode_add_up_to_its_worth(means, worth, empty):
    state = {"game": {name: [2.0, 2 * mean] for name, mean in zip(["0", "1", "2", "0,1", "0,2", "1,2"], means, strict=True)}}
    credit = shapley(played([(0, 1, 2)], [worth]), state, empty=empty)
    assert credit.advantages.sum() == pytest.approx(worth - empty, abs=1e-8)
    masks = dict(zip([1, 2, 4, 3, 5, 6], means, strict=True))
    assert credit.advantages == pytest.approx(naive({0: empty, **masks, 7: worth}), abs=1e-8)


@given(st.lists(st.lists(st.floats(-10, 10), min_size=1, max_size=3), max_size=6))
def test_a_seat_alone_is_the_plain_outcome(rewards):
    turns = table(rewards)
    assert shapley(turns, {}).advantages == pytest.approx(outcome(turns).advantages)


def test_worth_is_the_teams_payoff_or_the_sum_of_own_ones():
    turns = played([(0, 1)], [0.0], seats_get=[[2.0], [4.0]])
    assert shapley(turns, {}).advantages == pytest.approx([1.5, 1.5])
    assert shapley(turns, {}, worth="sum").advantages == pytest.approx([3.0, 3.0])


def test_with_the_baseline_seats_share_what_was_more_than_expected():
    state = {"game": {**KNOWN["game"], "0,1": [2.0, 12.0]}}
    assert shapley(played([(0, 1)], [7.0]), state, baseline=True).advantages == pytest.approx([0.5, 0.5])
    assert shapley(played([(0, 1)], [7.0]), KNOWN, baseline=True).advantages == pytest.approx([3.5, 3.5])  # never seen: 0
    plain, above = (shapley(played([(0, 1)] * 2, [7.0, 9.0]), state, baseline=flag).advantages for flag in (False, True))
    assert plain[:2] - above[:2] == pytest.approx(plain[2:] - above[2:])  # the same for every episode: no bias


@given(st.lists(st.sampled_from([(0,), (1,), (0, 2), (0, 1, 2)]), min_size=1, max_size=8), st.integers(0, 99))
def test_batches_one_by_one_sum_up_as_one(coalitions, seed):
    worths = np.random.Generator(np.random.Philox(seed)).normal(size=len(coalitions)).tolist()
    whole, state = shapley(played(coalitions, worths), {}, decay=1.0).state, {}
    for coalition, worth in zip(coalitions, worths, strict=True):
        state = json.loads(json.dumps(shapley(played([coalition], [worth]), state, decay=1.0).state))
    assert state["game"].keys() == whole["game"].keys()
    for name, entry in state["game"].items():
        assert entry == pytest.approx(whole["game"][name])


def test_games_are_kept_apart():
    turns = dataclasses.replace(played([(0, 1)], [7.0]), game=np.array([1, 1]))
    assert shapley(turns, KNOWN).advantages == pytest.approx([3.5, 3.5])


def test_large_worths_and_no_turns():
    assert shapley(played([(0, 1)], [1e6]), {}).advantages == pytest.approx([5e5, 5e5])
    assert shapley(table([]), KNOWN, decay=1.0).state == KNOWN


def test_nine_learning_seats_are_refused():
    with pytest.raises(CreditError, match="9 seats"):
        shapley(played([tuple(range(9))], [1.0]), {})
