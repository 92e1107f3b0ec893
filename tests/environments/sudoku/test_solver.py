"""The solver of sudoku against an independent search, Z3 and best play."""

import pytest

from sparring.core.errors import OracleError
from sparring.core.rng import Stream
from sparring.environments.sudoku import puzzle_of
from sparring.environments.sudoku.solver import solution
from tests.environments.sudoku.test_sudoku import BOX_SHAPES, can_place
from tests.environments.worlds import (
    check_boards_with_mistakes,
    check_puzzle_values,
    constraint_oracle,
    make_game_factory,
    sample_correct_states,
)
from tests.methods.oracles.positions import random_states

game = make_game_factory("sudoku")


def is_solvable(size, cells):
    if 0 not in cells:
        return True
    cell = cells.index(0)
    boards = ([*cells[:cell], digit, *cells[cell + 1 :]] for digit in range(1, size + 1))
    return any(can_place(size, board, cell, board[cell]) and is_solvable(size, board) for board in boards)


@pytest.mark.parametrize(("size", "blanks", "plays"), [(4, 11, 8), (6, 14, 2), (9, 24, 1)])
@pytest.mark.parametrize("solver", ["backtracking", "z3"])
def test_a_move_is_right_exactly_if_the_board_keeps_a_solution(size, blanks, plays, solver):
    states = sample_correct_states(game(size=size, blanks=blanks), plays)
    for state, judgement in zip(states, constraint_oracle(solver=solver).judge(states), strict=True):
        cells = state.spiel.table.cells
        for index, word, value in zip(state.spiel.legal_actions(), judgement.actions, judgement.values, strict=True):
            cell, digit = index // size, index % size + 1
            board = [*cells[:cell], digit, *cells[cell + 1 :]]
            is_right = can_place(size, cells, cell, digit) and is_solvable(size, board)
            assert value == float(is_right) and (word in judgement.best) == is_right
        assert (judgement.certainty, judgement.bound) == (1.0, 0.0)


def test_z3_and_backtracking_agree_on_hard_puzzles_and_on_several_solutions():
    for index in range(3):
        puzzle, _ = puzzle_of(9, 52, "search", 0, index)
        assert solution(9, puzzle, "backtracking") == solution(9, puzzle, "z3")
    for solver in ("backtracking", "z3"):
        for board, message in (
            ((0,) * 16, "several"),
            ((1, 1, *(0,) * 14), "no solution"),
            ((1, 2, 3, 0, 0, 0, 0, 4, *(0,) * 8), "no solution"),
        ):
            with pytest.raises(OracleError, match=message):
                solution(4, board, solver)


@pytest.mark.parametrize("pay", ["solved", "share"])
@pytest.mark.parametrize("wrong", ["ends", "continues"])
def test_values_are_the_returns_of_best_play(wrong, pay):
    check_puzzle_values(random_states(game(blanks=3, wrong=wrong, pay=pay), number=12))


def test_lost_boards_and_forced_moves_by_hand():
    environment = game(wrong="continues")
    check_boards_with_mistakes(environment, random_states(environment, number=10))
    environment = game(
        puzzle="1..4 ..13 ..4. .2.."
    )  # r1c3=2: its units hold 1, 3 and 4; r2c1=2: 2 fits no other cell of row 2
    judgement = constraint_oracle(right="forced").judge([environment.reset(Stream.from_seed(0))])[0]
    assert judgement.best == {
        *["r1c2=3", "r1c3=2", "r2c1=2", "r2c2=4", "r3c1=3", "r3c2=1", "r3c4=2", "r4c1=4", "r4c3=3", "r4c4=1"]
    }


def is_single(size, cells, cell, digit):
    """Return whether a cell has only this digit, or the digit only this cell in its row, column or box."""
    box_rows, box_columns = BOX_SHAPES[size]

    def is_possible(digit_to_place, number):
        return cells[digit_to_place] == 0 and can_place(size, cells, digit_to_place, number)

    if [number for number in range(1, size + 1) if is_possible(cell, number)] == [digit]:
        return True
    labels = (lambda c: c // size, lambda c: c % size, lambda c: (c // size // box_rows, c % size // box_columns))
    return any(
        [other for other in range(size * size) if label(other) == label(cell) and is_possible(other, digit)] == [cell]
        for label in labels
    )


@pytest.mark.parametrize(("size", "blanks"), [(6, 24), (9, 52)])
def test_forced_moves_are_those_of_one_deduction(size, blanks):
    states, num_narrowed = sample_correct_states(game(size=size, blanks=blanks, level="search"), 2), 0
    judgements = zip(
        constraint_oracle().judge(states), constraint_oracle(right="forced").judge(states), states, strict=True
    )
    for judgement, forced_judgement, state in judgements:
        cells = list(state.spiel.table.cells)
        moves = dict(
            zip(judgement.actions, (divmod(index, size) for index in state.spiel.legal_actions()), strict=True)
        )
        deduced = {word for word in judgement.best if is_single(size, cells, moves[word][0], moves[word][1] + 1)}
        assert forced_judgement.best == (deduced or judgement.best) and forced_judgement.values == judgement.values
        num_narrowed += deduced < judgement.best
    assert num_narrowed > 10
