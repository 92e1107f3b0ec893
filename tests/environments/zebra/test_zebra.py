"""Logic-grid puzzles: unique solutions, no redundant clue, levels, payoffs, prompts."""

import pyspiel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.core.errors import ConfigError
from sparring.environments.zebra.deduction import deduce_board
from sparring.environments.zebra.puzzles import CLUE_KINDS, clues_text, puzzle_of
from sparring.environments.zebra.solver import z3_solutions
from tests.cases import every_case
from tests.environments.worlds import check_contains, correct_actions, make_game_factory, start
from tests.environments.zebra.test_deduction import SIZES, enumerate_boards

PUZZLE = "green next blue; red left green, not h3=tea milk with green"
game = make_game_factory("zebra")


@every_case("level", ["any", "deduced"])
@every_case("kinds", ["places", "links", "order"])
@every_case(("houses", "attributes"), SIZES)
def test_puzzles_have_one_solution_and_no_redundant_clue(houses, attributes, kinds, level):
    for index in range(4):
        clues, solution = puzzle_of(houses, attributes, kinds, level, 3, index)
        assert {kind for kind, _, _ in clues} <= set(CLUE_KINDS[kinds])
        assert enumerate_boards(houses, attributes, clues) == {solution}
        for index_left_out in range(len(clues)):
            other_clues = clues[:index_left_out] + clues[index_left_out + 1 :]
            if level == "any":
                assert len(enumerate_boards(houses, attributes, other_clues)) > 1
            else:
                assert 0 in deduce_board(houses, attributes, other_clues)


@pytest.mark.parametrize(("houses", "attributes"), [(3, 2), (3, 3), (5, 4)])
def test_levels_need_the_deduction_that_they_promise(houses, attributes):
    for index in range(6):
        clues, solution = puzzle_of(houses, attributes, "order", "deduced", 0, index)
        assert deduce_board(houses, attributes, clues) == solution
        clues, solution = puzzle_of(houses, attributes, "order", "search", 0, index)
        assert 0 in deduce_board(houses, attributes, clues)
        assert z3_solutions(houses, attributes, clues, 2) == [solution]


@pytest.mark.parametrize("kinds", ["places", "links", "order"])
def test_banks_have_clues_of_every_kind_and_few_of_kind_is(kinds):
    clue_kinds = [kind for index in range(64) for kind, _, _ in puzzle_of(3, 3, kinds, "any", 0, index)[0]]
    assert set(clue_kinds) == set(CLUE_KINDS[kinds])
    assert kinds != "order" or clue_kinds.count("is") < len(clue_kinds) / 8


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_payoffs_by_the_number_of_right_values(data):
    wrong, pay = data.draw(st.sampled_from(["ends", "continues"])), data.draw(st.sampled_from(["solved", "share"]))
    houses, attributes = data.draw(st.sampled_from(SIZES))
    environment = game(houses=houses, attributes=attributes, wrong=wrong, pay=pay)
    state, num_right, num_mistakes, num_cells = (
        start(environment, data.draw(st.integers(0, 99))),
        0,
        0,
        houses * attributes,
    )
    while not state.done:
        right_words = [state.game.words[index] for index in correct_actions(state)]
        word = data.draw(st.sampled_from((data.draw(st.booleans()) and right_words) or state.legal_actions()))
        num_right, num_mistakes = num_right + (word in right_words), num_mistakes + (word not in right_words)
        state.apply(word)
        assert state.done or word not in state.legal_actions()
        assert state.done == (num_right + num_mistakes == num_cells or (wrong == "ends" and num_mistakes > 0))
    assert state.returns == (num_right / num_cells if pay == "share" else float(num_right == num_cells),)


def test_banks_and_given_puzzles():
    # A numbered puzzle must not change between versions, because results refer to its number.
    texts = [clues_text(3, puzzle_of(3, 3, "order", "any", 0, index)[0]) for index in range(2)]
    assert texts == [
        "green with cat green without milk fish left cat red next fish juice with fish",
        "green without tea tea left blue red before juice tea next juice not h2=juice red with dog green without cat",
    ]
    environment = game(puzzle=PUZZLE, attributes=2, kinds="places")
    state = start(environment)
    assert state.observe(0).text == "zebra solver green next blue red left green not h3=tea milk with green"
    assert state.spiel.table.solution == (1, 1, 2, 2, 3, 3)
    assert environment.spiel.new_initial_state().chance_outcomes() == [(0, 1.0)]


@settings(max_examples=60, deadline=None)
@given(size=st.sampled_from(SIZES), kinds=st.sampled_from(["places", "links", "order"]), index=st.integers(0, 99))
def test_clues_as_text_are_parsed_unchanged(size, kinds, index):
    houses, attributes = size
    clues, solution = puzzle_of(houses, attributes, kinds, "any", 0, index)
    table = game(houses=houses, attributes=attributes, puzzle=clues_text(houses, clues)).table
    assert table.fixed_puzzle == (clues, solution)


@pytest.mark.parametrize(
    ("puzzle", "message"),
    [
        ("h1=red h2=red", "no solution"),
        ("red left blue blue left red", "no solution"),
        ("h1=red", "several solutions"),
        ("h1=red red beside tea", "no clue at 'red beside tea'"),
        ("h1=red not", "no clue at 'not'"),
        ("red left", "no clue at 'red left'"),
        ("red with red", "no clue at 'red with red'"),
        ("h4=red", "no clue at 'h4=red'"),
        ("red left white", "no clue"),
        ("red is tea", "no clue"),
    ],
)
def test_unparsable_clues_and_puzzles_without_one_solution_are_refused(puzzle, message):
    with pytest.raises(ConfigError, match=message):
        game(puzzle=puzzle)


@pytest.mark.parametrize("options", [{"houses": 2}, {"kinds": "places"}], ids=["small", "places"])
def test_a_level_for_which_no_puzzle_is_found_is_refused(options):
    with pytest.raises(ConfigError, match="no such puzzle was found"):
        game(level="search", **options)


def test_keys_views_and_prompts():
    environment = game(attributes=2, puzzle=PUZZLE)
    first_state, second_state = start(environment), start(environment)
    for state, order in ((first_state, ("h1=red", "h2=milk")), (second_state, ("h2=milk", "h1=red"))):
        for word in order:
            state.apply(word)
    assert (
        first_state.observe(0).key
        == "green next blue red left green not h3=tea milk with green | h1=red h2=milk"
        != second_state.observe(0).key
    )
    assert first_state.observe(0).view == second_state.observe(0).view
    reloaded = pyspiel.load_game(str(environment.spiel))  # the clues survive conversion to text
    assert reloaded.opening == environment.table and environment.table.fixed_puzzle is not None
    state = start(game(attributes=2, puzzle=PUZZLE))
    state.apply("h2=milk")
    assert state.observe(0, 1).text == "."
    assert state.observe(0).text.endswith(" milk with green h2=milk")
    puzzle = "h1=red not h3=blue red with tea red without milk red left blue tea before milk juice next tea cat with red dog before fish"
    state = start(game(puzzle=puzzle, style="full"))
    state.apply("h1=red")
    text = state.observe(0).text
    check_contains(
        text,
        "3 houses in a row",
        "(colour: red, green, blue; drink: tea, milk, juice; pet: cat, dog, fish)",
        "ends the game",
        "1 point if you solve",
        "1. House 1 has red.",
        "2. House 3 does not have blue.",
        "3. Red and tea are in the same house.",
        "4. Red and milk are not in the same house.",
        "5. The house with red is directly to the left of the house with blue.",
        "6. The house with tea is somewhere to the left of the house with milk.",
        "7. The house with juice is next to the house with tea.",
        "house 1: colour red, drink ?, pet ?",
    )
    text = start(game(style="full", wrong="continues", pay="share")).observe(0).text
    assert "right or wrong" in text and "1/9 point" in text
