import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import table

from sparring.methods.credit.copo import copo
from sparring.methods.credit.grpo import grpo

ANSWERS = st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=12)


def fours(returns, **kwargs):
    return table([[value] for value in returns], groups=[index // 4 for index in range(len(returns))], **kwargs)


def test_by_hand():
    # group 0: half right, entropy ln 2, nothing global; group 1: all right, entropy 0, nothing local; means 1/2, 1: z = -+ 1/sqrt(2)
    blend = [1 / (1 + math.exp(-5.0 * (entropy - 0.5))) for entropy in (math.log(2), 0.0)]
    local, z = 3**0.5 / 2, 2**-0.5
    up, down, same = blend[0] * local - (1 - blend[0]) * z, -blend[0] * local - (1 - blend[0]) * z, (1 - blend[1]) * z
    credit = copo(fours([1, 1, 0, 0, 1, 1, 1, 1]))
    assert credit.advantages == pytest.approx([up, up, down, down, same, same, same, same], abs=1e-5)
    assert credit.metrics["local_weight"] == pytest.approx(sum(blend) / 2)


@given(ANSWERS, st.sampled_from([0.0, 5.0, 20.0]), st.sampled_from([0.0, 0.5, 1.0]))
def test_it_equals_a_naive_derivation(returns, sharpness, threshold):
    groups = [returns[index : index + 4] for index in range(0, len(returns), 4)]
    means = [sum(group) / len(group) for group in groups]
    spread = np.std(means, ddof=1) if len(means) > 1 else 0.0
    expected = []
    for group, mean in zip(groups, means, strict=True):
        entropy = -sum(n / len(group) * math.log(n / len(group)) for n in Counter(group).values())
        sigma = 1 / (1 + math.exp(-sharpness * (entropy - threshold)))
        deviation = np.std(group, ddof=1) if len(group) > 1 else 0.0
        standing = 0.0 if spread < 1e-12 else (mean - sum(means) / len(means)) / (spread + 1e-6)
        expected += [sigma * (value - mean) / (deviation + 1e-6) + (1 - sigma) * standing for value in group]
    assert copo(fours(returns), sharpness=sharpness, threshold=threshold).advantages == pytest.approx(expected, abs=1e-9)


@given(st.lists(st.integers(-80, 80).map(lambda number: number / 8), min_size=2, max_size=8, unique=True))
def test_where_no_two_agree_a_sharp_blend_is_grpo(returns):
    turns = table([[value] for value in returns], groups=[index // 2 for index in range(len(returns))])
    if len(returns) % 2 == 0:
        assert copo(turns, sharpness=1e6, threshold=0.5).advantages == pytest.approx(grpo(turns).advantages, abs=1e-9)


def test_where_all_agree_a_sharp_blend_is_the_groups_standing():
    advantages = copo(fours([0] * 4 + [1] * 4 + [2] * 4), sharpness=1e6).advantages
    assert advantages == pytest.approx(np.repeat([-1, 0, 1], 4), abs=1e-5)


@given(ANSWERS, st.floats(-100, 100))
def test_a_shift_of_all_returns_changes_nothing(returns, shift):
    shifted = copo(fours([value + shift for value in returns])).advantages
    assert shifted == pytest.approx(copo(fours(returns)).advantages, abs=1e-6)


def test_groups_are_compared_with_those_of_their_own_role_and_game():
    turns = table([[0.0], [5.0], [1.0], [7.0], [100.0]], seats=[0, 1, 0, 1, 0], groups=[0, 0, 1, 1, 2], games=[0, 0, 0, 0, 1])
    z = 2**-0.5
    assert copo(turns, sharpness=1e6).advantages == pytest.approx([-z, -z, z, z, 0], abs=1e-5)


def test_equal_but_for_rounding_counts_as_agreement():
    nearly = copo(fours([0.1 + 0.2, 0.3, 0.3, 0.1 + 0.2, 1, 1, 1, 1])).advantages
    assert nearly == pytest.approx(copo(fours([0.3] * 4 + [1] * 4)).advantages, abs=1e-9)
    assert nearly[0] < -0.5


def test_hard_inputs():
    assert copo(fours([7.0])).advantages.tolist() == [0.0]
    assert copo(table([])).advantages.shape == (0,)
    assert not copo(fours([0.1] * 8)).advantages.any()
    near = copo(fours([1e6 + 1, 1e6 + 3]), sharpness=1e6).advantages
    assert near == pytest.approx([-(2**-0.5), 2**-0.5], abs=1e-5)
    assert np.isfinite(copo(fours([0, 1, 1, 1]), sharpness=1e300).advantages).all()


def test_epsilon_and_state():
    advantages = copo(fours([1, 0, 1, 0]), sharpness=1e6, epsilon=3**-0.5).advantages
    assert advantages == pytest.approx(np.array([1, -1, 1, -1]) * 3**0.5 / 4)
