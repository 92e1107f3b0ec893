"""Nim judged by minimax is nim judged by its theory: Bouton's, in normal and in misere play."""

from functools import reduce
from operator import xor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.methods.oracles.positions import played, solved_actions

from sparring.config.plugins import registry
from sparring.environments.catalogue import make_game


def made(sizes, misere):
    return make_game("nim", options={"pile_sizes": ";".join(map(str, sizes)), "is_misere": misere})


def lost(piles, misere):
    """Return whether the seat to act loses: by the exclusive or of the piles, and by their number if none has more than one stone."""
    if misere and max(piles) <= 1:
        return sum(piles) % 2 == 1
    return reduce(xor, piles) == 0


def theory(state, misere):
    """Return the value of each legal action: taking to a position that is lost for the other seat wins."""
    values = []
    for word in state.legal_actions():
        piles = list(state.game.piles(state))
        piles["abcdefgh".index(word[0])] -= int(word[1:])
        values.append(1.0 if lost(piles, misere) else -1.0)
    return tuple(values)


def check(sizes, misere, plays, seed=0):
    """Compare the oracle with the theory on the states of random plays; return the states."""
    states = played(made(sizes, misere), plays, seed=seed)
    for state, found in zip(states, registry.bind("oracles", "minimax", {})().judge(states), strict=True):
        values = theory(state, misere)
        assert found.values == values
        assert found.best == {word for word, value in zip(state.legal_actions(), values, strict=True) if value == max(values)}
        assert (found.certainty, found.bound) == (1.0, 0.0)
        assert (max(values) < 0) == lost(state.game.piles(state), misere)
    return states


@pytest.mark.parametrize("misere", [False, True], ids=["normal", "misere"])
@pytest.mark.parametrize("sizes", [(1,), (5,), (1, 1), (1, 1, 1), (1, 2), (1, 2, 3), (2, 2, 4), (1, 3, 5, 7)], ids=str)
def test_the_best_moves_are_those_of_the_theory(sizes, misere):
    check(sizes, misere, 40)


@settings(max_examples=25, deadline=None)
@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4), misere=st.booleans(), seed=st.integers(0, 999))
def test_the_best_moves_of_any_piles_are_those_of_the_theory(sizes, misere, seed):
    check(sizes, misere, 4, seed)


@pytest.mark.parametrize("misere", [False, True], ids=["normal", "misere"])
def test_the_theory_is_that_of_brute_force(misere):
    for state in played(made((1, 2, 3), misere), 10):
        assert theory(state, misere) == solved_actions(state)


def test_normal_and_misere_play_part_only_when_small():
    part = {state.game.piles(state) for state in check((1, 2, 3), True, 60) if theory(state, True) != theory(state, False)}
    assert part and all(sum(size > 1 for size in piles) <= 1 for piles in part)
