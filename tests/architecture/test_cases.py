"""A test of many cases checks each case and reports every failed case by name."""

import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import every_case


def report_of(check, **arguments):
    with pytest.raises(pytest.fail.Exception) as failure:
        check(**arguments)
    return str(failure.value).splitlines()


def test_exactly_the_failed_cases_are_reported_by_name():
    checked_values = []

    @every_case(("left", "right"), [(1, 1), (1, 2), pytest.param(3, 4, id="large"), (5, 5)])
    def check(left, right):
        checked_values.append(left)
        if left == 3:
            raise ValueError("three\nlines\nhere")
        assert left == right, f"{left} is not {right}"

    lines = report_of(check)
    assert checked_values == [1, 1, 3, 5]
    assert lines[0] == "2 of 4 cases:"
    assert lines[1].startswith("1-2: AssertionError: 1 is not 2") and "tests/architecture/test_cases.py:" in "".join(
        lines[1:3]
    )
    assert "large: ValueError: three" in lines and len(lines) > 4


def test_a_case_without_its_expected_error_fails():
    @every_case("value", [0, 1], ids={"none": 0, "one": 1})
    def check(value):
        with pytest.raises(ZeroDivisionError):
            1 // value

    assert report_of(check)[1].startswith("one: Failed: DID NOT RAISE")


def test_nothing_is_reported_if_all_cases_pass():
    @every_case("value", [1, 2])
    @every_case("letter", "ab")
    def check(value, letter):
        assert value and letter

    assert check() is None and list(inspect.signature(check).parameters) == []


def test_parts_share_the_cases_and_pytest_parametrises_other_arguments():
    checked_values = []

    @pytest.mark.parametrize("style", ["brief"])
    @every_case("value", range(5), parts=2)
    def check(value, style):
        checked_values.append(value)

    assert list(inspect.signature(check).parameters) == ["style", "part"]
    assert [mark.args[0] for mark in check.pytestmark] == ["part", "style"]
    for part in (0, 1):
        check(style="brief", part=part)
    assert checked_values == [0, 2, 4, 1, 3]


def test_a_hypothesis_check_is_marked_and_shows_its_example():
    @every_case("limit", [10, 1000])
    @given(number=st.integers(0, 100))
    def check(limit, number):
        assert number < limit

    assert "hypothesis" in [mark.name for mark in check.pytestmark]
    lines = report_of(check)
    assert lines[0] == "1 of 2 cases:" and any("number=10" in line for line in lines)


def test_a_case_with_marks_is_refused():
    with pytest.raises(AssertionError, match="write a separate test"):
        every_case("value", [pytest.param(1, marks=pytest.mark.slow)])
