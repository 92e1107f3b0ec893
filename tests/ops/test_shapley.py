from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.ops.shapley import shapley_values

worths = st.integers(0, 4).flatmap(lambda n: st.lists(st.floats(-1e3, 1e3), min_size=2**n, max_size=2**n).map(np.array))


def by_orders(worth):
    """The definition: what a player adds when it joins, over all orders."""
    players = len(worth).bit_length() - 1
    orders, totals = list(permutations(range(players))), np.zeros(players)
    for order in orders:
        inside = 0
        for player in order:
            totals[player] += worth[inside | 1 << player] - worth[inside]
            inside |= 1 << player
    return totals / len(orders)


def test_gloves_by_hand():
    """One left glove (player 0), two right ones: a pair is worth 1. The left one earns 2/3."""
    assert shapley_values(np.array([0, 0, 0, 1, 0, 1, 0, 1.0])) == pytest.approx([2 / 3, 1 / 6, 1 / 6])


@given(worths)
def test_the_mean_over_all_orders_of_joining(worth):
    assert shapley_values(worth) == pytest.approx(by_orders(worth), abs=1e-9)


@given(worths)
def test_the_shares_add_up_to_what_everybody_earns_more_than_nobody(worth):
    assert shapley_values(worth).sum() == pytest.approx(worth[-1] - worth[0], abs=1e-8)


def test_a_player_who_never_adds_gets_nothing_and_equals_share_alike():
    masks = np.arange(256)
    useful = np.array([(mask & 0b111111).bit_count() for mask in masks.tolist()])
    assert shapley_values(1e6 * useful.astype(float) ** 2) == pytest.approx([6e6] * 6 + [0, 0], abs=1e-6)


def test_nine_players_are_too_many():
    with pytest.raises(AssertionError):
        shapley_values(np.zeros(512))
