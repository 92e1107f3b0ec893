"""Rows of a suite that are written as one: what they become, and what is refused."""

import pytest

from sparring.core.errors import ConfigError, UnknownNameError
from sparring.measure.suite import check_suite

ROW = {
    "each": {"game": "3..5"}, "name": "n{game}", "game": "ordinal_2x2", "role": "held_out", "kind": "match", "opponent": {"name": "random"},
    "normalise": [1, 4],
}


def rows(*written):
    return check_suite("x", {"rows": list(written)}).rows


def test_a_row_with_each_stands_for_one_row_per_value():
    by_hand = [{**ROW, "name": f"n{number}", "options": {"game": number}} for number in (3, 4, 5)]
    for row in by_hand:
        del row["each"]
    other = {**by_hand[0], "name": "other"}
    assert rows({**ROW, "options": {}}, other) == rows(*by_hand, other)
    assert rows(other, {**ROW, "each": {"game": [3, 4, 5]}}) == rows(other, *by_hand)


def test_values_are_of_any_plain_kind_and_other_options_stay():
    found = rows({**ROW, "each": {"game": ["win_win", 7]}, "options": {"pay": "response"}, "normalise": [0, 1]})
    assert [(row.name, row.options) for row in found] == [
        ("nwin_win", {"pay": "response", "game": "win_win"}),
        ("n7", {"pay": "response", "game": 7}),
    ]


def test_a_range_has_both_ends_and_a_range_of_one_is_one_row():
    assert [row.name for row in rows({**ROW, "each": {"game": "144..144"}})] == ["n144"]
    assert len(rows({**ROW, "each": {"game": "1..144"}})) == 144


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"each": 3}, "rows.0.each: must name one option with its values, got 3; write each: {game: 1..144}"),
        ({"each": {}}, "must name one option"),
        ({"each": {"game": [1], "pay": ["own"]}}, "must name one option"),
        ({"each": {"game": "5..3"}}, "must be a list of different values, or whole numbers FIRST..LAST, at most 1000, got '5..3'"),
        ({"each": {"game": "1..1001"}}, "at most 1000"),
        ({"each": {"game": []}}, "must be a list of different values"),
        ({"each": {"game": [1, "1"]}}, "must be a list of different values"),
        ({"each": {"game": [[1]]}}, "must be a list of different values"),
        ({"each": {"game": 3}}, "must be a list of different values"),
        ({"name": "n"}, "the row's name, 'n', has no {game}"),
        ({"name": 3}, "has no {game}"),
        ({"options": {"game": 3}}, "the option 'game' stands below options as well"),
        ({"each": {"game": [3, "x"]}}, "row 'nx': ordinal_2x2: game='x' is none of"),
        ({"kind": "solo"}, "rows.0: a row of kind 'solo' has no opponent"),
    ],
)
def test_what_is_wrong_with_each_is_said_in_one_line(changes, message):
    with pytest.raises(ConfigError) as caught:
        rows({**ROW, **changes})
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_names_that_become_equal_are_refused():
    with pytest.raises(ConfigError, match="row 'n4' is listed twice"):
        rows(ROW, {**{key: value for key, value in ROW.items() if key != "each"}, "name": "n4"})


def test_each_is_a_key_that_a_typing_error_finds():
    with pytest.raises(UnknownNameError, match=r"'eahc'\. Did you mean 'each'"):
        rows({**{key: value for key, value in ROW.items() if key != "each"}, "eahc": {"game": "1..3"}})
    with pytest.raises(ConfigError, match=r"rows\.1\.kind"):
        rows(ROW, {**ROW, "name": "m{game}", "kind": "matches"})
