from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.methods.credit import tables

from sparring.core.errors import ConfigError, CreditError
from sparring.core.rng import Stream
from sparring.methods.selection.roc_resample import roc_resample

STREAM = Stream.from_seed(0)


def group_of(good, bad, *, slips=None, turns=4):
    """Return a group of so many successes and failures, with so many illegal turns each."""
    count = good + bad
    made = tables.table([[1.0 if i < good else 0.0] + [0.0] * (turns - 1) for i in range(count)], groups=[0] * count)
    slips = slips or [0] * count
    return replace(made, legal=np.concatenate([np.arange(turns) >= slips[i] for i in range(count)]))


def kept(turns, mask):
    return sorted(set(turns.trajectory[mask].tolist()))


def test_the_published_numbers_twenty_and_twelve_become_ten_and_six():
    turns = group_of(20, 12)
    stays = kept(turns, roc_resample(turns, STREAM, keep=16))
    assert (sum(i < 20 for i in stays), sum(i >= 20 for i in stays)) == (10, 6)


@pytest.mark.parametrize(
    ("good", "bad", "numbers"), [(1, 31, (1, 15)), (2, 30, (2, 14)), (30, 2, (14, 2)), (31, 1, (15, 1)), (3, 29, (2, 14)), (17, 1, (15, 1))]
)
def test_neither_kind_falls_below_the_least_there_can_be(good, bad, numbers):
    turns = group_of(good, bad)
    stays = kept(turns, roc_resample(turns, STREAM, keep=16))
    assert (sum(i < good for i in stays), sum(i >= good for i in stays)) == numbers


def test_the_cleanest_successes_stay_and_failures_are_drawn():
    turns = group_of(4, 4, slips=[3, 0, 2, 1, 4, 0, 0, 0])
    runs = [kept(turns, roc_resample(turns, Stream.from_seed(s), keep=4)) for s in range(30)]
    assert {tuple(i for i in run if i < 4) for run in runs} == {(1, 3)}
    assert len({tuple(i for i in run if i >= 4) for run in runs}) == 6
    released = [kept(turns, roc_resample(turns, Stream.from_seed(s), keep=4, negatives="penalty")) for s in range(30)]
    assert all(4 not in run for run in released)


def test_a_component_that_pays_for_form_lowers_the_penalty():
    turns = group_of(3, 3, slips=[1, 1, 0, 0, 0, 0])
    paid = replace(turns, components={"form": np.where(turns.trajectory == 0, 1.0, 0.0)})
    assert kept(turns, roc_resample(turns, STREAM, keep=2, least=1))[0] == 2
    assert kept(turns, roc_resample(paid, STREAM, keep=2, least=1, component="form"))[0] == 0
    with pytest.raises(CreditError, match=r"'forms'.*have: form"):
        roc_resample(paid, STREAM, keep=2, least=1, component="forms")


def test_the_penalty_is_a_share_of_the_turns():
    turns = tables.table([[1.0] * 4, [1.0], [0.0], [0.0]], groups=[0] * 4)
    one_slip_each = replace(turns, legal=np.array([False, True, True, True, False, True, True]))
    assert kept(one_slip_each, roc_resample(one_slip_each, STREAM, keep=2, least=1))[0] == 0
    two_slips = replace(turns, legal=np.array([False, False, True, True, False, True, True]))
    assert kept(two_slips, roc_resample(two_slips, STREAM, keep=2, least=1))[0] == 0


def test_equal_groups_go_and_small_ones_stay_unless_asked():
    turns = tables.table([[1.0], [1.0], [0.0], [1.0], [2.0]], groups=[0, 0, 1, 1, 2])
    assert roc_resample(turns, STREAM, keep=4).tolist() == [False, False, True, True, False]
    assert not roc_resample(turns, STREAM, keep=4, smaller="drop").any()
    assert roc_resample(turns, STREAM, keep=2, least=1, smaller="drop").tolist() == [False, False, True, True, False]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(2, 12), st.integers(0, 1), st.integers(0, 99))
def test_a_group_has_its_number_and_its_ratio(good, bad, keep, least, seed):
    turns = group_of(good, bad, turns=1)
    stays = kept(turns, roc_resample(turns, Stream.from_seed(seed), keep=keep, least=least))
    assert len(stays) == min(keep, good + bad)
    successes = sum(i < good for i in stays)
    assert abs(successes - len(stays) * good / (good + bad)) <= max(0.5, least)


def test_hard_tables():
    assert roc_resample(tables.table([]), STREAM, component="form").shape == (0,)
    assert not roc_resample(tables.table([[5.0]]), STREAM).any()
    assert roc_resample(tables.table([[1e6], [1e6 + 1]], groups=[0, 0]), STREAM).all()
    with pytest.raises(ConfigError, match="least: 1"):
        roc_resample(tables.table([[1.0]]), STREAM, keep=3)
    with pytest.raises(CreditError, match=r"roc_resample.*row 0"):
        roc_resample(tables.table([[np.nan]]), STREAM)
