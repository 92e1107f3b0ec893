import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.methods.selection.curricula.requests import record, request

from sparring.methods.selection.curricula.by_weight import by_weight
from sparring.methods.selection.curricula.signals_triage import _signs, signals_triage


@pytest.mark.parametrize(
    ("rates", "signs"),
    [
        ([], (1.0, 0.0, 0.0)),
        ([1], (0.75, 0.0, 0.0)),
        ([2, 2], (0.5, 1.0, 0.0)),
        ([4, 4], (0.0, 0.0, 0.0)),  # solved is not stuck
        ([4, 2, 1], (0.75, 0.0, 0.5)),
        ([1, 3], (0.25, 0.0, 0.0)),
    ],
)
def test_signs_by_hand(rates, signs):
    assert _signs([record(rate, 4) for rate in rates]) == pytest.approx(signs)


def shares(*history, **options):
    return np.bincount(signals_triage(request(*history, groups=6000), **options), minlength=len(history)) / 6000


@pytest.mark.parametrize(
    ("options", "weights"),
    [
        ({}, [0.1, 1.6, 1.35]),
        ({"failure": 0.0}, [0.1, 1.1, 0.6]),
        ({"stagnation": 0.0}, [0.1, 0.6, 1.35]),
        ({"decline": 0.0}, [0.1, 1.6, 0.85]),
        ({"floor": 5.0}, [5.0, 6.5, 6.25]),
        ({"window": 2}, [0.1, 1.6, 0.1 + 0.75 + 0.25]),
    ],
)
def test_each_sign_by_hand(options, weights):
    history = [[record(4), record(4)], [record(2), record(2)], [record(4), record(2), record(1)]]
    assert shares(*history, **options) == pytest.approx(np.array(weights) / sum(weights), abs=0.025)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.lists(st.integers(0, 4), max_size=4), min_size=1, max_size=5), st.integers(0, 999))
def test_without_signs_it_is_by_weight(rates, seed):
    asked = request(*[[record(rate) for rate in own] for own in rates], groups=40, seed=seed)
    assert signals_triage(asked, failure=0.0, stagnation=0.0, decline=0.0).tolist() == by_weight(asked).tolist()
