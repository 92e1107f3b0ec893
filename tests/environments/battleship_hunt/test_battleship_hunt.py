"""Battleship hunt: answers by hand and against an independent simulation, unbiased layouts, payoffs and prompts."""

import itertools
from collections import Counter
from dataclasses import replace

import pyspiel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sparring.core.errors import ConfigError, GameError
from sparring.environments.battleship_hunt import Sea, fleet_of
from tests.environments.worlds import check_contains, make_game_factory, start

game = make_game_factory("battleship_hunt")


def cells_to_mask(*cells):
    return sum(1 << cell for cell in cells)


# a  S S S .     a ship of three in row a, one of two in column 4
# b  . . . .
# c  . . . T
# d  . . . T
SMALL_SEA = Sea(
    rows=4,
    columns=4,
    lengths=(3, 2),
    shots=10,
    layouts=1,
    pay="sunk",
    ships=(cells_to_mask(0, 1, 2), cells_to_mask(11, 15)),
)


def shoot(table, *cells):
    for cell in cells:
        table = table.after(cell)
    return table


def test_answers_and_payoffs_by_hand():
    end_table = shoot(SMALL_SEA, 0, 5, 2, 15, 1, 11)
    assert end_table.answers == (1, 0, 1, 1, 2, 2)
    assert end_table.view(0) == "xsx./.o../...s/...x"
    assert (end_table.sunk, end_table.hits, end_table.shots_left) == (2, 5, 4)
    assert end_table.player == pyspiel.PlayerId.TERMINAL and end_table.returns() == [1.0]
    assert end_table.key(0) == "shots: a1 hit b2 miss a3 hit d4 hit a2 sunk c4 sunk won"
    sea_with_5_shots = replace(SMALL_SEA, shots=5)
    out_of_shots = shoot(sea_with_5_shots, 0, 1, 2, 11, 3)
    assert (
        out_of_shots.player == pyspiel.PlayerId.TERMINAL
        and out_of_shots.returns() == [0.0]
        and out_of_shots.feedback(4) == ("miss", "lost")
    )
    assert shoot(sea_with_5_shots, 0, 1, 2, 11, 15).returns() == [1.0]  # with the very last shot
    assert shoot(sea_with_5_shots, 0, 1, 2, 11).returns() == [0.0] and shoot(sea_with_5_shots, 0, 1, 2, 11).player == 0
    sea_with_shared_pay = replace(sea_with_5_shots, pay="share")
    assert shoot(sea_with_shared_pay, 0, 1, 2, 11, 3).returns() == [0.8]
    assert shoot(sea_with_shared_pay, 3, 4, 5, 6, 7).returns() == [0.0]
    assert str(game(fleet="2 3").spiel) == str(game(fleet="3  2").spiel)


def test_prompts_and_keys_hide_the_fleet_and_illegal_shots_are_refused():
    states = [start(game(), seed) for seed in range(30)]
    assert len({state.observe(0) for state in states}) == 1
    other_sea = replace(SMALL_SEA, ships=(cells_to_mask(0, 1, 2), cells_to_mask(10, 11)))
    table, other_table = shoot(SMALL_SEA, 0, 5, 1), shoot(other_sea, 0, 5, 1)
    assert (
        table.key(0) == other_table.key(0) and table.view(0) == other_table.view(0) and str(table) != str(other_table)
    )
    state = start(game())
    state.apply("b2")
    assert "b2" not in state.legal_actions() and state.parse("b2") == "b2"
    for cell_name in ("b2", "e1"):
        with pytest.raises(GameError, match="not legal"):
            state.apply(cell_name)
    assert state.parse("e1") is None


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_episodes_match_an_independent_simulation(data):
    rows, columns = data.draw(st.integers(2, 5)), data.draw(st.integers(2, 5))
    lengths = sorted(
        data.draw(st.lists(st.integers(1, 2), min_size=1, max_size=3 if rows * columns >= 9 else 1)), reverse=True
    )
    may_touch, is_shared_pay = rows * columns < 12 or data.draw(st.booleans()), data.draw(st.booleans())
    shots = data.draw(st.integers(sum(lengths), rows * columns))
    environment = game(
        rows=rows,
        columns=columns,
        fleet=" ".join(map(str, lengths)),
        shots=shots,
        touch=may_touch,
        pay="share" if is_shared_pay else "sunk",
        layouts=20,
    )
    state = start(environment, data.draw(st.integers(0, 999)))
    ships = [{divmod(cell, columns) for cell in range(64) if mask >> cell & 1} for mask in state.spiel.table.ships]
    assert [len(ship) for ship in ships] == lengths
    for ship in ships:
        (low_row, low_column), (high_row, high_column) = min(ship), max(ship)
        assert (
            low_row == high_row or low_column == high_column
        ) and high_row - low_row + high_column - low_column == len(ship) - 1
    for ship_cells, other_cells in itertools.combinations(ships, 2):
        gap = min(max(abs(a - c), abs(b - d)) for a, b in ship_cells for c, d in other_cells)
        assert gap >= (1 if may_touch else 2)
    afloat, cells_shot, answers = [set(ship) for ship in ships], set(), []
    while not state.done:
        assert state.spiel.legal_actions() == [cell for cell in range(rows * columns) if cell not in cells_shot]
        cell = data.draw(st.sampled_from(state.spiel.legal_actions()))
        state.apply_index(cell)
        cells_shot.add(cell)
        ships_hit = [ship for ship in afloat if divmod(cell, columns) in ship]
        for ship in ships_hit:
            ship.remove(divmod(cell, columns))
        answers.append("miss" if not ships_hit else "hit" if ships_hit[0] else "sunk")
        assert state.spiel.table.feedback(len(cells_shot) - 1)[0] == answers[-1]
        assert state.done == (len(cells_shot) == shots or not any(afloat))
    is_won, num_hits = not any(afloat), sum(word != "miss" for word in answers)
    assert state.returns == (num_hits / sum(lengths) if is_shared_pay else float(is_won),)
    assert state.spiel.table.feedback(len(cells_shot) - 1)[1:] == ("won" if is_won else "lost",)


@pytest.mark.parametrize(
    ("lengths", "touch", "num_layouts"), [((2, 2), True, 44), ((2, 1), False, 8 * 3)], ids=["alike", "apart"]
)
def test_every_layout_is_equally_likely(lengths, touch, num_layouts):
    num_draws = 6000
    counts = Counter(fleet_of(3, 3, lengths, touch, 7, index) for index in range(num_draws))
    assert len(counts) == num_layouts
    assert stats.chisquare(list(counts.values())).pvalue > 0.005


def state_reaching(environment, table):
    numbers = range(environment.spiel.opening.layouts)
    number = next(
        index for index in numbers if environment.spiel.new_initial_state().child(index).table.ships == table.ships
    )
    state = environment.state_of(environment.spiel.new_initial_state().child(number))
    for move in table.moves:
        state.apply_index(move)
    return state


def test_prompts():
    options = {"rows": 2, "columns": 3, "fleet": "2", "shots": 4, "layouts": 60}
    environment, full_style_environment = (game(**options, style=style) for style in ("brief", "full"))
    board = Sea(rows=2, columns=3, lengths=(2,), shots=4, layouts=60, pay="sunk", ships=(cells_to_mask(1, 4),))
    won_table, lost_table = shoot(board, 0, 1, 4), shoot(board, 0, 1, 2, 5)
    assert state_reaching(environment, won_table).observe(0).text == "battleship hunter a1 miss a2 hit b2 sunk won"
    assert [state_reaching(environment, won_table).observe(0, since).text for since in (1, 2, 3)] == [
        "miss hit sunk won",
        "hit sunk won",
        "sunk won",
    ]
    assert state_reaching(environment, lost_table).observe(0, 4).text == "miss lost"
    check_contains(
        state_reaching(full_style_environment, won_table).observe(0).text,
        "a hit, and a ship is sunk. All ships are sunk.",
        ":\n  1 2 3\na o x .\nb . s .\nShots left: 1.",
    )
    assert (
        "You shot at b3: a miss. You have no shots left."
        in state_reaching(full_style_environment, lost_table).observe(0, 4).text
    )
    assert (
        "they may touch" in full_style_environment.rules
        and "1 point if all" in full_style_environment.rules
        and "4 shots" in full_style_environment.rules
    )
    other_rules = game(**{**options, "touch": False, "pay": "share"}, style="full").rules
    assert "or touch" in other_rules and "1/2 point" in other_rules


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fleet": ""}, "fleet"),
        ({"fleet": "3 x"}, "fleet"),
        ({"fleet": "3 0"}, "fleet"),
        ({"fleet": "1 1 1 1 1"}, "fleet"),
        ({"fleet": "5"}, "longer"),
        ({"shots": 4}, "shots"),
        ({"shots": 17}, "shots"),
        ({"rows": 2, "columns": 2, "fleet": "2 2", "touch": False, "shots": 4}, "do not touch do not fit"),
        ({"rows": 3, "columns": 3, "fleet": "1 1 1 1", "touch": False, "shots": 4, "layouts": 5}, ""),
        ({"rows": 4, "columns": 4, "fleet": "4 4 4 4", "shots": 16}, ""),
        ({"rows": 8, "columns": 8, "fleet": "8 8 8 8", "shots": 32}, ""),
    ],
    ids=str,
)
def test_options_out_of_range_are_refused(options, message):
    if not message:  # tight, but it fits
        assert start(game(**options)).legal_actions()
        return
    with pytest.raises(ConfigError, match=f"battleship_hunt.*{message}"):
        game(**options)
