"""Minesweeper: cascades by hand, the safe first reveal, unbiased layouts, payoffs and prompts."""

import itertools
from collections import Counter, deque
from dataclasses import replace

import pyspiel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sparring.core.errors import ConfigError, GameError
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.environments.minesweeper import Minefield, mines_of, order_of
from tests.environments.worlds import check_contains, make_game_factory, make_refusal_test, start

game = make_game_factory("minesweeper")


def make_field(rows, columns, mined, **options):
    """Return a field whose mines lie in the given cells if the first reveal is another one."""
    order = (*mined, *(cell for cell in range(rows * columns) if cell not in mined))
    return Minefield(rows=rows, columns=columns, mines=len(mined), layouts=1, **{"order": order, **options})


# . . . .      mines at r3c4 and r4c1: the counts are
# . . . .      0 0 0 0 / 0 0 1 1 / 1 1 1 * / * 1 1 1
# . . . *
# * . . .
FIELD_WITH_TWO_MINES = make_field(4, 4, (11, 12))


@pytest.mark.parametrize(
    ("first_cell", "view"),
    [
        (0, "0000/0011/111./...."),  # a zero opens its region up to the bordering counts
        (6, "..../..1./..../...."),  # a count opens only its own cell
        (15, "..../..../..../...1"),
    ],
)
def test_cascades_by_hand(first_cell, view):
    table = FIELD_WITH_TWO_MINES.after(first_cell)
    assert table.mine_cells == {11, 12} and table.view(0) == view
    assert table.player == 0 and table.returns() == [0.0]


def test_first_reveals_and_flags_by_hand():
    table_after_reveal = FIELD_WITH_TWO_MINES.after(11)
    assert table_after_reveal.mine_cells == {0, 12} and table_after_reveal.view(0) == ".100/.100/.100/.100"
    with pytest.raises(ConfigError, match="no safe cell"):
        make_game("minesweeper", options={"rows": 1, "columns": 1, "mines": 1, "centre": True})
    one_row = make_field(1, 5, (4,))
    assert one_row.after(0).view(0) == "0001." and one_row.after(0).player == pyspiel.PlayerId.TERMINAL
    assert one_row.after(0).returns() == [1.0]
    field_with_flags = make_field(3, 3, (8,), flags=True)
    flagged_table = field_with_flags.after(5).after(9 + 8)
    assert flagged_table.view(0) == ".../..1/..F"
    assert flagged_table.after(0).view(0) == "000/011/01F"
    assert flagged_table.after(0).returns() == [1.0]


def test_prompts_and_keys_hide_the_mines():
    states = [start(game(), seed) for seed in range(30)]
    assert len({state.observe(0) for state in states}) == 1
    table = make_field(2, 3, (1, 3))
    first_table, second_table = (
        replace(table, order=order).after(0) for order in ((1, 3, 0, 2, 4, 5), (1, 4, 0, 2, 3, 5))
    )
    assert (
        first_table.key(0) == second_table.key(0)
        and first_table.view(0) == second_table.view(0)
        and str(first_table) != str(second_table)
    )


def test_illegal_reveals_and_flags_are_refused():
    environment = game(flags=True)
    state = start(environment)
    with pytest.raises(GameError, match="not legal"):
        state.apply("f1c1")
    state.apply("r1c1")
    table = state.spiel.table
    for word in ("r1c1", "f1c1"):
        with pytest.raises(GameError, match="not legal"):
            state.apply(word)
    mine = min(table.mine_cells)
    flag = environment.words[16 + mine]
    state.apply(flag)
    for word in (flag, environment.words[mine]):
        with pytest.raises(GameError, match="not legal"):
            state.apply(word)


def opened_by_reveal(rows, columns, mined, start_cell):
    """Return the cells that a reveal opens: breadth first by coordinates."""

    def neighbours(cell):
        row, column = divmod(cell, columns)
        return [
            (row + row_step) * columns + column + column_step
            for row_step, column_step in itertools.product((-1, 0, 1), repeat=2)
            if (row_step or column_step) and 0 <= row + row_step < rows and 0 <= column + column_step < columns
        ]

    opened, queue = {start_cell}, deque([start_cell])
    while queue:
        cell = queue.popleft()
        if not set(neighbours(cell)) & mined:
            new_cells = set(neighbours(cell)) - opened
            opened |= new_cells
            queue.extend(new_cells)
    return opened, {cell: len(set(neighbours(cell)) & mined) for cell in range(rows * columns)}


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_episodes_match_an_independent_simulation(data):
    rows, columns = data.draw(st.integers(1, 5)), data.draw(st.integers(2, 5))
    cells = rows * columns
    mines, flags = data.draw(st.integers(1, cells - 1)), data.draw(st.booleans())
    is_shared_pay = data.draw(st.booleans())
    state = start(
        game(rows=rows, columns=columns, mines=mines, flags=flags, pay="share" if is_shared_pay else "cleared"),
        data.draw(st.integers(0, 999)),
    )
    opened, mined, flagged, is_lost = set(), None, set(), False
    while not state.done:
        legal = state.spiel.legal_actions()
        unopened = [cell for cell in range(cells) if cell not in opened | flagged]
        flag_actions = [cells + cell for cell in unopened] if flags and opened and len(flagged) < mines else []
        assert legal == unopened + flag_actions
        index = data.draw(st.sampled_from(legal))
        state.apply_index(index)
        table = state.spiel.table
        mined = set(table.mine_cells) if mined is None else mined
        cell = index % cells
        is_lost = (cell in mined) == (index < cells)
        assert not (is_lost and not opened)  # the first reveal is safe
        if is_lost:
            break
        if index >= cells:
            flagged.add(cell)
        else:
            new_cells, counts = opened_by_reveal(rows, columns, mined, cell)
            opened |= new_cells - flagged
            assert {open_cell: table.count(open_cell) for open_cell in opened} == {
                open_cell: counts[open_cell] for open_cell in opened
            }
        assert table.open_cells == opened and table.mine_cells == mined and len(mined) == mines
    assert state.done and (is_lost or len(opened) == cells - mines)
    assert state.returns == (len(opened) / (cells - mines) if is_shared_pay else float(not is_lost),)
    assert state.plies <= state.game.max_turns


@pytest.mark.parametrize("first_cell", [0, 4, 5])
def test_mines_are_uniform_given_the_first_reveal(first_cell):
    cells, mines, num_draws = 6, 2, 4000
    counts = Counter(mines_of(order_of(cells, 7, index), mines, first_cell) for index in range(num_draws))
    pairs = [
        frozenset(pair) for pair in itertools.combinations([cell for cell in range(cells) if cell != first_cell], mines)
    ]
    assert set(counts) == set(pairs)
    assert stats.chisquare([counts[pair] for pair in pairs]).pvalue > 0.005


def state_reaching(environment, table):
    state = environment.state_of(environment.spiel.new_initial_state())
    for index in range(environment.spiel.opening.layouts):
        state = environment.state_of(environment.spiel.new_initial_state().child(index))
        if mines_of(state.spiel.table.order, table.mines, table.moves[0]) == table.mine_cells:
            break
    for move in table.moves:
        state.apply_index(move)
    return state


def test_prompts():
    environment, full_style_environment = (
        game(rows=2, columns=3, mines=1, layouts=50, flags=True, style=style) for style in ("brief", "full")
    )
    board = make_field(2, 3, (5,), flags=True)
    won_table, exploded_table, table_with_wrong_flag = (
        board.after(1).after(11).after(0).after(2),
        board.after(1).after(5),
        board.after(1).after(10),
    )
    assert (
        state_reaching(environment, won_table).observe(0).text
        == "minesweeper sweeper r1c2 1 f2c3 r1c1 0 r2c1 0 r2c2 1 r1c3 1 cleared"
    )
    assert [state_reaching(environment, won_table).observe(0, since).text for since in (1, 2, 4)] == [
        "1 0 r2c1 0 r2c2 1 1 cleared",
        "0 r2c1 0 r2c2 1 1 cleared",
        "1 cleared",
    ]
    assert state_reaching(environment, board.after(1).after(11)).observe(0, 2).text == "."
    assert state_reaching(environment, exploded_table).observe(0).text == "minesweeper sweeper r1c2 1 r2c3 mine"
    assert state_reaching(environment, table_with_wrong_flag).observe(0, 2).text == "wrong"
    check_contains(
        state_reaching(full_style_environment, won_table).observe(0).text,
        "it has 0 mine(s) next to it, and 2 more cell(s) opened.",
        "All safe cells are open.",
        ":\n0 1 1\n0 1 F\n",
    )
    assert (
        "You revealed r2c3: there is a mine."
        in state_reaching(full_style_environment, exploded_table).observe(0, 2).text
    )
    assert (
        "You flagged f2c2: there is no mine."
        in state_reaching(full_style_environment, table_with_wrong_flag).observe(0, 2).text
    )
    assert "flag" not in start(game(style="full")).observe(0).text
    assert "1/13 point" in start(game(style="full", pay="share")).observe(0).text


test_options_out_of_range_are_refused = make_refusal_test(
    "minesweeper", {"mines": 16}, {"rows": 1, "columns": 1, "mines": 1}
)


@pytest.mark.parametrize("style", ["brief", "full"])
def test_centre_option_opens_the_middle_cell_at_the_start(style):
    centred_game = make_game(
        "minesweeper", options={"rows": 3, "columns": 5, "mines": 2, "layouts": 30, "centre": True, "style": style}
    )
    plain_game = make_game("minesweeper", options={"rows": 3, "columns": 5, "mines": 2, "layouts": 30, "style": style})
    for seed in range(30):
        centred_state, plain_state = (game.reset(Stream.from_seed(seed)) for game in (centred_game, plain_game))
        plain_state.apply("r2c3")  # the middle of 3 rows and 5 columns
        assert (
            centred_state.plies == 0
            and centred_state.table.view(0) == plain_state.table.view(0)
            and centred_state.table.mine_cells == plain_state.table.mine_cells
        )
        if not centred_state.done:
            assert (
                centred_state.legal_actions() == plain_state.legal_actions()
                and "r2c3" in centred_state.observe(0, 0).text
            )
            action = centred_state.legal_actions()[seed % len(centred_state.legal_actions())]
            centred_state.apply(action)
            plain_state.apply(action)
            assert centred_state.returns == plain_state.returns and centred_state.done == plain_state.done
            if not centred_state.done:
                assert (
                    centred_state.observe(0, 1).prompt == plain_state.observe(0, 2).prompt
                )  # only the result of the action
    assert "is open at the start" in centred_game.rules and "is open at the start" not in plain_game.rules
