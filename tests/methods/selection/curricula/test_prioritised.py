import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.methods.selection.curricula.requests import record, request

from sparring.methods.selection.curricula.base import Arm
from sparring.methods.selection.curricula.prioritised import prioritised

HISTORY = [[record(deviation=9.0), record(deviation=0.1, step=9)], [record(deviation=0.3, step=5)], [record(deviation=0.0, step=4)]]


def shares(*history, **options):
    arms = options.pop("arms", None)
    return np.bincount(prioritised(request(*history, groups=6000, arms=arms), **options), minlength=len(history)) / 6000


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"staleness": 0.0}, [0.25, 0.75, 0.0]),  # the latest record counts
        ({"staleness": 0.0, "alpha": 2.0}, [0.1, 0.9, 0.0]),
        ({"staleness": 0.0, "alpha": 0.0}, [1 / 3, 1 / 3, 1 / 3]),
        ({"staleness": 0.0, "by": "rank"}, [3 / 11, 6 / 11, 2 / 11]),
        ({"staleness": 1.0}, [1 / 12, 5 / 12, 6 / 12]),
        ({"staleness": 0.5}, [0.125 + 1 / 24, 0.375 + 5 / 24, 6 / 24]),
    ],
)
def test_by_hand(options, expected):
    assert shares(*HISTORY, **options) == pytest.approx(expected, abs=0.025)


def test_arms_never_played_have_their_part():
    arms = (Arm("a", 0, 1.0), Arm("a", 1, 1.0), Arm("b", 0, 3.0), Arm("b", 1, 3.0))
    found = shares(HISTORY[1], [], [record(deviation=0.0)], [], arms=arms, staleness=0.0)
    assert found == pytest.approx([0.5, 0.5 / 4, 0.0, 0.5 * 3 / 4], abs=0.025)
    assert shares([], []) == pytest.approx([0.5, 0.5], abs=0.025)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=6), st.floats(1e-3, 1e3), st.sampled_from(["value", "rank"]))
def test_the_scale_of_rewards_does_not_matter(deviations, factor, by):
    chosen = [
        prioritised(request(*[[record(deviation=d * f)] for d in deviations], groups=30), by=by, staleness=0.0).tolist()
        for f in (1.0, factor)
    ]
    if by == "rank" or min((d for d in deviations if d > 0), default=1.0) > 1e-100:
        assert np.mean(np.array(chosen[0]) != np.array(chosen[1])) <= 0.1  # rounding may move a border past a draw


def test_nothing_to_tell_the_arms_apart():
    assert shares([record()], [record()], staleness=0.0) == pytest.approx([0.5, 0.5], abs=0.025)
    assert shares([record(step=10)], [record(step=10)], staleness=1.0) == pytest.approx([0.5, 0.5], abs=0.025)
