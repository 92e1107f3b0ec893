"""The 144 ordinal 2x2 games: how many there are, which, and to what family each belongs. All is counted here by other means."""

import itertools
from collections import Counter

import pytest

from sparring.environments.ordinal_2x2 import games as ordinal
from sparring.environments.ordinal_2x2.games import (
    CELLS,
    FAMILIES,
    NAMED,
    all_games,
    canonical,
    exchange_seats,
    family,
    number_of,
    swap_choices,
)

PATTERNS = list(itertools.permutations((1, 2, 3, 4)))


def tables(game):
    """Return {(row, column): (rank of the row seat, rank of the column seat)}."""
    return {(row, column): (game[0][2 * row + column], game[1][2 * column + row]) for row, column in CELLS}


def orders(cells):
    """Return the four tables in which rows and columns are swapped or not."""
    return [{(row ^ a, column ^ b): value for (row, column), value in cells.items()} for a, b in CELLS]


def frozen(cells):
    return frozenset(cells.items())


def equilibria(cells):
    return [
        at for at in CELLS if cells[at][0] > cells[1 - at[0], at[1]][0] and cells[at][1] > cells[at[0], 1 - at[1]][1]
    ]


def of(name):
    return NAMED[name], NAMED[name]


def test_games_families_and_measures():
    classes = [frozenset(map(frozen, orders(tables(game)))) for game in all_games()]
    assert len(all_games()) == len(set(classes)) == 144
    assert all(len(tables_alike) == 4 for tables_alike in classes)
    every = {frozenset(map(frozen, orders(tables(pair)))) for pair in itertools.product(PATTERNS, repeat=2)}
    assert every == set(classes) and 24 * 24 // 4 == 144
    assert len({frozenset((game, canonical(exchange_seats(game)))) for game in all_games()}) == 78
    symmetric = [number for number, game in enumerate(all_games(), start=1) if canonical(exchange_seats(game)) == game]
    assert symmetric == list(range(1, 145, 13))
    for number, game in enumerate(all_games(), start=1):
        row, column = divmod(number - 1, 12)
        assert number_of(exchange_seats(game)) == 12 * column + row + 1
    assert ordinal.select_games("all") == tuple(range(1, 145)) and ordinal.select_games("17 3") == (17, 3)
    assert sorted(number for name in FAMILIES for number in ordinal.select_games(name)) == list(range(1, 145))
    # 36 win-win games, 18 without a pure equilibrium, 7 whose only one both would leave together: the dilemma and six alibi games.
    counts = Counter(map(family, all_games()))
    assert counts == {
        "win_win": 36,
        "cyclic": 18,
        "dilemma": 7,
        "coordination": 9,
        "one_dominant": 48,
        "both_dominant": 26,
    }
    assert set(counts) == set(FAMILIES)
    for game in all_games():
        cells = tables(game)
        stable, best = equilibria(cells), (4, 4) in cells.values()
        group = family(game)
        assert (group == "win_win") == best
        assert best or ((group == "cyclic") == (not stable) and (group == "coordination") == (len(stable) == 2))
        if group in ("dilemma", "one_dominant", "both_dominant"):
            (at,) = stable
            better = [value for value in cells.values() if value[0] > cells[at][0] and value[1] > cells[at][1]]
            assert (group == "dilemma") == bool(better)
            rows = len({at[0] for at in CELLS if cells[at][0] > cells[1 - at[0], at[1]][0]}) == 1
            columns = len({at[1] for at in CELLS if cells[at][1] > cells[at[0], 1 - at[1]][1]}) == 1
            assert group == "dilemma" or (group == "both_dominant") == (rows and columns)
        assert group == family(canonical(exchange_seats(game)))
    dilemma = of("prisoners_dilemma")
    assert [ordinal.is_equilibrium(dilemma, at) for at in CELLS] == [False, False, False, True]
    assert [ordinal.is_joint_maximum(dilemma, at) for at in CELLS] == [True, False, False, False]
    assert [ordinal.is_response(dilemma, 0, at) for at in CELLS] == [False, False, True, True]
    assert [ordinal.is_response(dilemma, 1, at) for at in CELLS] == [False, True, False, True]
    assert ordinal.has_dominant(dilemma, 0) and not ordinal.has_dominant(of("chicken"), 0)


@pytest.mark.parametrize("swaps", CELLS)
def test_the_order_of_choices_does_not_change_the_number(swaps):
    for number, game in enumerate(all_games(), start=1):
        other = swap_choices(game, swaps)
        assert number_of(other) == number and frozen(tables(other)) in map(frozen, orders(tables(game)))
        assert tables(other) == {
            (row ^ swaps[0], column ^ swaps[1]): value for (row, column), value in tables(game).items()
        }
    assert all(pattern.index(4) % 2 for game in all_games() for pattern in game)


@pytest.mark.parametrize(
    ("name", "cells", "stable"),
    [
        ("prisoners_dilemma", {(0, 0): (3, 3), (0, 1): (1, 4), (1, 0): (4, 1), (1, 1): (2, 2)}, [(1, 1)]),
        ("chicken", {(0, 0): (3, 3), (0, 1): (2, 4), (1, 0): (4, 2), (1, 1): (1, 1)}, [(0, 1), (1, 0)]),
        ("stag_hunt", {(0, 0): (4, 4), (0, 1): (1, 3), (1, 0): (3, 1), (1, 1): (2, 2)}, [(0, 0), (1, 1)]),
        ("battle_of_the_sexes", {(0, 0): (1, 1), (0, 1): (3, 4), (1, 0): (4, 3), (1, 1): (2, 2)}, [(0, 1), (1, 0)]),
        ("leader", {(0, 0): (2, 2), (0, 1): (3, 4), (1, 0): (4, 3), (1, 1): (1, 1)}, [(0, 1), (1, 0)]),
        ("deadlock", {(0, 0): (2, 2), (0, 1): (1, 4), (1, 0): (4, 1), (1, 1): (3, 3)}, [(1, 1)]),
    ],
)
def test_the_well_known_ones_are_there(name, cells, stable):
    assert tables(of(name)) == cells and equilibria(cells) == stable
    (number,) = ordinal.select_games(name)
    assert number == number_of(of(name)) and frozen(tables(all_games()[number - 1])) in map(frozen, orders(cells))
    assert len({number_of(of(other)) for other in NAMED}) == len(NAMED) == 6


@pytest.mark.parametrize("which", ["none", "0", "145", "", "1 1", "1 x"])
def test_what_names_no_game_is_refused(which):
    with pytest.raises(ValueError):
        ordinal.select_games(which)
