"""A sealed auction: private values and simultaneous bids."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.core.rng import Stream
from sparring.environments.sealed_auction import Auction, sealed_auction
from tests.environments.worlds import make_contract_test

test_environment_contract = make_contract_test(
    sealed_auction, [{}, {"style": "full", "seats": 3, "price": "second"}, {"largest": 1, "deals": 1}], plays=10
)


@pytest.mark.parametrize(
    ("price", "values", "bids", "returns"),
    [
        ("first", (7, 4), (5, 3), (2.0, 0.0)),
        ("second", (7, 4), (5, 3), (4.0, 0.0)),
        ("first", (2, 9), (6, 5), (-4.0, 0.0)),
        ("second", (2, 9, 9), (1, 8, 3), (0.0, 6.0, 0.0)),
        ("first", (0, 0), (0, 10), (0.0, -10.0)),
    ],
)
def test_payoffs_by_hand(price, values, bids, returns):
    episode = Auction(sealed_auction(seats=len(values), price=price), values, Stream.from_seed(0))
    assert episode.due() == tuple(range(len(values)))
    episode.step({seat: str(bid) for seat, bid in enumerate(bids)})
    assert episode.returns == returns and episode.done


def test_ties_are_random_and_values_are_private():
    rules, num_wins = sealed_auction(), [0, 0]
    for seed in range(400):
        episode = Auction(rules, (5, 5), Stream.from_seed(seed))
        episode.step({0: "3", 1: "3"})
        num_wins[episode.winner] += 1
        assert sorted(episode.returns) == [0.0, 2.0] and episode.returns == episode.clone().returns
    assert 150 < num_wins[0] < 250
    observations = [
        Auction(sealed_auction(style="full"), (7, other_value), Stream.from_seed(0)).observe(0)
        for other_value in (1, 9)
    ]
    assert observations[0] == observations[1] and "worth 7 to you" in observations[0].text


@given(
    values=st.lists(st.integers(0, 10), min_size=2, max_size=2), other_bid=st.integers(0, 10), bid=st.integers(0, 10)
)
def test_bidding_the_own_value_is_optimal_with_a_second_price(values, other_bid, bid):
    rules = sealed_auction(price="second")

    def payoff(own_bid):
        episode = Auction(rules, tuple(values), Stream.from_seed(0), (own_bid, other_bid))
        return (
            values[0] - other_bid
            if own_bid > other_bid
            else 0.0
            if own_bid < other_bid
            else max(episode.returns[0], values[0] - other_bid, 0.0)
        )

    assert max(payoff(values[0]), 0.0) >= payoff(bid) or bid == other_bid
