"""Logic-grid puzzles: solutions against enumeration, and narrowing against unit propagation on clauses."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.environments.zebra.deduction import (
    KINDS,
    PLACES,
    deduce_board,
    possible_houses,
    solutions,
    true_clues,
)
from tests.cases import every_case

SIZES = [(2, 2), (2, 4), (3, 2), (3, 3), (4, 2)]


def clue_holds(kind, a, b):
    return {
        "is": a == b,
        "not": a != b,
        "with": a == b,
        "without": a != b,
        "left": a + 1 == b,
        "before": a < b,
        "next": a in (b - 1, b + 1),
    }[kind]


def clue_is_true(house_of, clue):
    kind, a, b = clue
    return clue_holds(kind, house_of[a], b if kind in PLACES else house_of[b])


def arrangements(houses, attributes):
    """Yield every arrangement as a tuple: item -> house."""
    for rows in itertools.product(itertools.permutations(range(houses)), repeat=attributes):
        yield tuple(house for row in rows for house in row)


def fill_board(houses, attributes, house_of):
    cells = [0] * (houses * attributes)
    for item, house in enumerate(house_of):
        cells[house * attributes + item // houses] = item % houses + 1
    return tuple(cells)


def enumerate_boards(houses, attributes, clues, cells=None):
    """Return every full board that satisfies the clues and the filled cells."""
    cells = cells or (0,) * (houses * attributes)
    boards = (
        fill_board(houses, attributes, house_of)
        for house_of in arrangements(houses, attributes)
        if all(clue_is_true(house_of, clue) for clue in clues)
    )
    return {
        candidate
        for candidate in boards
        if all(filled in (0, value) for filled, value in zip(cells, candidate, strict=True))
    }


@st.composite
def puzzles(draw, max_clues=7):
    """Draw a size, clues that may contradict each other, and a board with some cells filled."""
    houses, attributes = draw(st.sampled_from(SIZES))
    items, clues = houses * attributes, []
    for kind in draw(st.lists(st.sampled_from(KINDS), max_size=max_clues)):
        a = draw(st.integers(0, items - 1))
        b = draw(
            st.integers(0, houses - 1)
            if kind in PLACES
            else st.integers(0, items - 1).filter(lambda item, other=a: item != other)
        )
        clues.append((kind, a, b))
    cells = draw(st.lists(st.one_of(st.just(0), st.just(0), st.integers(0, houses)), min_size=items, max_size=items))
    return houses, attributes, clues, tuple(cells) if draw(st.booleans()) else (0,) * items


@settings(max_examples=150, deadline=None)
@given(puzzle=puzzles())
def test_solutions_match_enumeration(puzzle):
    houses, attributes, clues, cells = puzzle
    expected = enumerate_boards(houses, attributes, clues, cells)
    boards = solutions(houses, attributes, clues, cells, limit=10_000)
    assert len(boards) == len(set(boards)) and set(boards) == expected
    assert len(solutions(houses, attributes, clues, cells)) == min(2, len(expected))


def make_clauses(houses, attributes, clues, cells):
    """Return the puzzle as clauses over literals (item, house, sign)."""
    items, houses_range = range(houses * attributes), range(houses)
    all_clauses = [[(item, house, True) for house in houses_range] for item in items]
    for item in items:
        all_clauses += [[(item, a, False), (item, b, False)] for a, b in itertools.combinations(houses_range, 2)]
    for first_item, house in itertools.product(range(0, len(items), houses), houses_range):
        items_of_attribute = range(first_item, first_item + houses)
        all_clauses.append([(item, house, True) for item in items_of_attribute])
        all_clauses += [
            [(a, house, False), (b, house, False)] for a, b in itertools.combinations(items_of_attribute, 2)
        ]
    for kind, a, b in clues:
        if kind in PLACES:
            all_clauses.append([(a, b, kind == "is")])
            continue
        for house in houses_range:
            all_clauses.append(
                [
                    (a, house, False),
                    *((b, other_house, True) for other_house in houses_range if clue_holds(kind, house, other_house)),
                ]
            )
            all_clauses.append(
                [
                    (b, house, False),
                    *((a, other_house, True) for other_house in houses_range if clue_holds(kind, other_house, house)),
                ]
            )
            if kind == "without":
                all_clauses.append([(a, house, False), (b, house, False)])
    for cell, value in enumerate(cells):
        if value:
            all_clauses.append([(cell % attributes * houses + value - 1, cell // attributes, True)])
    return all_clauses


def propagate_units(all_clauses):
    """Return the literals that unit propagation derives, or None if it derives the empty clause."""
    literal_signs, has_changed = {}, True
    while has_changed:
        has_changed = False
        for clause in all_clauses:
            if any(literal_signs.get((item, house)) == sign for item, house, sign in clause):
                continue
            literals = [literal for literal in clause if literal[:2] not in literal_signs]
            if not literals:
                return None
            if len(literals) == 1:
                (item, house, sign) = literals[0]
                literal_signs[item, house], has_changed = sign, True
    return literal_signs


@settings(max_examples=200, deadline=None)
@given(puzzle=puzzles(max_clues=9))
def test_narrowing_matches_unit_propagation(puzzle):
    houses, attributes, clues, cells = puzzle
    literal_signs, choices = (
        propagate_units(make_clauses(houses, attributes, clues, cells)),
        possible_houses(houses, attributes, clues, cells),
    )
    if literal_signs is None:
        assert choices is None and deduce_board(houses, attributes, clues, cells) is None
        return
    expected = [
        sum(1 << house for house in range(houses) if literal_signs.get((item, house), True))
        for item in range(houses * attributes)
    ]
    assert choices == expected
    houses_of = [choice.bit_length() - 1 if choice.bit_count() == 1 else None for choice in expected]
    cells_deduced = [0] * len(cells)
    for item, house in enumerate(houses_of):
        if house is not None:
            cells_deduced[house * attributes + item // houses] = item % houses + 1
    assert deduce_board(houses, attributes, clues, cells) == tuple(cells_deduced)


@every_case("kind", KINDS)
@every_case(("houses", "attributes"), [(2, 2), (3, 3), (4, 2)])
def test_true_clues_are_all_informative_true_clues(houses, attributes, kind):
    house_of = next(itertools.islice(arrangements(houses, attributes), 3, None))
    clues = true_clues(houses, attributes, fill_board(houses, attributes, house_of), kind)
    items = range(houses * attributes)
    second_items = range(houses) if kind in PLACES else items
    expected = {
        (kind, item, other)
        for item, other in itertools.product(items, second_items)
        if clue_is_true(house_of, (kind, item, other))
    }
    if kind not in PLACES:
        expected = {clue for clue in expected if clue[1] != clue[2]}
    if kind in ("with", "without"):
        expected = {clue for clue in expected if clue[1] // houses != clue[2] // houses}
    if kind in ("with", "without", "next"):
        expected = {clue for clue in expected if clue[1] < clue[2]}
    assert len(clues) == len(set(clues)) and set(clues) == expected


def test_solutions_and_deductions_by_hand():
    clues = [
        ("left", 0, 1),
        ("with", 1, 3),
        ("next", 3, 4),
        ("not", 2, 0),
    ]  # item 0 is left of 1, so 2 is in house 1 or 3; it is not in 1
    assert solutions(3, 2, clues, limit=9) == [(1, 2, 2, 1, 3, 3), (1, 3, 2, 1, 3, 2)]
    assert deduce_board(3, 2, clues) == (1, 0, 2, 1, 3, 0)
    assert solutions(3, 2, [*clues, ("is", 5, 0)], limit=9) == [(1, 3, 2, 1, 3, 2)]
    assert solutions(3, 2, clues, (2, 0, 0, 0, 0, 0)) == [] and deduce_board(3, 2, clues, (2, 0, 0, 0, 0, 0)) is None
