"""Counts of fleets by hand, against enumeration of all fleets, and on the largest grids."""

import itertools
from collections import Counter
from math import factorial, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.environments.battleship_hunt.fleets import FleetPlacements, halo, placements


def straight_ships(rows, columns, length):
    """Return every straight ship as a set of (row, column)."""
    horizontal = [
        {(row, column + offset) for offset in range(length)}
        for row in range(rows)
        for column in range(columns - length + 1)
    ]
    vertical = [
        {(row + offset, column) for offset in range(length)}
        for row in range(rows - length + 1)
        for column in range(columns)
    ]
    return {frozenset(ship) for ship in horizontal + vertical}


def ship_to_mask(columns, ship):
    return sum(1 << row * columns + column for row, column in ship)


def ships_touch(ship, other_ship):
    return any(max(abs(a - c), abs(b - d)) <= 1 for a, b in ship for c, d in other_ship)


def enumerate_fleets(rows, columns, lengths, touch):
    """Return all fleets as tuples of bits, with ships of equal length in ascending order."""
    fleets = set()
    for ships in itertools.product(*(straight_ships(rows, columns, length) for length in lengths)):
        pairs = itertools.combinations(ships, 2)
        if not any(a & b if touch else ships_touch(a, b) for a, b in pairs):
            fleets.add(
                tuple(
                    sorted((ship_to_mask(columns, ship) for ship in ships), key=lambda mask: (-mask.bit_count(), mask))
                )
            )
    return fleets


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_counts_match_enumeration(data):
    rows, columns = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    lengths = tuple(
        sorted(
            data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=4 if rows * columns < 9 else 3)), reverse=True
        )
    )
    touch, cells = data.draw(st.booleans()), rows * columns
    water = FleetPlacements(rows, columns, lengths, touch)
    banned_cells, hits = data.draw(st.integers(0, 2**cells - 1)) & data.draw(st.integers(0, 2**cells - 1)), 0
    for cell in data.draw(st.sets(st.integers(0, cells - 1), max_size=3)):
        hits |= 1 << cell & ~banned_cells
    usable = [masks & np.uint64(banned_cells) == 0 for masks in water.masks]
    fleets = {
        fleet
        for fleet in enumerate_fleets(rows, columns, lengths, touch)
        if not sum(fleet) & banned_cells and not hits & ~sum(fleet)
    }
    tally = water.tally(usable, hits)
    assert tally.num_fleets == len(fleets)
    assert tally.num_ordered == len(fleets) * prod(factorial(number) for number in Counter(lengths).values())
    assert sorted(water.fleets(tally, hits)) == sorted(fleets)  # no repeats
    assert {count.sum() for count in tally.counts} == {tally.num_ordered}
    if fleets:
        expected = [sum(sum(fleet) >> cell & 1 for fleet in fleets) / len(fleets) for cell in range(cells)]
        assert tally.chances(water) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("size", "lengths", "touch", "num_fleets"),
    [
        ((3, 3), (2,), True, 12),
        ((1, 5), (2, 2), True, 3),
        ((1, 5), (2, 2), False, 1),
        ((3, 3), (1, 1, 1, 1), False, 1),  # the corners
        ((2, 2), (3,), True, 0),
    ],
    ids=str,
)
def test_numbers_of_fleets_by_hand(size, lengths, touch, num_fleets):
    assert FleetPlacements(*size, lengths, touch).tally().num_fleets == num_fleets


def test_placements_and_the_largest_grid():
    assert placements(2, 2, 1) == (1, 2, 4, 8)
    assert placements(2, 2, 2) == (3, 5, 10, 12)
    assert placements(2, 2, 3) == ()
    assert len(placements(8, 8, 2)) == 112
    assert halo(3, 3, 1) == 0b000011011 and halo(3, 3, 1 << 4) == 0b111111111
    water = FleetPlacements(8, 8, (8, 1), True)
    tally = water.tally(hits=1 << 63)
    assert (
        tally.num_fleets == 2 * 56 + 14
    )  # the corner is covered by the long ship, and the short ship is anywhere else; or by the short ship
    assert tally.chances(water)[63] == 1.0
    water_with_4_ships, water_with_3_ships = (
        FleetPlacements(8, 8, (4, 3, 2, 1), True),
        FleetPlacements(8, 8, (4, 3, 2), True),
    )
    assert water_with_4_ships.tally().num_fleets == water_with_3_ships.tally().num_fleets * (
        64 - 9
    )  # a ship of one cell lies in any remaining cell
    assert water_with_4_ships.tally().chances(water_with_4_ships).sum() == pytest.approx(10)


@pytest.mark.parametrize(
    ("rows", "lengths"), [(9, (2,)), (8, (2, 3)), (8, ()), (8, (2, 2, 2, 2, 2))], ids=["cells", "order", "none", "many"]
)
def test_unsupported_sizes_and_fleets_are_refused(rows, lengths):
    with pytest.raises(ValueError, match="FleetPlacements"):
        FleetPlacements(rows, 8, lengths, True)
