"""Logic-grid puzzles: one solution (by trying everything and by Z3), no clue to spare, levels, pay, seeds that bind, the wording."""

import itertools

import pyspiel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.core.errors import ConfigError, GameError
from sparring.environments.zebra.deduction import deduced
from sparring.environments.zebra.puzzles import OF_KIND, clues_text, puzzle_of
from sparring.environments.zebra.solver import by_z3
from tests.cases import every_case
from tests.environments.worlds import check_says, maker, right_actions, start

SIZES = [(2, 2), (2, 4), (3, 2), (3, 3), (4, 2)]
PUZZLE = "green next blue; red left green, not h3=tea milk with green"
MEANING = {
    "with": lambda one, two: one == two, "without": lambda one, two: one != two, "left": lambda one, two: one + 1 == two,
    "before": lambda one, two: one < two, "next": lambda one, two: one in (two - 1, two + 1),
}
game = maker("zebra")


def true_of(at, kind, a, b):
    """Return whether a clue is true of the houses of all items, straight from its meaning."""
    if kind in ("is", "not"):
        return (at[a] == b) == (kind == "is")
    return MEANING[kind](at[a], at[b])


def every_solution(houses, attributes, clues):
    """Return the boards that keep to the clues, by trying every arrangement."""
    boards = []
    for rows in itertools.product(itertools.permutations(range(houses)), repeat=attributes):
        at = [house for row in rows for house in row]
        if all(true_of(at, *clue) for clue in clues):
            boards.append(tuple(rows[attribute].index(house) + 1 for house in range(houses) for attribute in range(attributes)))
    return boards


@every_case("level", ["any", "deduced"])
@every_case("kinds", ["places", "links", "order"])
@every_case(("houses", "attributes"), SIZES)
def test_clues_leave_one_solution_by_trying_everything_and_none_can_be_spared(houses, attributes, kinds, level):
    for index in range(4):
        clues, solution = puzzle_of(houses, attributes, kinds, level, 3, index)
        assert {kind for kind, _, _ in clues} <= set(OF_KIND[kinds])
        assert every_solution(houses, attributes, clues) == [solution]
        for left_out in range(len(clues)):
            fewer = clues[:left_out] + clues[left_out + 1 :]
            if level == "any":
                assert len(every_solution(houses, attributes, fewer)) > 1
            else:
                assert 0 in deduced(houses, attributes, fewer)


@pytest.mark.parametrize("kinds", ["places", "links", "order"])
@pytest.mark.parametrize(("houses", "attributes"), [(3, 4), (4, 3), (4, 4), (5, 2), (5, 4)])
def test_clues_leave_one_solution_by_z3(houses, attributes, kinds):
    for index in range(2):
        clues, solution = puzzle_of(houses, attributes, kinds, "any", 0, index)
        assert by_z3(houses, attributes, clues, 2) == [solution]
        assert len(by_z3(houses, attributes, clues[1:], 2)) == 2


@pytest.mark.parametrize(("houses", "attributes"), [(3, 2), (3, 3), (5, 4)])
def test_levels_need_the_deduction_that_they_promise(houses, attributes):
    for index in range(6):
        clues, solution = puzzle_of(houses, attributes, "order", "deduced", 0, index)
        assert deduced(houses, attributes, clues) == solution
        clues, solution = puzzle_of(houses, attributes, "order", "search", 0, index)
        assert 0 in deduced(houses, attributes, clues)
        assert by_z3(houses, attributes, clues, 2) == [solution]


@pytest.mark.parametrize("kinds", ["places", "links", "order"])
def test_a_bank_has_clues_of_every_kind_and_few_that_name_the_house(kinds):
    clue_kinds = [kind for index in range(64) for kind, _, _ in puzzle_of(3, 3, kinds, "any", 0, index)[0]]
    assert set(clue_kinds) == set(OF_KIND[kinds])
    assert kinds != "order" or clue_kinds.count("is") < len(clue_kinds) / 8


@pytest.mark.parametrize(("houses", "attributes"), SIZES)
@pytest.mark.parametrize("wrong", ["ends", "continues"])
def test_the_solution_pays_one_and_a_filled_cell_is_illegal(houses, attributes, wrong):
    state, cells = start(game(houses=houses, attributes=attributes, wrong=wrong)), houses * attributes
    for step in range(cells):
        assert len(state.legal_actions()) == houses * (cells - step)
        assert state.returns == (0.0,) and not state.done
        house, value = state.game.words[right_actions(state)[0]].split("=")
        row = next(row for row in ("red green blue white", "tea milk juice water", "cat dog fish bird", "rice bread soup") if value in row)
        state.apply(f"{house}={value}")
        for other in row.split()[:houses] if not state.done else ():
            with pytest.raises(GameError, match="not legal"):
                state.apply(f"{house}={other}")
    assert state.done and state.returns == (1.0,)
    assert state.spiel.table.cells == state.spiel.table.solution


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_what_pays_by_the_number_of_right_values(data):
    wrong, pay = data.draw(st.sampled_from(["ends", "continues"])), data.draw(st.sampled_from(["solved", "share"]))
    houses, attributes = data.draw(st.sampled_from(SIZES))
    environment = game(houses=houses, attributes=attributes, wrong=wrong, pay=pay)
    state, right, mistakes, cells = start(environment, data.draw(st.integers(0, 99))), 0, 0, houses * attributes
    while not state.done:
        good = [state.game.words[index] for index in right_actions(state)]
        word = data.draw(st.sampled_from((data.draw(st.booleans()) and good) or state.legal_actions()))
        right, mistakes = right + (word in good), mistakes + (word not in good)
        state.apply(word)
        assert state.done == (right + mistakes == cells or (wrong == "ends" and mistakes > 0))
    assert state.returns == (right / cells if pay == "share" else float(right == cells),)


def test_banks_and_given_puzzles():
    environment, again = game(), game()
    for seed in range(10):
        assert str(start(environment, seed).spiel) == str(start(again, seed).spiel)
    seen = {start(game(puzzles=4), seed).spiel.table.clues for seed in range(60)}
    assert seen == {puzzle_of(3, 3, "order", "any", 0, index)[0] for index in range(4)}
    banks = [{puzzle_of(3, 3, "order", "any", bank, index)[0] for index in range(64)} for bank in range(2)]
    assert len(banks[0]) == 64 and not banks[0] & banks[1]
    assert game(puzzles=5).spiel.new_initial_state().chance_outcomes() == [(index, 0.2) for index in range(5)]
    # A puzzle by number is the same in every version: results name puzzles by it.
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
    assert set(state.observe(0).text.split()) <= set(environment.vocabulary())


@settings(max_examples=60, deadline=None)
@given(size=st.sampled_from(SIZES), kinds=st.sampled_from(["places", "links", "order"]), index=st.integers(0, 99))
def test_what_the_clues_say_is_read_back(size, kinds, index):
    houses, attributes = size
    clues, solution = puzzle_of(houses, attributes, kinds, "any", 0, index)
    table = game(houses=houses, attributes=attributes, puzzle=clues_text(houses, clues)).table
    assert table.only == (clues, solution)


@pytest.mark.parametrize(
    ("puzzle", "message"),
    [
        ("h1=red h2=red", "no solution"), ("red left blue blue left red", "no solution"), ("h1=red", "several solutions"),
        ("h1=red red beside tea", "no clue at 'red beside tea'"), ("h1=red not", "no clue at 'not'"), ("red left", "no clue at 'red left'"),
        ("red with red", "no clue at 'red with red'"), ("h4=red", "no clue at 'h4=red'"), ("red left white", "no clue"), ("red is tea", "no clue"),
    ],
)
def test_clues_without_exactly_one_solution_or_that_are_none_are_refused(puzzle, message):
    with pytest.raises(ConfigError, match=message):
        game(puzzle=puzzle)


@pytest.mark.parametrize("options", [{"houses": 2}, {"kinds": "places"}], ids=["small", "places"])
def test_a_level_for_which_no_puzzle_is_found_is_refused(options):
    with pytest.raises(ConfigError, match="no such puzzle was found"):
        game(level="search", **options)


def test_flags_keys_views_and_wording():
    environment = game(attributes=2, puzzle=PUZZLE)
    assert (environment.num_seats, environment.cooperative, environment.zero_sum, environment.max_turns) == (1, True, False, 6)
    first, second = start(environment), start(environment)
    for state, order in ((first, ("h1=red", "h2=milk")), (second, ("h2=milk", "h1=red"))):
        for word in order:
            state.apply(word)
    assert first.observe(0).key == "green next blue red left green not h3=tea milk with green | h1=red h2=milk" != second.observe(0).key
    assert first.observe(0).view == second.observe(0).view
    pyspiel.random_sim_test(environment.spiel, num_sims=3, serialize=True, verbose=False)
    again = pyspiel.load_game(str(environment.spiel))  # the clues outlive a trip as text
    assert again.opening == environment.table and environment.table.only is not None
    sizes = [(2, 2), (3, 3), (5, 4)]
    assert [len(game(houses=houses, attributes=attributes).vocabulary()) for houses, attributes in sizes] == [22, 46, 130]
    assert not {"with", "left", "red"} & set(game(kinds="places").vocabulary())
    state = start(game(attributes=2, puzzle=PUZZLE))
    state.apply("h2=milk")
    assert state.observe(0, 1).text == "."
    assert state.observe(0).text.endswith(" milk with green h2=milk")
    puzzle = "h1=red not h3=blue red with tea red without milk red left blue tea before milk juice next tea cat with red dog before fish"
    state = start(game(puzzle=puzzle, style="full"))
    state.apply("h1=red")
    text = state.observe(0).text
    check_says(
        text, "3 houses in a row", "(colour: red, green, blue; drink: tea, milk, juice; pet: cat, dog, fish)", "ends the game", "1 point if you solve",
        "1. House 1 has red.", "2. House 3 does not have blue.", "3. Red and tea are in the same house.", "4. Red and milk are not in the same house.",
        "5. The house with red is directly to the left of the house with blue.", "6. The house with tea is somewhere to the left of the house with milk.",
        "7. The house with juice is next to the house with tea.", "house 1: colour red, drink ?, pet ?",
    )
    text = start(game(style="full", wrong="continues", pay="share")).observe(0).text
    assert "right or wrong" in text and "1/9 point" in text
