import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases import every_case
from tests.methods.credit.tables import table

from sparring.config.plugins.registry import bind
from sparring.methods.credit.gigpo import gigpo
from sparring.methods.credit.grpo import grpo
from sparring.methods.credit.hgpo import hgpo


def seeing(turns, views):
    return dataclasses.replace(turns, view=np.array(views, dtype=np.int64))


def drawn(seed, views=2):
    """Return a random table of 9 trajectories in 2 groups and 2 roles, and its plain lists; rewards are few halves."""
    generator = np.random.Generator(np.random.Philox(seed))
    rewards = [(generator.integers(-2, 3, length) / 2).tolist() for length in generator.integers(1, 6, 9)]
    groups, roles = generator.integers(0, 2, 9), generator.integers(0, 2, 9)
    seen = generator.integers(0, views, sum(map(len, rewards)))
    return seeing(table(rewards, groups=groups, roles=roles), seen), rewards, groups, roles


# two games of the same three views, and a third that shares the last view alone
THREE = {"rewards": [[0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0]], "groups": [0, 0, 0]}


def test_golden_weights():
    # at the last view: level 1 compares 1 with (1, 0, 0), levels 2 and 3 with (1, 0)
    turns = seeing(table(**THREE), [0, 1, 2, 0, 1, 2, 2])
    last = hgpo(turns, gamma=1.0, divide_by_std=False).advantages[[2, 5, 6]]
    assert last == pytest.approx([2 / 9 * 2 / 3 + 7 / 9 * 0.5, -2 / 9 / 3 - 7 / 9 * 0.5, -1 / 3])
    # divided by the population deviation, all of levels 2 and 3 are +-1; level 1 of (1, 0, 0) is sqrt 2
    divided = hgpo(turns, gamma=1.0).advantages
    assert divided[2] == pytest.approx(2 / 9 * 2**0.5 + 3 / 9 + 4 / 9, abs=1e-5)
    # second turns have two levels (2/5, 3/5), first turns one
    assert divided[:2] == pytest.approx([1.0, 1.0], abs=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_without_history_it_is_the_step_part_of_gigpo(seed):
    turns = drawn(seed)[0]
    step = gigpo(turns, gamma=0.9).advantages - gigpo(turns, gamma=0.9, weight=0.0).advantages
    assert hgpo(turns, gamma=0.9, history=0, divide_by_std=False).advantages == pytest.approx(step, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_if_no_view_is_shared_the_base_is_grpo_and_without_it_nothing_is_left(seed):
    turns = drawn(seed)[0]
    alone = seeing(turns, np.arange(len(turns.reward)))
    assert np.array_equal(hgpo(alone, base=True).advantages, grpo(alone).advantages)
    assert not hgpo(alone).advantages.any()


def naive(rewards, groups, roles, views, *, gamma, history, alpha, divide, base, count_zeros):
    """The estimator in plain Python loops, over contexts as tuples of views."""
    rows, contexts, wholes = [], {}, {}
    for own, group in zip(rewards, zip(groups, roles, strict=True), strict=True):
        seen = views[len(rows) : len(rows) + len(own)]
        wholes.setdefault(group, []).append(sum(own))
        for turn in range(len(own)):
            togo = sum(gamma**k * r for k, r in enumerate(own[turn:]))
            keys = [(group, tuple(seen[turn + 1 - k : turn + 1])) for k in range(1, min(history + 1, turn + 1) + 1)]
            for key in keys:
                contexts.setdefault(key, []).append(togo)
            rows.append((group, sum(own), togo, keys))

    def z(value, values, ddof):
        mean = sum(values) / len(values)
        deviation = (sum((v - mean) ** 2 for v in values) / (len(values) - ddof)) ** 0.5
        return (value - mean) / (deviation + 1e-6 if divide else 1.0)

    result = []
    for group, whole, togo, keys in rows:
        items = [(len(key[1]), z(togo, contexts[key], 0)) for key in keys if len(contexts[key]) > 1]
        if base:
            items.append((0, z(whole, wholes[group], 1) if len(wholes[group]) > 1 else 0.0))
        items = [(k, a) for k, a in items if count_zeros or abs(a) > 1e-9]
        result.append(sum((k + 1) ** alpha * a for k, a in items) / (sum((k + 1) ** alpha for k, _ in items) or 1.0))
    return result


@every_case("seed", range(8))
@every_case("divide", [False, True])
@every_case("base", [False, True])
@every_case("count_zeros", [False, True])
def test_it_equals_plain_loops(seed, divide, base, count_zeros):
    turns, rewards, groups, roles = drawn(seed)
    options = {"gamma": 0.5, "history": seed % 4, "alpha": 0.5 * seed, "base": base, "count_zeros": count_zeros}
    expected = naive(rewards, groups, roles, turns.view.tolist(), divide=divide, **options)
    assert hgpo(turns, divide_by_std=divide, **options).advantages == pytest.approx(expected, abs=1e-9)


def test_as_released_leaves_levels_out_whose_advantage_is_zero():
    # the last view is shared by all with returns 1, 0, 0.5: zero for the third; with its own past the third meets one return 0
    rewards = [[0.0, 1.0], [0.0, 0.0], [0.0, 0.5], [0.0, 0.5]]
    turns = seeing(table(rewards, groups=[0] * 4), [0, 2, 0, 2, 1, 2, 1, 2])
    ours = hgpo(turns, gamma=1.0, divide_by_std=False).advantages
    released = bind("credit", "hgpo", {"gamma": 1.0, "divide_by_std": False}, preset="as_released")(turns, {}).advantages
    assert ours == pytest.approx(released)  # all zeros of a row coincide here
    turns = dataclasses.replace(turns, reward=np.array([0.0, 1, 0, 1, 0, 0, 0, 0]))
    ours = hgpo(turns, gamma=1.0, divide_by_std=False).advantages
    released = bind("credit", "hgpo", {"gamma": 1.0, "divide_by_std": False}, preset="as_released")(turns, {}).advantages
    assert ours[1::2] == pytest.approx([0.2, 0.2, -0.2, -0.2])
    assert released[1::2] == pytest.approx([0.5, 0.5, -0.5, -0.5])


def test_alpha_zero_weighs_all_lengths_alike_and_history_bounds_them():
    turns = seeing(table(**THREE), [0, 1, 2, 0, 1, 2, 2])
    assert hgpo(turns, gamma=1.0, divide_by_std=False, alpha=0.0).advantages[2] == pytest.approx((2 / 3 + 0.5 + 0.5) / 3)
    assert hgpo(turns, gamma=1.0, divide_by_std=False, history=1).advantages[2] == pytest.approx(2 / 5 * 2 / 3 + 3 / 5 * 0.5)


def test_with_information_states_all_lengths_agree():
    turns = table(**THREE, keys=[0, 1, 2, 0, 1, 2, 3])
    one, three = (hgpo(turns, anchor="state_key", history=history).advantages for history in (0, 2))
    assert one == pytest.approx(three)
    assert np.abs(one[:6]).min() > 0.5


@settings(deadline=None)
@given(seed=st.integers(0, 1000), factor=st.floats(0.1, 10.0))
def test_scaling_rewards_scales_advantages_and_without_history_they_sum_to_zero(seed, factor):
    turns = drawn(seed)[0]
    plain = hgpo(turns, divide_by_std=False).advantages
    scaled = hgpo(dataclasses.replace(turns, reward=factor * turns.reward), divide_by_std=False).advantages
    assert scaled == pytest.approx(factor * plain, abs=1e-9)
    assert hgpo(turns, history=0).advantages.sum() == pytest.approx(0.0, abs=1e-6)


def test_hard_tables():
    assert hgpo(seeing(table([]), []), base=True).advantages.shape == (0,)
    assert not hgpo(seeing(table([[5.0, 1.0]]), [0, 1]), base=True).advantages.any()
    for value in (0.1, 1e6 + 0.1):
        equal = seeing(table([[value, value]] * 7, groups=[0] * 7), [0, 1] * 7)
        for count_zeros in (True, False):
            assert hgpo(equal, base=True, count_zeros=count_zeros).advantages == pytest.approx(np.zeros(14), abs=1e-3)
    big = seeing(table([[1e6 + 1], [1e6 + 3]], groups=[0, 0]), [0, 0])
    assert hgpo(big, divide_by_std=False).advantages == pytest.approx([-1.0, 1.0], abs=1e-6)


def test_a_seat_that_sees_one_view_twice_is_compared_with_itself():
    """Also in a group of equal returns; its Pitfalls say so, and what avoids it."""
    turns = seeing(table([[0.0, 1.0], [1.0]], groups=[0, 0], roles=[0, 0]), [0, 0, 1])
    assert hgpo(turns).advantages == pytest.approx([-1, 1, 0], abs=1e-4)
    assert hgpo(turns, gamma=1.0).advantages.tolist() == [0, 0, 0]
    assert np.abs(hgpo(turns, divide_by_std=False).advantages).max() < 0.03
    assert "A seat that sees one view twice is compared\n    with itself" in hgpo.__doc__
