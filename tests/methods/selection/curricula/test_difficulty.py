import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.methods.selection.curricula.requests import record, request

from sparring.config.plugins.registry import bind
from sparring.methods.selection.curricula.base import Arm
from sparring.methods.selection.curricula.by_weight import by_weight
from sparring.methods.selection.curricula.difficulty import difficulty

RATES = [[record(n, 10)] for n in (0, 3, 5, 7, 10)]


def played(**options):
    groups = options.pop("groups", 400)
    history = options.pop("history", RATES)
    return set(difficulty(request(*history, groups=groups), **options).tolist())


def test_by_hand():
    assert played(floor=0.0) == {1, 2, 3}
    assert played(floor=0.0, width=0.1) == {2}
    assert played(floor=0.0, target=1.0, width=0.3) == {3, 4}
    assert played(floor=0.0, target=0.4, width=0.0) == {1, 2}  # nobody is in the band: the nearest
    assert played(floor=0.0, width=0.1, history=[*RATES, []]) == {2, 5}  # never played


def test_the_floor_keeps_every_arm_in_play():
    chosen = difficulty(request(*RATES, groups=4000), floor=0.5, width=0.1)
    assert np.bincount(chosen) / 4000 == pytest.approx([0.1, 0.1, 0.6, 0.1, 0.1], abs=0.03)


def test_old_records_leave_the_window():
    history = [[record(0, 10), record(5, 10), record(5, 10)], [record(5, 10)] * 3]
    assert played(history=history, floor=0.0, width=0.0, window=2) == {0, 1}
    assert played(history=history, floor=0.0, width=0.0, window=3) == {1}


def test_shares_of_games_hold_inside_the_band():
    arms = (Arm("a", 0, 3.0), Arm("a", 1, 3.0), Arm("b", 0, 1.0))
    chosen = difficulty(request([record(5, 10)], [record(0, 10)], [record(5, 10)], groups=4000, arms=arms), floor=0.0)
    assert np.bincount(chosen, minlength=3) / 4000 == pytest.approx([0.6, 0.0, 0.4], abs=0.03)


def test_the_target_moves_with_the_run():
    bound = bind("selection.curricula", "difficulty", {"floor": 0.0, "width": 0.0}, preset="easy_to_hard")
    asked = request(*[[record(n, 10)] for n in (8, 3)], groups=20)
    assert set(bound(asked, progress=0.0).tolist()) == {0}
    assert set(bound(asked, progress=1.0).tolist()) == {1}


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.integers(0, 999))
def test_with_a_band_of_everything_it_is_by_weight(arms, seed):
    asked = request(*[[record(n, 5)] for n in range(arms)], groups=3000, seed=seed)
    mine, plain = (np.bincount(choose, minlength=arms) / 3000 for choose in (difficulty(asked, width=1.0), by_weight(asked)))
    assert mine == pytest.approx(plain, abs=0.06)
