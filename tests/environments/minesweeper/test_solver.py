"""Entropy of where mines lie, against counting all layouts; the posterior's values are tested in tests/methods/oracles/test_puzzles.py."""

import itertools
from math import comb, log

import pytest

from sparring.config.plugins import registry
from sparring.config.plugins.registry import load_part
from sparring.core.errors import OracleError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.environments.minesweeper import Minefield, mines_of, order_of
from sparring.environments.minesweeper.solver import mine_probabilities


def belief(state, prior):
    return registry.with_options(load_part("environments", "minesweeper", "solver"), {"prior": prior})(state)


def near(table, cell):
    places = itertools.product(range(table.rows), range(table.columns))
    return {
        r * table.columns + c
        for r, c in places
        if max(abs(r - cell // table.columns), abs(c - cell % table.columns)) == 1
    }


@pytest.mark.parametrize("prior", ["uniform", "bank"])
@pytest.mark.parametrize("flags", [False, True])
def test_entropy_is_the_logarithm_of_the_layouts_that_agree(prior, flags):
    environment = make_game("minesweeper", options={"rows": 3, "columns": 4, "mines": 3, "layouts": 90, "flags": flags})
    for seed in range(12):
        state, draws = environment.reset(Stream.from_seed(seed)), Stream.from_seed(seed).child("play")
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


def test_boards_and_games_that_are_refused_or_left_out():
    wrong = Minefield(
        rows=1,
        columns=4,
        mines=1,
        layouts=1,
        order=(0, 1, 2, 3),
        mined=frozenset({0, 2}),
        moves=(1,),
        opened_by_move=((1,),),
        opened=frozenset({1}),
    )
    for prior in ("uniform", "bank"):  # the count 2 needs two mines, and there is one
        with pytest.raises(OracleError, match="no layout agrees"):
            mine_probabilities(wrong, prior)

    def judged(flags=False, **options):
        environment = make_game(
            "minesweeper", options={"rows": 3, "columns": 4, "mines": 2, "layouts": 90, "flags": flags}
        )
        return registry.with_options(load_part("environments", "minesweeper", "solver"), options)(
            environment.reset(Stream.from_seed(0))
        )

    safest, best = judged(), judged(worlds=55)
    assert set(safest.values) == {1.0} and safest.bound == 1.0
    assert (
        max(best.values) == pytest.approx(52 / 55) and best.bound == 0.0
    )  # corners, and the cells in the middle of the long side
    assert [cell for cell, value in enumerate(best.values) if value == max(best.values)] == [0, 3, 5, 6, 8, 11]
    assert best.entropy == safest.entropy == pytest.approx(log(55))
    for left_out in (judged(worlds=54), judged(worlds=55, beliefs=3)):
        assert left_out == safest
    assert judged(flags=True, worlds=55) == judged(flags=True)


def best_value(layouts, opened, cells, pays):
    """Return what best play gets, summed over layouts, by plain recursion: every closed cell is tried, what it shows parts the layouts."""
    if opened == cells - layouts[0]:
        return len(layouts) * pays(len(opened), True)
    return max(revealed(layouts, opened, cell, cells, pays) for cell in cells - opened)


def revealed(layouts, opened, cell, cells, pays):
    total, parts = 0, {}
    for mined in layouts:
        if cell in mined:
            total += pays(len(opened), False)
            continue
        after, waiting = set(opened) | {cell}, [cell]
        while waiting:
            at = waiting.pop()
            if not AROUND[at] & mined:
                waiting += AROUND[at] - after
                after |= AROUND[at]
        counts = tuple(sorted((other, len(AROUND[other] & mined)) for other in after))
        parts.setdefault((frozenset(after), counts), []).append(mined)
    return total + sum(best_value(some, after, cells, pays) for (after, _), some in parts.items())


FIELD = {"rows": 2, "columns": 3, "mines": 2}
AROUND = [near(Minefield(rows=2, columns=3, mines=2), cell) for cell in range(6)]


@pytest.mark.parametrize("pay", ["cleared", "share"])
@pytest.mark.parametrize("prior", ["uniform", "bank"])
def test_best_play_is_that_of_plain_recursion_over_all_layouts(prior, pay):
    environment = make_game("minesweeper", options={**FIELD, "layouts": 30, "pay": pay})
    judge = registry.with_options(load_part("environments", "minesweeper", "solver"), {"prior": prior, "worlds": 100})
    cells, seen = frozenset(range(6)), set()

    def pays(opened, cleared):
        return opened / 4 if pay == "share" else float(cleared)

    for seed in range(12):
        state, draws = environment.reset(Stream.from_seed(seed)), Stream.from_seed(seed).child("play")
        while not state.done:
            table, legal = state.spiel.table, state.legal_actions()
            judgement = judge(state)
            seen.add(table.view(0))
            for cell, value in zip([c for c in range(6) if c not in table.opened], judgement.values, strict=True):
                first = table.moves[0] if table.moves else cell
                if prior == "bank":
                    layouts = [mines_of(order_of(6, 0, number), 2, first) for number in range(30)]
                else:
                    layouts = [frozenset(two) for two in itertools.combinations(cells - {first}, 2)]
                layouts = [
                    mined
                    for mined in layouts
                    if not mined & table.opened
                    and all(len(AROUND[other] & mined) == table.number(other) for other in table.opened)
                ]
                expected = revealed(layouts, frozenset(table.opened), cell, cells, pays) / len(layouts)
                assert value == pytest.approx(expected, abs=1e-12)
            assert judgement.bound == 0.0 and judgement.certainty == 1.0
            state.apply(legal[draws.integer(state.plies, len(legal))])
    assert len(seen) > 8
