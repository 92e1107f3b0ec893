import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import BY_HAND, table

from sparring.config.plugins.registry import bind
from sparring.methods.credit.rebn import rebn
from sparring.methods.credit.reinforce_plus_plus import reinforce_plus_plus

EIGHTHS = st.integers(-80, 80).map(lambda number: number / 8)
REWARDS = st.lists(st.lists(EIGHTHS, min_size=1, max_size=4), min_size=1, max_size=6)


def test_by_hand():
    # returns 3, 2 and 1 of two trajectories: mean 2, sample variance 1
    assert reinforce_plus_plus(table([[1.0, 2.0], [1.0]])).advantages == pytest.approx([1, 0, -1], abs=1e-6)


def test_by_hand_with_a_groups_mean():
    # (group, role) means 1 and -1: centred 2, 2, -2, -2, 2, 2, 2; mean 6/7, sample variance (28 - 36/7) / 6 = 80/21
    expected = (np.array([2, 2, -2, -2, 2, 2, 2]) - 6 / 7) / np.sqrt(80 / 21)
    advantages = bind("credit", "reinforce_plus_plus", preset="baseline")(table(**BY_HAND), {}).advantages
    assert advantages == pytest.approx(expected)


@given(REWARDS, st.sampled_from([1.0, 0.5]))
def test_without_a_baseline_it_is_rebn(rewards, gamma):
    turns = table(rewards)
    expected = rebn(turns, gamma=gamma).advantages
    assert reinforce_plus_plus(turns, gamma=gamma).advantages == pytest.approx(expected, abs=1e-2)  # 1e-8 under the root


@given(REWARDS, st.integers(0, 1000), st.sampled_from(["none", "group"]))
def test_over_tokens_equals_a_naive_whitening_of_the_tokens(rewards, seed, baseline):
    size = sum(map(len, rewards))
    tokens = np.random.Generator(np.random.Philox(seed)).integers(0, 4, size).tolist()
    groups = [index // 2 for index in range(len(rewards))]
    turns = table(rewards, tokens=tokens, groups=groups)
    totals = [sum(values) for values in rewards]
    stream = []
    for values, total, own in zip(rewards, totals, groups, strict=True):
        peers = [other for other, group in zip(totals, groups, strict=True) if group == own]
        for turn in range(len(values)):
            stream.append(total - sum(peers) / len(peers) if baseline == "group" else sum(values[turn:]))
    flat = np.repeat(stream, tokens)
    advantages = reinforce_plus_plus(turns, baseline=baseline, over="tokens").advantages
    if len(flat) < 2 or flat.std() < 1e-6:
        assert np.isfinite(advantages).all()
        return
    assert advantages == pytest.approx((np.array(stream) - flat.mean()) / np.sqrt(flat.var(ddof=1) + 1e-8), abs=1e-6)


def test_counting_turns_or_tokens_differs():
    turns = table([[3.0], [0.0]], tokens=[3, 1])
    assert reinforce_plus_plus(turns).advantages == pytest.approx([2**-0.5, -(2**-0.5)])
    # tokens 3, 3, 3, 0: mean 2.25, sample variance 2.25
    assert reinforce_plus_plus(turns, over="tokens").advantages == pytest.approx([0.5, -1.5])


@given(REWARDS, st.floats(-1e3, 1e3))
def test_with_a_groups_mean_a_shift_of_one_groups_returns_changes_nothing(rewards, shift):
    groups = [index // 2 for index in range(len(rewards))]
    shifted = [[*values[:-1], values[-1] + shift] if group == 0 else values for values, group in zip(rewards, groups, strict=True)]
    totals = np.array([sum(values) for values in rewards])
    spread = max(np.ptp(totals[np.array(groups) == group]) for group in groups)
    if spread > 1e-2 or spread == 0:
        plain = reinforce_plus_plus(table(rewards, groups=groups), baseline="group").advantages
        assert reinforce_plus_plus(table(shifted, groups=groups), baseline="group").advantages == pytest.approx(plain, abs=1e-4)


@pytest.mark.parametrize("baseline", ["none", "group"])
@pytest.mark.parametrize("over", ["turns", "tokens"])
def test_hard_inputs(baseline, over):
    def estimate(rewards, **kwargs):
        return reinforce_plus_plus(table(rewards, **kwargs), baseline=baseline, over=over).advantages

    assert estimate([[5.0]]).tolist() == [0.0]
    assert estimate([]).shape == (0,)
    assert not estimate([[0.1]] * 7).any()
    assert not estimate([[1e6 + 0.1]] * 7, groups=[0] * 7).any()
    assert estimate([[5.0], [6.0]], tokens=[0, 0], groups=[0, 0]).shape == (2,)
    near = estimate([[1e6 + 1], [1e6 + 3]], groups=[0, 0], tokens=[1, 1])
    assert near == pytest.approx([-(2**-0.5), 2**-0.5], abs=1e-6)
