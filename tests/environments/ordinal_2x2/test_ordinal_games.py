"""The 144 ordinal 2x2 games: their number, names and families, counted independently."""

import itertools
from collections import Counter

import pytest

from sparring.environments.ordinal_2x2 import games as ordinal
from sparring.environments.ordinal_2x2.games import (
    CELLS,
    FAMILIES,
    NAMED,
    all_games,
    exchange_seats,
    family,
    normalise,
    number_of,
    swap_choices,
)

PATTERNS = list(itertools.permutations((1, 2, 3, 4)))


def rank_table(game):
    """Return {(row, column): (rank of the row seat, rank of the column seat)}."""
    return {(row, column): (game[0][2 * row + column], game[1][2 * column + row]) for row, column in CELLS}


def reordered_tables(cells):
    """Return the four tables in which rows and columns are swapped or not."""
    return [{(row ^ a, column ^ b): value for (row, column), value in cells.items()} for a, b in CELLS]


def freeze(cells):
    return frozenset(cells.items())


def find_equilibria(cells):
    return [
        cell
        for cell in CELLS
        if cells[cell][0] > cells[1 - cell[0], cell[1]][0] and cells[cell][1] > cells[cell[0], 1 - cell[1]][1]
    ]


def symmetric_game(name):
    return NAMED[name], NAMED[name]


def test_counts_families_and_properties_of_games():
    classes = [frozenset(map(freeze, reordered_tables(rank_table(game)))) for game in all_games()]
    assert len(all_games()) == len(set(classes)) == 144
    assert all(len(tables_alike) == 4 for tables_alike in classes)
    expected_classes = {
        frozenset(map(freeze, reordered_tables(rank_table(pair)))) for pair in itertools.product(PATTERNS, repeat=2)
    }
    assert expected_classes == set(classes) and 24 * 24 // 4 == 144
    assert len({frozenset((game, normalise(exchange_seats(game)))) for game in all_games()}) == 78
    symmetric_numbers = [
        number for number, game in enumerate(all_games(), start=1) if normalise(exchange_seats(game)) == game
    ]
    assert symmetric_numbers == list(range(1, 145, 13))
    for number, game in enumerate(all_games(), start=1):
        row, column = divmod(number - 1, 12)
        assert number_of(exchange_seats(game)) == 12 * column + row + 1
    assert ordinal.select_games("all") == tuple(range(1, 145)) and ordinal.select_games("17 3") == (17, 3)
    assert sorted(number for name in FAMILIES for number in ordinal.select_games(name)) == list(range(1, 145))
    # 36 win-win games; 18 without a pure equilibrium; 7 whose only equilibrium both would leave together
    # (the prisoner's dilemma and six alibi games)
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
        cells = rank_table(game)
        equilibrium_cells, is_win_win = find_equilibria(cells), (4, 4) in cells.values()
        family_name = family(game)
        assert (family_name == "win_win") == is_win_win
        assert is_win_win or (
            (family_name == "cyclic") == (not equilibrium_cells)
            and (family_name == "coordination") == (len(equilibrium_cells) == 2)
        )
        if family_name in ("dilemma", "one_dominant", "both_dominant"):
            (cell,) = equilibrium_cells
            better_for_both = [
                value for value in cells.values() if value[0] > cells[cell][0] and value[1] > cells[cell][1]
            ]
            assert (family_name == "dilemma") == bool(better_for_both)
            row_seat_has_dominant = (
                len({cell[0] for cell in CELLS if cells[cell][0] > cells[1 - cell[0], cell[1]][0]}) == 1
            )
            column_seat_has_dominant = (
                len({cell[1] for cell in CELLS if cells[cell][1] > cells[cell[0], 1 - cell[1]][1]}) == 1
            )
            assert family_name == "dilemma" or (family_name == "both_dominant") == (
                row_seat_has_dominant and column_seat_has_dominant
            )
        assert family_name == family(normalise(exchange_seats(game)))
    dilemma = symmetric_game("prisoners_dilemma")
    assert [ordinal.is_equilibrium(dilemma, cell) for cell in CELLS] == [False, False, False, True]
    assert [ordinal.is_joint_maximum(dilemma, cell) for cell in CELLS] == [True, False, False, False]
    assert [ordinal.is_best_response(dilemma, 0, cell) for cell in CELLS] == [False, False, True, True]
    assert [ordinal.is_best_response(dilemma, 1, cell) for cell in CELLS] == [False, True, False, True]
    assert ordinal.has_dominant(dilemma, 0) and not ordinal.has_dominant(symmetric_game("chicken"), 0)


@pytest.mark.parametrize("swaps", CELLS)
def test_the_order_of_choices_does_not_change_the_number(swaps):
    for number, game in enumerate(all_games(), start=1):
        swapped_game = swap_choices(game, swaps)
        assert number_of(swapped_game) == number and freeze(rank_table(swapped_game)) in map(
            freeze, reordered_tables(rank_table(game))
        )
        assert rank_table(swapped_game) == {
            (row ^ swaps[0], column ^ swaps[1]): value for (row, column), value in rank_table(game).items()
        }
    assert all(pattern.index(4) % 2 for game in all_games() for pattern in game)


@pytest.mark.parametrize(
    ("name", "cells", "equilibrium_cells"),
    [
        ("prisoners_dilemma", {(0, 0): (3, 3), (0, 1): (1, 4), (1, 0): (4, 1), (1, 1): (2, 2)}, [(1, 1)]),
        ("chicken", {(0, 0): (3, 3), (0, 1): (2, 4), (1, 0): (4, 2), (1, 1): (1, 1)}, [(0, 1), (1, 0)]),
        ("stag_hunt", {(0, 0): (4, 4), (0, 1): (1, 3), (1, 0): (3, 1), (1, 1): (2, 2)}, [(0, 0), (1, 1)]),
        ("battle_of_the_sexes", {(0, 0): (1, 1), (0, 1): (3, 4), (1, 0): (4, 3), (1, 1): (2, 2)}, [(0, 1), (1, 0)]),
        ("leader", {(0, 0): (2, 2), (0, 1): (3, 4), (1, 0): (4, 3), (1, 1): (1, 1)}, [(0, 1), (1, 0)]),
        ("deadlock", {(0, 0): (2, 2), (0, 1): (1, 4), (1, 0): (4, 1), (1, 1): (3, 3)}, [(1, 1)]),
    ],
)
def test_named_games_by_hand(name, cells, equilibrium_cells):
    assert rank_table(symmetric_game(name)) == cells and find_equilibria(cells) == equilibrium_cells
    (number,) = ordinal.select_games(name)
    assert number == number_of(symmetric_game(name)) and freeze(rank_table(all_games()[number - 1])) in map(
        freeze, reordered_tables(cells)
    )
    assert len({number_of(symmetric_game(name_of_game)) for name_of_game in NAMED}) == len(NAMED) == 6


@pytest.mark.parametrize("which", ["none", "0", "145", "", "1 1", "1 x"])
def test_unknown_game_names_are_refused(which):
    with pytest.raises(ValueError):
        ordinal.select_games(which)
