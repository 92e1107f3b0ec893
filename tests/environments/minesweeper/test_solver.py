"""Entropy and best play of minesweeper against all layouts; tests/methods/oracles/test_puzzles.py tests the posterior."""

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


def judge_with_prior(state, prior):
    return registry.with_options(load_part("environments", "minesweeper", "solver"), {"prior": prior})(state)


def neighbours(table, cell):
    coordinates = itertools.product(range(table.rows), range(table.columns))
    return {
        row * table.columns + column
        for row, column in coordinates
        if max(abs(row - cell // table.columns), abs(column - cell % table.columns)) == 1
    }


@pytest.mark.parametrize("prior", ["uniform", "bank"])
@pytest.mark.parametrize("flags", [False, True])
def test_entropy_is_the_logarithm_of_the_layouts_that_agree(prior, flags):
    environment = make_game("minesweeper", options={"rows": 3, "columns": 4, "mines": 3, "layouts": 90, "flags": flags})
    for seed in range(12):
        state, stream = environment.reset(Stream.from_seed(seed)), Stream.from_seed(seed).child("play")
        while not state.done:
            table = state.spiel.table
            if not table.moves:
                layouts = range(90) if prior == "bank" else range(comb(11, 3))
                assert judge_with_prior(state, prior).entropy == pytest.approx(log(len(layouts)))
            else:
                all_layouts = (
                    [mines_of(order_of(12, 0, number), 3, table.moves[0]) for number in range(90)]
                    if prior == "bank"
                    else list(map(frozenset, itertools.combinations(range(12), 3)))
                )
                consistent_layouts = [
                    mined
                    for mined in all_layouts
                    if not mined & table.open_cells
                    and mined >= table.flag_cells
                    and all(
                        len(neighbours(table, cell) & mined) == int(table.symbol(cell)) for cell in table.open_cells
                    )
                ]
                assert judge_with_prior(state, prior).entropy == pytest.approx(log(len(consistent_layouts)), abs=1e-12)
            legal = state.legal_actions()
            state.apply(legal[stream.integer(state.plies, len(legal))])


def test_impossible_boards_are_refused():
    impossible = Minefield(
        rows=1,
        columns=4,
        mines=1,
        layouts=1,
        order=(0, 1, 2, 3),
        mine_cells=frozenset({0, 2}),
        moves=(1,),
        opened_by_move=((1,),),
        open_cells=frozenset({1}),
    )
    for prior in ("uniform", "bank"):  # the count 2 needs two mines, but the field has one
        with pytest.raises(OracleError, match="no layout agrees"):
            mine_probabilities(impossible, prior)


def test_long_searches_are_replaced_by_probabilities():
    def judge_start(flags=False, **options):
        environment = make_game(
            "minesweeper", options={"rows": 3, "columns": 4, "mines": 2, "layouts": 90, "flags": flags}
        )
        return registry.with_options(load_part("environments", "minesweeper", "solver"), options)(
            environment.reset(Stream.from_seed(0))
        )

    by_probability, by_search = judge_start(), judge_start(worlds=55)
    assert set(by_probability.values) == {1.0} and by_probability.bound == 1.0
    assert (
        max(by_search.values) == pytest.approx(52 / 55) and by_search.bound == 0.0
    )  # 52 of the 55 layouts are cleared
    assert [cell for cell, value in enumerate(by_search.values) if value == max(by_search.values)] == [
        0,
        3,
        5,
        6,
        8,
        11,
    ]
    assert by_search.entropy == by_probability.entropy == pytest.approx(log(55))
    for judgement in (judge_start(worlds=54), judge_start(worlds=55, beliefs=3)):
        assert judgement == by_probability
    assert judge_start(flags=True, worlds=55) == judge_start(flags=True)


def best_value(layouts, opened, cells, pays):
    """Return the return of best play, summed over layouts, by recursion over every unopened cell."""
    if opened == cells - layouts[0]:
        return len(layouts) * pays(len(opened), True)
    return max(value_of_reveal(layouts, opened, cell, cells, pays) for cell in cells - opened)


def value_of_reveal(layouts, opened, cell, cells, pays):
    return_at_end, groups = 0, {}
    for mined in layouts:
        if cell in mined:
            return_at_end += pays(len(opened), False)
            continue
        opened_after, queue = set(opened) | {cell}, [cell]
        while queue:
            next_cell = queue.pop()
            if not NEIGHBOURS[next_cell] & mined:
                queue += NEIGHBOURS[next_cell] - opened_after
                opened_after |= NEIGHBOURS[next_cell]
        counts = tuple(sorted((open_cell, len(NEIGHBOURS[open_cell] & mined)) for open_cell in opened_after))
        groups.setdefault((frozenset(opened_after), counts), []).append(mined)
    return return_at_end + sum(
        best_value(group, opened_after, cells, pays) for (opened_after, _), group in groups.items()
    )


FIELD = {"rows": 2, "columns": 3, "mines": 2}
NEIGHBOURS = [neighbours(Minefield(rows=2, columns=3, mines=2), cell) for cell in range(6)]


@pytest.mark.parametrize("pay", ["cleared", "share"])
@pytest.mark.parametrize("prior", ["uniform", "bank"])
def test_values_match_recursion_over_all_layouts(prior, pay):
    environment = make_game("minesweeper", options={**FIELD, "layouts": 30, "pay": pay})
    judge = registry.with_options(load_part("environments", "minesweeper", "solver"), {"prior": prior, "worlds": 100})
    cells, views = frozenset(range(6)), set()

    def pays(opened, cleared):
        return opened / 4 if pay == "share" else float(cleared)

    for seed in range(12):
        state, stream = environment.reset(Stream.from_seed(seed)), Stream.from_seed(seed).child("play")
        while not state.done:
            table, legal = state.spiel.table, state.legal_actions()
            judgement = judge(state)
            views.add(table.view(0))
            for cell, value in zip([c for c in range(6) if c not in table.open_cells], judgement.values, strict=True):
                first_cell = table.moves[0] if table.moves else cell
                if prior == "bank":
                    layouts = [mines_of(order_of(6, 0, number), 2, first_cell) for number in range(30)]
                else:
                    layouts = [frozenset(pair) for pair in itertools.combinations(cells - {first_cell}, 2)]
                layouts = [
                    mined
                    for mined in layouts
                    if not mined & table.open_cells
                    and all(
                        len(NEIGHBOURS[open_cell] & mined) == table.count(open_cell) for open_cell in table.open_cells
                    )
                ]
                expected = value_of_reveal(layouts, frozenset(table.open_cells), cell, cells, pays) / len(layouts)
                assert value == pytest.approx(expected, abs=1e-12)
            assert judgement.bound == 0.0 and judgement.certainty == 1.0
            state.apply(legal[stream.integer(state.plies, len(legal))])
    assert len(views) > 8
