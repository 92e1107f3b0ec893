import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.methods.credit.tables import table

from sparring.methods.credit.branch_grpo import branch_grpo
from sparring.methods.credit.grpo import grpo
from sparring.methods.credit.salt import salt


def grown(seed, games=12):
    """Return a random table whose groups form trees: the key of a turn is everything that went before."""
    generator = np.random.Generator(np.random.Philox(seed))
    rewards, keys, actions, known = [], [], [], {}
    for length in generator.integers(1, 5, games):
        own, past = generator.integers(0, 2, length), ()
        for action in own:
            keys.append(known.setdefault(past, len(known)))
            actions.append(action)
            past = (*past, action, generator.integers(0, 2))
        rewards.append(generator.normal(size=length).tolist())
    turns = table(rewards, groups=generator.integers(0, 2, games), roles=generator.integers(0, 2, games), keys=keys)
    size = len(keys)
    return dataclasses.replace(turns, action=np.array(actions), view=turns.state_key, logprob=-generator.random(size))


def acting(turns, actions):
    return dataclasses.replace(turns, action=np.array(actions, dtype=np.int64))


def test_by_hand():
    # leaves 2, 0, 0, 2 (mean 1); the first two share their first turn, the third took another action there
    turns = acting(table([[0.0, 2.0], [0.0, 0.0], [0.0], [2.0]], groups=[0] * 4, keys=[0, 1, 0, 2, 0, 3]), [5, 5, 5, 5, 6, 5])
    expected = [0.0, 1.0, 0.0, -1.0, -1.0, 1.0]
    assert branch_grpo(turns, divide_by_std=False).advantages == pytest.approx(expected)
    assert branch_grpo(turns).advantages == pytest.approx(np.array(expected) / (4 / 3) ** 0.5, abs=1e-5)
    assert branch_grpo(turns, epsilon=1.0).advantages == pytest.approx(np.array(expected) / (1 + (4 / 3) ** 0.5))


@pytest.mark.parametrize("seed", range(5))
def test_on_trees_it_is_salt_by_information_states_and_without_shared_turns_grpo(seed):
    turns = grown(seed)
    assert branch_grpo(turns).advantages == pytest.approx(salt(turns, anchor="state_key").advantages, abs=1e-9)
    alone = dataclasses.replace(turns, state_key=np.arange(len(turns.reward)))
    assert branch_grpo(alone).advantages == pytest.approx(grpo(alone).advantages, abs=1e-12)


def test_surprise_raises_what_was_unlikely_per_token():
    turns = acting(table([[2.0], [0.0], [0.0]], groups=[0] * 3, keys=[0, 1, 2], tokens=[2, 1, 4]), [0, 0, 0])
    turns = dataclasses.replace(turns, logprob=np.array([-6.0, -1.0, -8.0]))  # surprise 3, 1, 2: z of +-sqrt(1.5) and 0
    plain, z = np.array([4 / 3, -2 / 3, -2 / 3]), np.array([1.5**0.5, -(1.5**0.5), 0.0])
    options = {"divide_by_std": False, "surprise_weight": 0.4}
    assert branch_grpo(turns, **options).advantages == pytest.approx(plain * (1 + 0.4 * z))
    silent = dataclasses.replace(turns, n_tokens=np.array([2, 1, 0]))  # surprise 3, 1 and none: z of +-1 and 0
    assert branch_grpo(silent, **options).advantages == pytest.approx(plain * [1.4, 0.6, 1.0])
    mute = dataclasses.replace(turns, n_tokens=np.zeros(3, dtype=np.int64))
    assert branch_grpo(mute, **options).advantages == pytest.approx(plain)


@settings(deadline=None)
@given(seed=st.integers(0, 1000))
def test_the_first_turns_of_each_group_are_centred(seed):
    turns = grown(seed)
    first = {trajectory: row for row, trajectory in reversed(list(enumerate(turns.trajectory)))}
    advantages = branch_grpo(turns).advantages[list(first.values())]
    keys = [(turns.group[row], turns.role[row]) for row in first.values()]
    for key in set(keys):
        assert sum(a for a, own in zip(advantages, keys, strict=True) if own == key) == pytest.approx(0.0, abs=1e-6)


def test_hard_tables():
    empty = dataclasses.replace(acting(table([]), []), logprob=np.zeros(0))
    assert branch_grpo(empty, surprise_weight=0.1).advantages.shape == (0,)
    assert not branch_grpo(acting(table([[5.0, 1.0]], keys=[0, 1]), [0, 0])).advantages.any()
    equal = dataclasses.replace(acting(table([[1e6 + 0.1]] * 5, groups=[0] * 5), [0] * 5), logprob=np.full(5, -0.3))
    assert branch_grpo(equal, surprise_weight=1.0).advantages == pytest.approx(np.zeros(5), abs=1e-6)
