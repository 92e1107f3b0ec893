import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import table

from sparring.methods.credit.bi_level_gae import bi_level_gae
from sparring.methods.credit.gae import gae


def spoken(rewards, tokens, values):
    return dataclasses.replace(table(rewards, tokens=tokens), token_value=np.array(values, dtype=np.float64))


def random_turns(seed, longest=4):
    generator = np.random.Generator(np.random.Philox(seed))
    rewards = [generator.normal(size=generator.integers(1, 4)).tolist() for _ in range(5)]
    tokens = generator.integers(1, longest + 1, sum(map(len, rewards)))
    return spoken(rewards, tokens, generator.normal(size=tokens.sum()))


def naive(turns, gamma_turn, lam_turn, gamma_token, lam_token):
    """The two recursions, turn by turn and token by token from the end."""
    begin = np.cumsum(turns.n_tokens) - turns.n_tokens
    values = [turns.token_value[b : b + n] for b, n in zip(begin, turns.n_tokens, strict=True)]
    result = [np.zeros(n) for n in turns.n_tokens]
    for t in reversed(range(len(values))):
        later_value, later = (0.0, 0.0) if turns.done[t] else (values[t + 1][-1], result[t + 1][-1])
        result[t][-1] = turns.reward[t] + gamma_turn * later_value - values[t][-1] + gamma_turn * lam_turn * later
        for j in reversed(range(len(values[t]) - 1)):
            result[t][j] = gamma_token * values[t][j + 1] - values[t][j] + gamma_token * lam_token * result[t][j + 1]
    return np.concatenate(result)


def test_by_hand():
    """Two turns of two tokens. A[1] = 4 - 1 = 3, A[0] = 0 + 0.5 * 1 - 2 + 0.5 * 3 = 0; then 1 - 3 + 3 and 2 - 1 + 0."""
    credit = bi_level_gae(spoken([[0.0, 4.0]], [2, 2], [1.0, 2.0, 3.0, 1.0]), gamma_turn=0.5)
    assert credit.advantages == pytest.approx([1.0, 0.0, 1.0, 3.0])
    assert credit.value_targets == pytest.approx([2.0, 2.0, 4.0, 4.0])
    assert credit.level == "token"


@given(st.integers(0, 500), st.tuples(*[st.sampled_from([0.0, 0.6, 1.0])] * 4))
def test_equals_plain_loops(seed, decays):
    turns = random_turns(seed)
    names = ("gamma_turn", "lam_turn", "gamma_token", "lam_token")
    credit = bi_level_gae(turns, **dict(zip(names, decays, strict=True)))
    assert credit.advantages == pytest.approx(naive(turns, *decays))
    assert credit.value_targets == pytest.approx(credit.advantages + turns.token_value)


@given(st.integers(0, 500), st.floats(0, 1), st.floats(0, 1))
def test_with_replies_of_one_token_it_is_gae_over_turns(seed, gamma, lam):
    turns = random_turns(seed, longest=1)
    credit = bi_level_gae(turns, gamma_turn=gamma, lam_turn=lam)
    plain = gae(dataclasses.replace(turns, value=turns.token_value), gamma=gamma, lam=lam)
    assert np.array_equal(credit.advantages, plain.advantages)
    assert np.array_equal(credit.value_targets, plain.value_targets)


@given(st.integers(0, 500))
def test_without_decay_a_token_gets_the_turns_return_minus_its_own_value(seed):
    """So the critic cannot bias: the value before a token does not depend on it."""
    turns = random_turns(seed)
    returns = gae(dataclasses.replace(turns, value=np.zeros(len(turns.reward))), lam=1.0).advantages
    credit = bi_level_gae(turns, gamma_turn=1.0)
    assert credit.advantages == pytest.approx(np.repeat(returns, turns.n_tokens) - turns.token_value)


def test_a_turn_that_earned_nothing_is_a_turn():
    short, long = (
        bi_level_gae(spoken([rewards], [1] * len(rewards), [0.0] * len(rewards))) for rewards in ([0.0, 1.0], [0.0, 0.0, 1.0])
    )
    assert short.advantages == pytest.approx([0.95, 1.0])
    assert long.advantages == pytest.approx([0.95**2, 0.95, 1.0])


def test_whitening_leaves_the_critics_targets():
    turns = random_turns(3)
    plain, white = bi_level_gae(turns), bi_level_gae(turns, whiten=True)
    assert white.advantages.mean() == pytest.approx(0.0, abs=1e-12)
    assert white.advantages.std(ddof=1) == pytest.approx(1.0)
    assert np.array_equal(plain.value_targets, white.value_targets)


def test_all_equal_one_token_offsets_and_no_turns():
    assert bi_level_gae(spoken([[1e6], [1e6]], [2, 1], [1e6] * 3), whiten=True).advantages == pytest.approx([0.0] * 3)
    assert bi_level_gae(spoken([[1.0]], [1], [0.5]), whiten=True).advantages.tolist() == [0.5]
    assert bi_level_gae(spoken([], [], [])).advantages.shape == (0,)


def test_what_a_silent_turn_earned_counts_to_the_turn_before():
    # the last turn of the first trajectory and the first of the second say nothing
    silent = spoken([[1.0, 2.0, 4.0], [8.0, 16.0], [5.0]], [2, 1, 0, 0, 1, 0], [0.5, 0.25, 1.0, 2.0])
    heard = spoken([[1.0, 6.0], [16.0]], [2, 1, 1], [0.5, 0.25, 1.0, 2.0])
    options = {"gamma_turn": 0.9, "lam_turn": 0.8, "gamma_token": 0.7, "lam_token": 0.6}
    for found, expected in ((bi_level_gae(one, **options) for one in (silent, heard)),):
        assert found.advantages == pytest.approx(expected.advantages)
        assert found.value_targets == pytest.approx(expected.value_targets)
    assert bi_level_gae(spoken([[1.0], [2.0]], [0, 0], [])).advantages.shape == (0,)
