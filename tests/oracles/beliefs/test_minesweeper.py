"""Entropy of where mines lie, against counting all layouts; the posterior's values are tested in tests/oracles/test_posterior.py."""

import itertools
from math import comb, log

import pytest

from sparring import registry
from sparring.errors import OracleError
from sparring.games.catalogue import make_game
from sparring.games.minesweeper_table import Minefield, mines_of, order_of
from sparring.oracles.beliefs.minesweeper import mine_probabilities
from sparring.rng import Stream


def belief(state, prior):
    return registry.bind("oracles.beliefs", "minesweeper", {"prior": prior})(state)


def near(table, cell):
    """Return the cells around a cell, by coordinates."""
    places = itertools.product(range(table.rows), range(table.columns))
    return {r * table.columns + c for r, c in places if max(abs(r - cell // table.columns), abs(c - cell % table.columns)) == 1}


@pytest.mark.parametrize("prior", ["uniform", "bank"])
@pytest.mark.parametrize("flags", [False, True])
def test_entropy_is_the_logarithm_of_the_layouts_that_agree(prior, flags):
    made = make_game("minesweeper", options={"rows": 3, "columns": 4, "mines": 3, "layouts": 90, "flags": flags})
    for seed in range(12):
        state, draws = made.reset(Stream.from_seed(seed)), Stream.from_seed(seed).child("play")
        while not state.done:
            table = state.spiel.table
            if not table.moves:
                layouts = range(90) if prior == "bank" else range(comb(11, 3))
                assert belief(state, prior).entropy == pytest.approx(log(len(layouts)))
            else:
                every = (
                    [mines_of(order_of(12, 0, number), 3, table.moves[0]) for number in range(90)]
                    if prior == "bank"
                    else list(map(frozenset, itertools.combinations(range(12), 3)))
                )
                agree = [
                    mined
                    for mined in every
                    if not mined & table.opened
                    and mined >= table.flagged
                    and all(len(near(table, cell) & mined) == int(table.sign(cell)) for cell in table.opened)
                ]
                assert belief(state, prior).entropy == pytest.approx(log(len(agree)), abs=1e-12)
            legal = state.legal_actions()
            state.apply(legal[draws.integer(state.plies, len(legal))])


def test_a_board_that_agrees_with_no_layout_is_refused():
    wrong = Minefield(
        1,
        4,
        1,
        1,
        0,
        flags=False,
        share=False,
        order=(0, 1, 2, 3),
        mined=frozenset({0, 2}),
        moves=(1,),
        found=((1,),),
        opened=frozenset({1}),
    )
    for prior in ("uniform", "bank"):  # the count 2 needs two mines, and there is one
        with pytest.raises(OracleError, match="no layout agrees"):
            mine_probabilities(wrong, prior)
