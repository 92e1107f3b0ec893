"""Sudoku: puzzles with one solution (counted by an independent search), levels, payoffs and prompts."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.core.errors import ConfigError
from sparring.environments.sudoku import puzzle_of
from tests.environments.worlds import check_contains, correct_actions, make_game_factory, make_refusal_test, start

BOX_SHAPES = {4: (2, 2), 6: (2, 3), 9: (3, 3)}
PUZZLE = "1.3. 34.. 21.. .3.1"
SOLUTION = "1234/3412/2143/4321".replace("/", "")
game = make_game_factory("sudoku")


def can_place(size, cells, cell, digit):
    box_rows, box_columns = BOX_SHAPES[size]
    row, column = divmod(cell, size)
    for filled_cell, value in enumerate(cells):
        filled_row, filled_column = divmod(filled_cell, size)
        if (
            filled_cell != cell
            and value == digit
            and (
                filled_row == row
                or filled_column == column
                or (filled_row // box_rows == row // box_rows and filled_column // box_columns == column // box_columns)
            )
        ):
            return False
    return True


def count_solutions(size, cells):
    """Return the number of solutions by trying every digit in the first empty cell."""
    if 0 not in cells:
        return int(all(can_place(size, cells, cell, digit) for cell, digit in enumerate(cells)))
    cell = cells.index(0)
    return sum(
        count_solutions(size, [*cells[:cell], digit, *cells[cell + 1 :]])
        for digit in range(1, size + 1)
        if can_place(size, cells, cell, digit)
    )


@pytest.mark.parametrize(("size", "blanks"), [(4, 1), (4, 6), (4, 11), (6, 12), (6, 22), (9, 20), (9, 44)])
def test_every_puzzle_has_one_solution_and_the_given_blanks(size, blanks):
    for index in range(20 if size == 4 else 5):
        givens, solution = puzzle_of(size, blanks, "any", 3, index)
        assert givens.count(0) == blanks
        assert count_solutions(size, list(givens)) == count_solutions(size, list(solution)) == 1
        assert all(digit in (0, solution_digit) for digit, solution_digit in zip(givens, solution, strict=True))


def fill_singles(size, cells, hidden):
    """Return the board filled by repeated passes of naked singles and, with ``hidden``, hidden singles."""
    box_rows, box_columns = BOX_SHAPES[size]
    rows = [[row * size + column for column in range(size)] for row in range(size)]
    columns = [list(cells) for cells in zip(*rows, strict=True)]
    boxes = [
        [(top + r) * size + left + c for r, c in itertools.product(range(box_rows), range(box_columns))]
        for top, left in itertools.product(range(0, size, box_rows), range(0, size, box_columns))
    ]
    cells, cells_before = list(cells), None
    while cells_before != cells:
        cells_before = list(cells)
        for cell in range(size * size):
            candidates = [
                digit for digit in range(1, size + 1) if not cells[cell] and can_place(size, cells, cell, digit)
            ]
            cells[cell] = candidates[0] if len(candidates) == 1 else cells[cell]
        for unit, digit in itertools.product([*rows, *columns, *boxes], range(1, size + 1)) if hidden else ():
            candidates = [cell for cell in unit if not cells[cell] and can_place(size, cells, cell, digit)]
            if len(candidates) == 1 and digit not in [cells[cell] for cell in unit]:
                cells[candidates[0]] = digit
    return cells


@pytest.mark.parametrize(("size", "blanks"), [(4, 10), (6, 22), (9, 50)])
def test_levels_need_the_deduction_that_they_promise(size, blanks):
    for index in range(4):
        naked_puzzle, _ = puzzle_of(size, blanks, "naked", 0, index)
        assert 0 not in fill_singles(size, naked_puzzle, hidden=False)
        singles_puzzle, _ = puzzle_of(size, blanks, "singles", 0, index)
        assert 0 not in fill_singles(size, singles_puzzle, hidden=True)
        if size > 4:
            assert 0 in fill_singles(size, puzzle_of(size, blanks + 2, "search", 0, index)[0], hidden=True)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_payoffs_by_the_number_of_right_digits(data):
    wrong, pay = data.draw(st.sampled_from(["ends", "continues"])), data.draw(st.sampled_from(["solved", "share"]))
    blanks = data.draw(st.integers(1, 12))
    state, num_right, num_mistakes = (
        start(
            game(size=data.draw(st.sampled_from([4, 6])), blanks=blanks, wrong=wrong, pay=pay),
            data.draw(st.integers(0, 99)),
        ),
        0,
        0,
    )
    while not state.done:
        right_words = [state.game.words[index] for index in correct_actions(state)]
        word = data.draw(st.sampled_from(right_words if data.draw(st.booleans()) else state.legal_actions()))
        num_right, num_mistakes = num_right + (word in right_words), num_mistakes + (word not in right_words)
        state.apply(word)
        assert state.parse(word) == word and word[:5] not in {
            action[:5] for action in state.legal_actions()
        }  # the cell is filled
        assert state.done == (num_right + num_mistakes == blanks or (wrong == "ends" and num_mistakes > 0))
    assert state.returns == (num_right / blanks if pay == "share" else float(num_right == blanks),)


def test_banks_and_given_puzzles():
    environment = game(puzzle=PUZZLE, blanks=2)
    assert environment.max_turns == 8
    state = start(environment)
    assert state.spiel.table.givens == tuple(int(sign) for sign in PUZZLE.replace(" ", "").replace(".", "0"))
    assert "".join(map(str, state.spiel.table.solution)) == SOLUTION
    assert environment.spiel.new_initial_state().chance_outcomes() == [(0, 1.0)]
    with pytest.raises(ConfigError, match="no such puzzle was found"):
        game(blanks=1, level="search")


@pytest.mark.parametrize(
    ("puzzle", "message"),
    [
        ("1" * 15, "has 15 cells"),
        ("5" + "." * 15, "holds '5'"),
        ("11" + "." * 14, "no solution"),
        ("." * 16, "several solutions"),
        (SOLUTION, "no empty cell"),
        ("1234 341. 2143 432.".replace("1234", "1243"), "no solution"),
    ],
)
def test_a_puzzle_without_exactly_one_solution_is_refused(puzzle, message):
    with pytest.raises(ConfigError, match=message):
        game(puzzle=puzzle)


test_options_out_of_range_are_refused = make_refusal_test(
    "sudoku", {"blanks": 0}, {"blanks": 13}, {"size": 6, "blanks": 29}
)


def test_keys_views_and_prompts():
    environment = game(puzzle=PUZZLE)
    first_state, second_state = start(environment), start(environment)
    for state, order in ((first_state, ("r1c2=2", "r1c4=4")), (second_state, ("r1c4=4", "r1c2=2"))):
        for word in order:
            state.apply(word)
    assert first_state.observe(0).key == "1.3./34../21../.3.1 r1c2=2 r1c4=4" != second_state.observe(0).key
    assert first_state.observe(0).view == second_state.observe(0).view
    state = start(game(puzzle="1.34 34.2 21.3 4321"))
    assert (
        state.observe(0).text
        == "sudoku solver r1c1=1 r1c3=3 r1c4=4 r2c1=3 r2c2=4 r2c4=2 r3c1=2 r3c2=1 r3c4=3 r4c1=4 r4c2=3 r4c3=2 r4c4=1"
    )
    state.apply("r2c3=1")
    assert state.observe(0, 1).text == "."
    assert state.observe(0).text.endswith(" r4c4=1 r2c3=1")
    text = start(game(size=6, puzzle="", style="full")).observe(0).text
    check_contains(
        text,
        "6 rows and 6 columns",
        "box of 2 rows and 3 columns",
        "ends the game",
        "1 point if you solve",
        " | ",
        "-------------",
        "r1c2=3",
    )
    text = start(game(style="full", wrong="continues", pay="share")).observe(0).text
    assert "right or wrong" in text and "1/6 point" in text
