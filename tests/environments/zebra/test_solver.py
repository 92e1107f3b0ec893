"""The solver of zebra against enumeration, Z3 and best play."""

import pytest

from sparring.core.errors import OracleError
from sparring.core.rng import Stream
from sparring.environments.zebra.deduction import deduce_board
from sparring.environments.zebra.solver import solution
from tests.environments.worlds import (
    check_boards_with_mistakes,
    check_puzzle_values,
    constraint_oracle,
    make_game_factory,
    sample_correct_states,
)
from tests.environments.zebra.test_deduction import enumerate_boards
from tests.methods.oracles.positions import random_states

game = make_game_factory("zebra")


@pytest.mark.parametrize(("houses", "attributes", "plays"), [(2, 3, 6), (3, 2, 6), (3, 3, 1), (4, 2, 1)])
@pytest.mark.parametrize("kinds", ["places", "order"])
@pytest.mark.parametrize("solver", ["backtracking", "z3"])
def test_a_move_is_right_exactly_if_the_board_keeps_a_solution(houses, attributes, plays, kinds, solver):
    states = sample_correct_states(game(houses=houses, attributes=attributes, kinds=kinds), plays)
    for state, judgement in zip(states, constraint_oracle(solver=solver).judge(states), strict=True):
        table = state.spiel.table
        for index, word, value in zip(state.spiel.legal_actions(), judgement.actions, judgement.values, strict=True):
            cell, value_index = divmod(index, houses)
            is_right = bool(
                enumerate_boards(
                    houses, attributes, table.clues, [*table.cells[:cell], value_index + 1, *table.cells[cell + 1 :]]
                )
            )
            assert value == float(is_right) and (word in judgement.best) == is_right
        assert (judgement.certainty, judgement.bound) == (1.0, 0.0)


@pytest.mark.parametrize("level", ["any", "search"])
def test_z3_and_backtracking_agree_on_large_puzzles(level):
    states = sample_correct_states(game(houses=5, attributes=4, level=level, puzzles=4), 2)
    assert constraint_oracle().judge(states) == constraint_oracle(solver="z3").judge(states)


@pytest.mark.parametrize("solver", ["backtracking", "z3"])
def test_puzzles_with_no_or_several_solutions_are_refused(solver):
    for clues, message in (
        ((), "several"),
        ((("left", 0, 1),), "several"),
        ((("is", 0, 0), ("is", 0, 1)), "no solution"),
        ((("left", 0, 1), ("before", 1, 0)), "no solution"),
    ):
        with pytest.raises(OracleError, match=message):
            solution(3, 2, clues, solver)


@pytest.mark.parametrize("pay", ["solved", "share"])
@pytest.mark.parametrize("wrong", ["ends", "continues"])
def test_values_are_the_returns_of_best_play(wrong, pay):
    check_puzzle_values(random_states(game(houses=2, attributes=2, wrong=wrong, pay=pay), number=12))


def test_forced_moves_by_hand_and_after_a_mistake():
    environment = game(wrong="continues")
    check_boards_with_mistakes(environment, random_states(environment, number=10))
    # Blue and milk are in house 2 or 3, and tea in the other. House 2 fails: tea in 3, green in 1, so red with tea in 3.
    environment = game(attributes=2, puzzle="h1=juice; blue with milk; red without tea; green left blue")
    state = environment.reset(Stream.from_seed(0))
    assert constraint_oracle().judge([state])[0].best == {
        "h1=red",
        "h1=juice",
        "h2=green",
        "h2=tea",
        "h3=blue",
        "h3=milk",
    }
    assert constraint_oracle(right="forced").judge([state])[0].best == {"h1=juice"}
    state.apply("h1=juice")  # no value is forced, so every right value is best
    assert constraint_oracle(right="forced").judge([state])[0].best == {
        "h1=red",
        "h2=green",
        "h2=tea",
        "h3=blue",
        "h3=milk",
    }
    state.apply("h3=blue")  # so milk is in 3, tea in 2, green in 2 and red in 1
    assert constraint_oracle(right="forced").judge([state])[0].best == {"h1=red", "h2=green", "h2=tea", "h3=milk"}
    environment, num_misled, states = (
        game(houses=4, attributes=4, wrong="continues", pay="share", level="search"),
        0,
        [],
    )
    for seed in range(4):
        state = environment.reset(Stream.from_seed(seed))
        states += [environment.state_of(state.spiel.child(index)) for index in state.spiel.legal_actions()]
    states = [state for state in states if state.spiel.table.mistakes]
    for state, judgement, forced_judgement in zip(
        states, constraint_oracle().judge(states), constraint_oracle(right="forced").judge(states), strict=True
    ):
        assert forced_judgement.best <= judgement.best and forced_judgement.values == judgement.values
        table = state.spiel.table
        deduced_cells = deduce_board(4, 4, table.clues, table.cells) or table.cells
        num_misled += any(
            value not in (0, filled, solution_value)
            for value, filled, solution_value in zip(deduced_cells, table.cells, table.solution, strict=True)
        )
    assert num_misled > 5  # boards on which deduction yields a wrong value


@pytest.mark.parametrize("level", ["deduced", "search"])
@pytest.mark.parametrize(("houses", "attributes"), [(3, 3), (5, 3)])
def test_forced_moves_are_those_of_unit_propagation(houses, attributes, level):
    states, num_narrowed = sample_correct_states(game(houses=houses, attributes=attributes, level=level), 6), 0
    judgements = zip(
        constraint_oracle().judge(states), constraint_oracle(right="forced").judge(states), states, strict=True
    )
    for judgement, forced_judgement, state in judgements:
        table = state.spiel.table
        deduced_cells = deduce_board(houses, attributes, table.clues, table.cells)
        moves = dict(zip(judgement.actions, state.spiel.legal_actions(), strict=True))
        deduced_words = {
            word for word in judgement.best if deduced_cells[moves[word] // houses] == moves[word] % houses + 1
        }
        assert (
            forced_judgement.best == (deduced_words or judgement.best) and forced_judgement.values == judgement.values
        )
        num_narrowed += 0 < len(deduced_words) < len(judgement.best)
    assert (num_narrowed > 0) == (level == "search")
