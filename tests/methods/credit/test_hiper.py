import dataclasses
import runpy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import table

from sparring.methods.credit.gae import gae
from sparring.methods.credit.hiper import hierarchical_advantages, hiper

BIAS = runpy.run_path(str(Path(__file__).with_name("test_bias.py")))


def random_turns(seed):
    generator = np.random.Generator(np.random.Philox(seed))
    rewards = [generator.normal(size=generator.integers(1, 8)).tolist() for _ in range(5)]
    size = sum(map(len, rewards))
    turns = table(rewards, values=generator.normal(size=size))
    return dataclasses.replace(turns, view=generator.integers(0, 2, size))


def naive(turns, opening, gamma, lam_turn, lam_segment):
    """Segment by segment from the end of each trajectory, one critic."""
    low, high = np.zeros(len(turns.reward)), np.full(len(turns.reward), np.nan)
    for number in np.unique(turns.trajectory):
        rows = np.flatnonzero(turns.trajectory == number)
        starts = [row for row in rows if opening(row)]
        value_after, high_after = 0.0, 0.0
        for start, stop in reversed(list(zip(starts, [*starts[1:], rows[-1] + 1], strict=True))):
            later = 0.0
            for row in reversed(range(start, stop)):
                following = value_after if row == stop - 1 else turns.value[row + 1]
                later = turns.reward[row] + gamma * following - turns.value[row] + gamma * lam_turn * later
                low[row] = later
            earned = sum(gamma ** (row - start) * turns.reward[row] for row in range(start, stop))
            factor = gamma ** (stop - start)
            high_after = earned + factor * value_after - turns.value[start] + factor * lam_segment * high_after
            high[start], value_after = high_after, turns.value[start]
    return low, high


def test_golden():
    reward, opens = np.array([0.0, 0.0, 0.0, 1.0]), np.array([True, False, True, False])
    low, high = hierarchical_advantages(
        reward,
        np.array([0.1, 0.2, 0.3, 0.4]),
        np.array([0.15, 0.5]),
        opens,
        np.zeros(4, dtype=int),
        gamma=1.0,
        lam_turn=1.0,
        lam_segment=1.0,
    )
    assert low == pytest.approx([0.4, 0.3, 0.7, 0.6])
    assert high == pytest.approx([0.85, 0.5])


def test_by_hand_with_one_critic():
    """Segments of two turns; values .1 .2 .3 .4. Low: .2 .1 .7 .6; high: 0 + .3 - .1 + .7 = .9 and .7; half of each at the openings."""
    turns = table([[0.0, 0.0, 0.0, 1.0]], values=[0.1, 0.2, 0.3, 0.4])
    credit = hiper(turns, segment_turns=2, lam_turn=1.0, lam_segment=1.0, normalise=False)
    assert credit.advantages == pytest.approx([0.55, 0.1, 0.7, 0.6])
    assert credit.value_targets == pytest.approx([0.65, 0.3, 1.0, 1.0])
    assert credit.metrics == {"segment_turns": 2.0}


@given(st.integers(0, 500), st.integers(1, 4), st.sampled_from([0.5, 1.0]), st.sampled_from([0.0, 0.7, 1.0]), st.booleans())
def test_equals_plain_loops(seed, length, gamma, lam, by_view):
    turns = random_turns(seed)

    def opening(row):
        first = turns.turn_index[row] == 0
        return first or (turns.view[row] != turns.view[row - 1] if by_view else turns.turn_index[row] % length == 0)

    low, high = naive(turns, opening, gamma, lam, 0.8)
    options = {"segments": "view" if by_view else "turns", "segment_turns": length, "gamma": gamma, "lam_turn": lam, "lam_segment": 0.8}
    credit = hiper(turns, high_share=0.25, normalise=False, **options)
    expected = np.where(np.isnan(high), low, 0.75 * low + 0.25 * np.nan_to_num(high))
    assert credit.advantages == pytest.approx(expected)
    assert credit.value_targets == pytest.approx(expected + turns.value)


@given(st.integers(0, 500), st.floats(0, 1), st.floats(0, 1))
def test_one_segment_or_segments_of_one_turn_are_gae(seed, gamma, lam):
    turns = random_turns(seed)
    plain = gae(turns, gamma=gamma, lam=lam)
    whole = hiper(turns, segment_turns=100, high_share=0.0, gamma=gamma, lam_turn=lam, normalise=False)
    single = hiper(turns, segment_turns=1, high_share=1.0, gamma=gamma, lam_segment=lam, normalise=False)
    for credit in (whole, single):
        assert credit.advantages == pytest.approx(plain.advantages)
        assert credit.value_targets == pytest.approx(plain.value_targets)


def test_with_a_right_critic_its_gradient_is_exact_and_with_a_wrong_one_the_segments_end_biases():
    p = BIAS["P"]
    right = [p * 1.0 + (1 - p) * (-0.5 + p * 3.0 + (1 - p) * 1.5), p * 3.0 + (1 - p) * 1.5]

    def estimate(turns, length=1):
        return hiper(turns, segment_turns=length, normalise=False)

    assert BIAS["expected_gradient"](estimate, 1, values=right) == pytest.approx(BIAS["EXACT"])
    assert abs(BIAS["expected_gradient"](estimate, 1, values=[4.0, -1.0]) - BIAS["EXACT"]) > 0.1


def test_each_level_is_normalised_by_itself():
    turns = random_turns(1)
    low = hiper(turns, high_share=0.0).advantages
    assert low.mean() == pytest.approx(0.0, abs=1e-12)
    assert low.std(ddof=1) == pytest.approx(1.0, rel=1e-5)
    opens = turns.turn_index % 3 == 0
    high = hiper(turns, high_share=1.0).advantages
    assert high[opens].mean() == pytest.approx(0.0, abs=1e-12)
    assert high[opens].std(ddof=1) == pytest.approx(1.0, rel=1e-5)
    assert np.array_equal(high[~opens], low[~opens])
    assert np.array_equal(hiper(turns).value_targets, hiper(turns, normalise=False).value_targets)


def test_all_equal_one_turn_offsets_and_no_turns():
    assert hiper(table([[1.0], [1.0]], values=[0.0, 0.0])).advantages.tolist() == [0.0, 0.0]
    assert hiper(table([[1.0]], values=[0.25]), normalise=False).advantages.tolist() == [0.75]
    assert hiper(table([[0.0, 1e6]], values=[1e6, 1e6])).advantages == pytest.approx([0.0, 0.0])
    assert hiper(table([], values=[])).advantages.shape == (0,)
    assert hiper(dataclasses.replace(table([], values=[]), view=np.zeros(0, dtype=int)), segments="view").advantages.shape == (0,)
