"""Logic-grid puzzles: solutions against trying every arrangement, propagation against unit propagation on clauses."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.environments.zebra.deduction import (
    KINDS,
    PLACES,
    deduced,
    narrowed,
    solutions,
    true_clues,
)
from tests.cases import every_case

SIZES = [(2, 2), (2, 4), (3, 2), (3, 3), (4, 2)]


def says(kind, a, b):
    return {
        "is": a == b,
        "not": a != b,
        "with": a == b,
        "without": a != b,
        "left": a + 1 == b,
        "before": a < b,
        "next": a in (b - 1, b + 1),
    }[kind]


def true_of(at, clue):
    kind, a, b = clue
    return says(kind, at[a], b if kind in PLACES else at[b])


def arrangements(houses, attributes):
    for rows in itertools.product(itertools.permutations(range(houses)), repeat=attributes):
        yield tuple(house for row in rows for house in row)


def board(houses, attributes, at):
    cells = [0] * (houses * attributes)
    for item, house in enumerate(at):
        cells[house * attributes + item // houses] = item % houses + 1
    return tuple(cells)


def brute(houses, attributes, clues, cells=None):
    """Return every full board that keeps to the clues and the cells."""
    cells = cells or (0,) * (houses * attributes)
    boards = (
        board(houses, attributes, at)
        for at in arrangements(houses, attributes)
        if all(true_of(at, clue) for clue in clues)
    )
    return {full for full in boards if all(written in (0, value) for written, value in zip(cells, full, strict=True))}


@st.composite
def puzzles(draw, most=7):
    """Draw a size, clues that may contradict each other, and a board with some cells filled."""
    houses, attributes = draw(st.sampled_from(SIZES))
    items, clues = houses * attributes, []
    for kind in draw(st.lists(st.sampled_from(KINDS), max_size=most)):
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
def test_solutions_are_all_arrangements_that_keep_to_the_clues(puzzle):
    houses, attributes, clues, cells = puzzle
    truth = brute(houses, attributes, clues, cells)
    boards = solutions(houses, attributes, clues, cells, limit=10_000)
    assert len(boards) == len(set(boards)) and set(boards) == truth
    assert len(solutions(houses, attributes, clues, cells)) == min(2, len(truth))


def clauses(houses, attributes, clues, cells):
    """Return the puzzle as clauses over literals (item, house, sign)."""
    items, span = range(houses * attributes), range(houses)
    out = [[(item, house, True) for house in span] for item in items]
    for item in items:
        out += [[(item, a, False), (item, b, False)] for a, b in itertools.combinations(span, 2)]
    for first, house in itertools.product(range(0, len(items), houses), span):
        row = range(first, first + houses)
        out.append([(item, house, True) for item in row])
        out += [[(a, house, False), (b, house, False)] for a, b in itertools.combinations(row, 2)]
    for kind, a, b in clues:
        if kind in PLACES:
            out.append([(a, b, kind == "is")])
            continue
        for house in span:
            out.append([(a, house, False), *((b, other, True) for other in span if says(kind, house, other))])
            out.append([(b, house, False), *((a, other, True) for other in span if says(kind, other, house))])
            if kind == "without":
                out.append([(a, house, False), (b, house, False)])
    for cell, value in enumerate(cells):
        if value:
            out.append([(cell % attributes * houses + value - 1, cell // attributes, True)])
    return out


def propagated(every):
    """Return the literals that unit propagation derives, or None if it derives the empty clause."""
    known, grown = {}, True
    while grown:
        grown = False
        for clause in every:
            if any(known.get((item, house)) == sign for item, house, sign in clause):
                continue
            literals = [literal for literal in clause if literal[:2] not in known]
            if not literals:
                return None
            if len(literals) == 1:
                (item, house, sign) = literals[0]
                known[item, house], grown = sign, True
    return known


@settings(max_examples=200, deadline=None)
@given(puzzle=puzzles(most=9))
def test_what_is_narrowed_down_is_unit_propagation_on_the_clauses(puzzle):
    houses, attributes, clues, cells = puzzle
    known, can = propagated(clauses(houses, attributes, clues, cells)), narrowed(houses, attributes, clues, cells)
    if known is None:
        assert can is None and deduced(houses, attributes, clues, cells) is None
        return
    truth = [
        sum(1 << house for house in range(houses) if known.get((item, house), True))
        for item in range(houses * attributes)
    ]
    assert can == truth
    at = [choice.bit_length() - 1 if choice.bit_count() == 1 else None for choice in truth]
    sure = [0] * len(cells)
    for item, house in enumerate(at):
        if house is not None:
            sure[house * attributes + item // houses] = item % houses + 1
    assert deduced(houses, attributes, clues, cells) == tuple(sure)


@every_case("kind", KINDS)
@every_case(("houses", "attributes"), [(2, 2), (3, 3), (4, 2)])
def test_true_clues_are_all_that_are_true_and_say_something(houses, attributes, kind):
    at = next(itertools.islice(arrangements(houses, attributes), 3, None))
    clues = true_clues(houses, attributes, board(houses, attributes, at), kind)
    items = range(houses * attributes)
    two = range(houses) if kind in PLACES else items
    truth = {(kind, item, other) for item, other in itertools.product(items, two) if true_of(at, (kind, item, other))}
    if kind not in PLACES:
        truth = {clue for clue in truth if clue[1] != clue[2]}
    if kind in ("with", "without"):
        truth = {clue for clue in truth if clue[1] // houses != clue[2] // houses}
    if kind in ("with", "without", "next"):
        truth = {clue for clue in truth if clue[1] < clue[2]}
    assert len(clues) == len(set(clues)) and set(clues) == truth


def test_a_puzzle_by_hand():
    clues = [("left", 0, 1), ("with", 1, 3), ("next", 3, 4), ("not", 2, 0)]  # 0 left of 1, so 2 is at an end: the last
    assert solutions(3, 2, clues, limit=9) == [(1, 2, 2, 1, 3, 3), (1, 3, 2, 1, 3, 2)]
    assert deduced(3, 2, clues) == (1, 0, 2, 1, 3, 0)
    assert solutions(3, 2, [*clues, ("is", 5, 0)], limit=9) == [(1, 3, 2, 1, 3, 2)]
    assert solutions(3, 2, clues, (2, 0, 0, 0, 0, 0)) == [] and deduced(3, 2, clues, (2, 0, 0, 0, 0, 0)) is None
