"""Logic-grid puzzles judged by their clues: against trying every arrangement, by Z3, and against best play."""

import pytest

from sparring.core.errors import OracleError
from sparring.core.rng import Stream
from sparring.environments.zebra.deduction import deduced
from sparring.environments.zebra.solver import solution
from tests.environments.worlds import (
    check_boards_with_mistakes,
    check_puzzle_values,
    constraint_oracle,
    make_game_factory,
    sample_correct_states,
)
from tests.environments.zebra.test_deduction import brute
from tests.methods.oracles.positions import played

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
            keeps = bool(
                brute(houses, attributes, table.clues, [*table.cells[:cell], value_index + 1, *table.cells[cell + 1 :]])
            )
            assert value == float(keeps) and (word in judgement.best) == keeps
        assert (judgement.certainty, judgement.bound) == (1.0, 0.0)


@pytest.mark.parametrize("level", ["any", "search"])
def test_z3_and_backtracking_agree_on_large_puzzles(level):
    states = sample_correct_states(game(houses=5, attributes=4, level=level, puzzles=4), 2)
    assert constraint_oracle().judge(states) == constraint_oracle(solver="z3").judge(states)


@pytest.mark.parametrize("solver", ["backtracking", "z3"])
def test_puzzles_with_no_or_several_solutions_are_refused(solver):
    for clues, what in (
        ((), "several"),
        ((("left", 0, 1),), "several"),
        ((("is", 0, 0), ("is", 0, 1)), "no solution"),
        ((("left", 0, 1), ("before", 1, 0)), "no solution"),
    ):
        with pytest.raises(OracleError, match=what):
            solution(3, 2, clues, solver)


@pytest.mark.parametrize("pay", ["solved", "share"])
@pytest.mark.parametrize("wrong", ["ends", "continues"])
def test_values_are_the_returns_of_best_play(wrong, pay):
    check_puzzle_values(played(game(houses=2, attributes=2, wrong=wrong, pay=pay), number=12))


def test_boards_by_hand_and_after_a_wrong_value():
    environment = game(wrong="continues")
    check_boards_with_mistakes(environment, played(environment, number=10))
    # Blue with milk in house 2 or 3, tea in the other: nothing follows at once. In house 2, tea is in 3, green in 1, red with tea.
    environment = game(attributes=2, puzzle="h1=juice; blue with milk; red without tea; green left blue")
    start = environment.reset(Stream.from_seed(0))
    assert constraint_oracle().judge([start])[0].best == {
        "h1=red",
        "h1=juice",
        "h2=green",
        "h2=tea",
        "h3=blue",
        "h3=milk",
    }
    assert constraint_oracle(right="forced").judge([start])[0].best == {"h1=juice"}
    start.apply("h1=juice")  # now nothing is forced, and every right value is best
    assert constraint_oracle(right="forced").judge([start])[0].best == {
        "h1=red",
        "h2=green",
        "h2=tea",
        "h3=blue",
        "h3=milk",
    }
    start.apply("h3=blue")  # milk is there too, tea in 2, green left of blue, red in 1
    assert constraint_oracle(right="forced").judge([start])[0].best == {"h1=red", "h2=green", "h2=tea", "h3=milk"}
    environment, misled, states = game(houses=4, attributes=4, wrong="continues", pay="share", level="search"), 0, []
    for seed in range(4):
        start = environment.reset(Stream.from_seed(seed))
        states += [environment.state_of(start.spiel.child(index)) for index in start.spiel.legal_actions()]
    states = [state for state in states if state.spiel.table.mistakes]
    for state, every, forced in zip(
        states, constraint_oracle().judge(states), constraint_oracle(right="forced").judge(states), strict=True
    ):
        assert forced.best <= every.best and forced.values == every.values
        table = state.spiel.table
        known = deduced(4, 4, table.clues, table.cells) or table.cells
        misled += any(
            value not in (0, written, true)
            for value, written, true in zip(known, table.cells, table.solution, strict=True)
        )
    assert misled > 5  # boards on which a wrong value follows


@pytest.mark.parametrize("level", ["deduced", "search"])
@pytest.mark.parametrize(("houses", "attributes"), [(3, 3), (5, 3)])
def test_forced_moves_are_those_of_unit_propagation(houses, attributes, level):
    states, fewer = sample_correct_states(game(houses=houses, attributes=attributes, level=level), 6), 0
    verdicts = zip(
        constraint_oracle().judge(states), constraint_oracle(right="forced").judge(states), states, strict=True
    )
    for every, forced, state in verdicts:
        table = state.spiel.table
        known = deduced(houses, attributes, table.clues, table.cells)
        moves = dict(zip(every.actions, state.spiel.legal_actions(), strict=True))
        follow = {word for word in every.best if known[moves[word] // houses] == moves[word] % houses + 1}
        assert forced.best == (follow or every.best) and forced.values == every.values
        fewer += 0 < len(follow) < len(every.best)
    assert (fewer > 0) == (level == "search")
