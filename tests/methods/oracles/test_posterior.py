"""The posterior oracle against the enumeration of all layouts, by hand, and what it refuses."""

import itertools

import pytest
from tests.cases import every_case

from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, OracleError, UnknownNameError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.environments.minesweeper import mines_of, order_of


def oracle(**options):
    return registry.bind("oracles", "posterior", options)()


def game(**options):
    return make_game("minesweeper", options=options)


def careful(made, number):
    """Return states of plays in which losing actions are avoided, so that plays are long."""
    out, root = [], Stream.from_seed(3)
    for episode in range(number):
        state, draws = made.reset(root.child("deal").child(episode)), root.child("play").child(episode)
        while not state.done:
            out.append(state.clone())
            table, legal = state.spiel.table, state.spiel.legal_actions()
            kept = [index for index in legal if not table.mined or (index % table.cells in table.mined) == (index >= table.cells)]
            state.apply_index(kept[draws.integer(state.plies, len(kept))])
    return out


def near(table, cell):
    """Return the cells around a cell, by coordinates."""
    row, column = divmod(cell, table.columns)
    return {
        r * table.columns + c
        for r, c in itertools.product(range(table.rows), range(table.columns))
        if max(abs(r - row), abs(c - column)) == 1
    }


def agreeing(table, layouts):
    """Return those of some layouts that agree with what a board shows."""
    shows = {cell: int(table.sign(cell)) for cell in table.opened}
    return [
        mined
        for mined in layouts
        if not mined & table.opened
        and mined >= table.flagged
        and all(len(near(table, cell) & mined) == count for cell, count in shows.items())
    ]


@pytest.mark.parametrize("pay", ["cleared", "share"])
@pytest.mark.parametrize("flags", [False, True])
@every_case(("rows", "columns", "mines"), [(4, 4, 3), (3, 5, 5), (2, 6, 2), (1, 7, 3)])
@every_case("prior", ["uniform", "bank"])
def test_probabilities_are_those_of_all_layouts(prior, rows, columns, mines, flags, pay):
    made = game(rows=rows, columns=columns, mines=mines, flags=flags, pay=pay, layouts=200)
    states = [state for state in careful(made, 6) if state.plies]
    cells = rows * columns
    for state, found in zip(states, oracle(prior=prior).judge(states), strict=True):
        table = state.spiel.table
        if prior == "bank":
            layouts = [mines_of(order_of(cells, 0, index), mines, table.moves[0]) for index in range(200)]
        else:
            layouts = map(frozenset, itertools.combinations(range(cells), mines))
        layouts = agreeing(table, layouts)
        lost = len(table.opened) / (cells - mines) if pay == "share" else 0.0
        safe = [
            sum((index % cells in mined) == (index >= cells) for mined in layouts) / len(layouts) for index in state.spiel.legal_actions()
        ]
        assert found.values == pytest.approx([chance + (1 - chance) * lost for chance in safe], abs=1e-12)
        assert found.best == {word for word, chance in zip(found.actions, safe, strict=True) if chance > max(safe) - 1e-9}
        assert (found.bound == 0.0) == (set(safe) <= {0.0, 1.0})
        assert found.certainty == 1.0


def test_by_hand():
    made = game(rows=1, columns=5, mines=1, layouts=64, flags=True)
    for seed in range(64):
        state = made.reset(Stream.from_seed(seed))
        state.apply("r1c2")
        if state.observe(0).view == ".1...":
            break
    found = oracle().judge([state])[0]
    assert dict(zip(found.actions, found.values, strict=True)) == {
        "r1c1": 0.5,
        "r1c3": 0.5,
        "r1c4": 1.0,
        "r1c5": 1.0,
        "f1c1": 0.5,
        "f1c3": 0.5,
        "f1c4": 0.0,
        "f1c5": 0.0,
    }
    assert found.best == {"r1c4", "r1c5"} and found.bound == 1.0


def test_the_first_reveal_is_safe_everywhere():
    state = game().reset(Stream.from_seed(0))
    found = oracle().judge([state])[0]
    assert set(found.values) == {1.0} and found.best == set(state.legal_actions()) and found.bound == 1.0


def test_a_sure_flag_is_as_good_as_a_safe_reveal():
    states = [state for state in careful(game(flags=True), 20) if state.plies]
    verdicts = oracle().judge(states)
    assert any({word[0] for word in found.best} == {"r", "f"} for found in verdicts)


def test_the_largest_board_is_counted_and_what_is_sure_is_true():
    made = game(rows=8, columns=8, mines=10, flags=True)
    states = [state for state in careful(made, 3) if state.plies]
    for state, found in zip(states, oracle().judge(states), strict=True):
        mined = state.spiel.table.mined
        assert not any(
            value == 1.0 and (index % 64 in mined) != (index >= 64)
            for index, value in zip(state.spiel.legal_actions(), found.values, strict=True)
        )
        reveals = [1 - value for index, value in zip(state.spiel.legal_actions(), found.values, strict=True) if index < 64]
        assert sum(reveals) == pytest.approx(10 - len(state.spiel.table.flagged))  # expected mines


def test_other_games_are_refused():
    state = make_game("sudoku").reset(Stream.from_seed(0))
    with pytest.raises(OracleError, match="posterior"):
        oracle().judge([state])


def test_options_reach_the_games_file_and_are_checked():
    made = game(rows=3, columns=4, mines=2)
    state = made.reset(Stream.from_seed(0))
    assert oracle(options={"worlds": 55}).judge([state])[0].best == {"r1c1", "r1c4", "r2c2", "r2c3", "r3c1", "r3c4"}
    assert oracle(options={}).judge([state]) == oracle().judge([state])
    with pytest.raises(UnknownNameError, match="worlds"):
        oracle(options={"world": 55}).covers(made)
    with pytest.raises(ConfigError, match="worlds"):
        oracle(options={"worlds": -1}).covers(made)
    with pytest.raises(ConfigError, match="beside options"):
        oracle(options={"prior": "bank"})
