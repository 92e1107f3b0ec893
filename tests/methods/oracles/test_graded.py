"""The grades of actions against plain enumeration, by hand, and what the oracle refuses."""

import itertools

import pytest

from sparring.config.plugins import registry
from sparring.core.errors import OracleError, UnknownNameError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game


def oracle(**options):
    return registry.bind("oracles", "graded", options)()


def positions(game, number=12):
    """Return states of random plays."""
    out, root = [], Stream.from_seed(5)
    for episode in range(number):
        state, draws = game.reset(root.child("deal").child(episode)), root.child(episode)
        while not state.done:
            out.append(state.clone())
            legal = state.legal_actions()
            state.apply(legal[draws.integer(state.plies, len(legal))])
    return out


def graded(state, **options):
    found = oracle(**options).judge([state])[0]
    return None if found is None else dict(zip(found.actions, found.values, strict=True))


def digits_left(size, cells, place):
    """The digits that stand in no row, column and box of a cell, looked up one by one."""
    high = 2
    wide = size // high
    row, column = divmod(place, size)
    seen = set()
    for other, digit in enumerate(cells):
        r, c = divmod(other, size)
        if digit and (r == row or c == column or (r // high == row // high and c // wide == column // wide)):
            seen.add(digit)
    return set(range(1, size + 1)) - seen


@pytest.mark.parametrize("options", [{"blanks": 6}, {"blanks": 10, "level": "any"}, {"size": 6, "blanks": 14}])
def test_sudoku_by_counting_candidates(options):
    game = make_game("sudoku", options={**options, "puzzles": 40})
    met = set()
    for state in positions(game):
        table, size = state.table, state.table.size
        left = {cell: len(digits_left(size, table.cells, cell)) for cell, held in enumerate(table.cells) if not held}
        for action, value in graded(state).items():
            row, column, digit = int(action[1]) - 1, int(action[3]) - 1, int(action[5])
            cell = row * size + column
            right = table.solution[cell] == digit
            wanted = -1.0 if not right else 2.0 if left[cell] == 1 else 1.0 if left[cell] == min(left.values()) else 0.5
            assert value == wanted
            met.add(wanted)
    assert met >= {2.0, -1.0, 0.5}


def test_sudoku_without_a_forced_cell_pays_the_fewest_candidates():
    game = make_game("sudoku", options={"size": 6, "blanks": 25, "puzzles": 400})
    root = Stream.from_seed(1)
    for number in range(400):
        state = game.reset(root.child(number))
        grades = graded(state)
        if 2.0 not in grades.values():
            assert 1.0 in grades.values()
            return
    pytest.fail("every puzzle had a forced cell")


def around(table, cell):
    row, column = divmod(cell, table.columns)
    return {
        r * table.columns + c
        for r, c in itertools.product(range(table.rows), range(table.columns))
        if (r, c) != (row, column) and abs(r - row) <= 1 and abs(c - column) <= 1
    }


def layouts(table):
    """All sets of mines that agree with what is seen, one by one."""
    closed = [cell for cell in range(table.cells) if cell not in table.opened]
    return [
        mined
        for mined in map(set, itertools.combinations(closed, table.mines))
        if table.flagged <= mined and all(len(mined & around(table, cell)) == table.number(cell) for cell in table.opened)
    ]


def test_minesweeper_by_enumerating_layouts():
    game = make_game("minesweeper", options={"rows": 3, "columns": 4, "mines": 3, "flags": True, "layouts": 200})
    met = set()
    for state in positions(game, 30):
        table = state.table
        if not table.opened:
            assert set(graded(state).values()) == {2.0}
            continue
        worlds = layouts(table)
        closed = [cell for cell in range(table.cells) if cell not in table.opened and cell not in table.flagged]
        risk = {cell: sum(cell in mined for mined in worlds) / len(worlds) for cell in closed}
        for action, value in graded(state).items():
            cell = (int(action[1]) - 1) * table.columns + int(action[3]) - 1
            if action[0] == "f":
                wanted = 1.0 if risk[cell] == 1.0 else -1.0
            elif risk[cell] == 0.0:
                wanted = 2.0
            else:
                wanted = 1.0 if risk[cell] == min(risk.values()) else 0.0
            assert value == wanted
            met.add((action[0], wanted))
    assert met == {("r", 2.0), ("r", 1.0), ("r", 0.0), ("f", 1.0), ("f", -1.0)}


def solved_in(table, most=30):
    """The least moves to a solved room, by a search forwards; None without any."""
    layer, seen = [table], {(table.agent, table.boxes)}
    for depth in range(most):
        if any(one.solved for one in layer):
            return depth
        found = []
        for one in layer:
            for move in one.legal():
                child = one.after(move)
                if (child.agent, child.boxes) not in seen:
                    seen.add((child.agent, child.boxes))
                    found.append(child)
        layer = found
    return None


@pytest.mark.parametrize("boxes", [1, 2])
def test_sokoban_by_a_search_forwards(boxes):
    game = make_game("sokoban", options={"boxes": boxes, "rooms": 20, "moves": 12})
    met = set()
    for state in positions(game, 10):
        children = {state.game.words[index]: state.table.after(index) for index in state.legal_indices()}
        ways = {word: solved_in(child) for word, child in children.items()}
        known = [way for way in ways.values() if way is not None]
        grades, released = graded(state, pay={"deadlock": -2.0}), graded(state)
        if not known:
            assert grades is None and released is None
            met.add(None)
            continue
        for word, way in ways.items():
            wanted = -2.0 if way is None else 2.0 if way == min(known) else 0.0
            assert grades[word] == wanted
            assert released[word] == max(wanted, 0.0), "released: any move but a shortest one pays 0"
            met.add(wanted)
    assert met == {None, 2.0, 0.0, -2.0}


def test_tiers_may_pay_otherwise_and_unknown_ones_are_refused():
    game = make_game("sokoban", options={"rooms": 4})
    state = game.reset(Stream.from_seed(0))
    assert set(graded(state, pay={"shortest": 7.0}).values()) >= {7.0}
    with pytest.raises(UnknownNameError, match="tier of 'sokoban'"):
        oracle(pay={"shortst": 1.0}).covers(game)


def test_other_games_are_refused_with_the_games_that_have_tiers():
    game = make_game("tic_tac_toe")
    assert "minesweeper, sokoban, sudoku" in oracle().covers(game)
    with pytest.raises(OracleError, match="tells no tiers"):
        oracle().judge([game.reset(Stream.from_seed(0))])


def test_an_oracle_that_errs_calls_one_of_the_best_another():
    game = make_game("sokoban", options={"rooms": 4})
    state = next(one for one in positions(game) if len(set((graded(one) or {}).values())) > 1)
    clear = oracle().judge([state])[0]
    noisy = registry.bind("oracles", "noisy", {"oracle": "graded", "flip": 1.0})()
    assert noisy.judge([state])[0].best != clear.best
