import itertools
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import BY_HAND, EIGHTHS, group_of, table

from sparring.config.plugins.registry import bind
from sparring.core.errors import CreditError
from sparring.methods.credit.dgrpo import dgrpo
from sparring.methods.credit.flow_grpo import flow_grpo
from sparring.methods.credit.gpg import gpg
from sparring.methods.credit.grpo import grpo
from sparring.methods.credit.loop import loop
from sparring.methods.credit.mc_grpo import mc_grpo
from sparring.methods.credit.ngrpo import ngrpo
from sparring.methods.credit.opo import opo
from sparring.methods.credit.pass_at_k import pass_at_k
from sparring.methods.credit.rloo import rloo


def test_rloo_golden():
    assert rloo(group_of([1, 0, 0, 0])).advantages == pytest.approx([1.0, -1 / 3, -1 / 3, -1 / 3])


def test_rloo_by_hand():
    assert rloo(table(**BY_HAND)).advantages == pytest.approx([4.0, 4.0, -4.0, -4.0, 4.0, 4.0, 4.0])


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=9))
def test_rloo_is_centred_grpo_times_n_over_n_minus_one(returns):
    n = len(returns)
    centred_advantages = grpo(group_of(returns), divide_by_std=False).advantages
    assert rloo(group_of(returns)).advantages == pytest.approx(n / (n - 1) * centred_advantages, abs=1e-9)


def test_rloo_groups_are_separate_and_lengths_do_not_matter():
    turns = table([[1.0, 1.0], [0.0], [5.0], [4.0, 0.0, 5.0]], groups=[0, 0, 1, 1])
    assert rloo(turns).advantages == pytest.approx([2.0, 2.0, -2.0, -4.0, 4.0, 4.0, 4.0])


REWARDS = st.lists(st.lists(EIGHTHS, min_size=1, max_size=4), min_size=1, max_size=8)


def test_opo_by_hand():
    # lengths 6 and 2, returns 3 and -1: baseline (18 - 2) / 8 = 2; seat 1: lengths 2 and 6, returns -3 and 1: baseline 0
    turns = table(**BY_HAND, tokens=[5, 1, 2, 2, 1, 2, 3])
    assert opo(turns).advantages == pytest.approx([1, 1, -3, -3, 1, 1, 1])


def test_opo_by_hand_with_lengths_in_turns():
    # lengths 2 and 1: baseline (6 - 1) / 3 = 5/3; lengths 1 and 3: baseline (-3 + 3) / 4 = 0
    turns = table(**BY_HAND, tokens=[5, 1, 2, 2, 1, 2, 3])
    assert opo(turns, length="turns").advantages == pytest.approx([4 / 3, 4 / 3, -3, -8 / 3, 1, 1, 1])


@given(st.lists(EIGHTHS, min_size=1, max_size=8))
def test_with_equal_lengths_opo_is_dr_grpo(returns):
    turns = table([[value] for value in returns], groups=[index // 3 for index in range(len(returns))])
    assert opo(turns).advantages == pytest.approx(grpo(turns, divide_by_std=False).advantages, abs=1e-12)


@given(REWARDS, st.integers(0, 1000))
def test_opo_equals_plain_loops_and_the_weighted_sum_is_zero(rewards, seed):
    tokens = np.random.Generator(np.random.Philox(seed)).integers(1, 9, sum(map(len, rewards)))
    bounds = np.cumsum([0, *map(len, rewards)])
    lengths = [int(tokens[a:b].sum()) for a, b in itertools.pairwise(bounds)]
    groups = [index // 3 for index in range(len(rewards))]
    advantages = opo(table(rewards, tokens=tokens, groups=groups)).advantages
    for group in set(groups):
        members = [index for index, number in enumerate(groups) if number == group]
        baseline = sum(lengths[i] * sum(rewards[i]) for i in members) / sum(lengths[i] for i in members)
        for index in members:
            assert advantages[bounds[index] : bounds[index + 1]] == pytest.approx(
                sum(rewards[index]) - baseline, abs=1e-9
            )
        assert sum(lengths[i] * advantages[bounds[i]] for i in members) == pytest.approx(0, abs=1e-8)


def test_opo_group_without_tokens_falls_back_to_the_plain_mean():
    assert opo(table([[1.0], [3.0]], groups=[0, 0], tokens=[0, 0])).advantages.tolist() == [-1.0, 1.0]


def table_of_pairs(returns):
    return table([[value] for value in returns], groups=[index // 2 for index in range(len(returns))])


def test_gpg_by_hand():
    # two of six trajectories are in a group that differs: factor 3
    credit = gpg(table_of_pairs([1, 1, 0, 4, 2, 2]))
    assert credit.advantages.tolist() == [0, 0, -6, 6, 0, 0]
    assert credit.metrics["useful_share"] == pytest.approx(1 / 3)


@given(st.lists(EIGHTHS, min_size=2, max_size=8, unique=True).filter(lambda returns: len(returns) % 2 == 0))
def test_gpg_is_dr_grpo_if_every_group_has_different_returns(returns):
    assert gpg(table_of_pairs(returns)).advantages == pytest.approx(
        grpo(table_of_pairs(returns), divide_by_std=False).advantages, abs=1e-12
    )


@given(st.lists(EIGHTHS, min_size=4, max_size=12))
def test_gpg_equals_plain_loops(returns):
    groups = [returns[index : index + 2] for index in range(0, len(returns), 2)]
    num_in_differing_groups = sum(len(group) for group in groups if max(group) > min(group))
    expected = [
        (v - sum(group) / len(group)) * len(returns) / max(num_in_differing_groups, 1)
        for group in groups
        for v in group
    ]
    assert gpg(table_of_pairs(returns)).advantages == pytest.approx(expected, abs=1e-9)


def test_gpg_roles_are_separate_and_turns_of_a_trajectory_share_its_advantage():
    turns = table([[1.0, 2.0], [9.0], [1.0], [9.0]], seats=[0, 1, 0, 1], groups=[0] * 4)
    # role 0: returns 3 and 1; role 1 equal: factor 2
    assert gpg(turns).advantages.tolist() == [2, 2, 0, -2, 0]


def test_ngrpo_golden():
    assert ngrpo(group_of([0] * 8)).advantages == pytest.approx([-1 / 3] * 8, abs=1e-5)
    advantages = ngrpo(group_of([1] * 4 + [0] * 4)).advantages
    assert advantages == pytest.approx([0.843] * 4 + [-1.054] * 4, abs=1e-3)


def test_ngrpo_gives_0_at_the_best_return_and_compares_one_member_with_the_virtual_one():
    assert ngrpo(group_of([1] * 8)).advantages.tolist() == [0.0] * 8
    assert ngrpo(group_of([1])).advantages.tolist() == [0.0]
    assert ngrpo(group_of([0])).advantages == pytest.approx([-(2**-0.5)], abs=1e-5)


@given(st.lists(EIGHTHS, min_size=1, max_size=8), st.integers(0, 4), EIGHTHS)
def test_ngrpo_is_grpo_of_the_group_with_virtual_members(returns, virtual, best):
    all_returns = [*returns, *[best] * virtual]
    expected = grpo(group_of(all_returns)).advantages[: len(returns)]
    assert ngrpo(group_of(returns), num_virtual=virtual, best=best).advantages == pytest.approx(expected, abs=1e-6)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_ngrpo_sum_of_advantages_is_not_positive(returns):
    assert ngrpo(group_of(returns)).advantages.sum() <= 1e-9


def test_ngrpo_normalises_per_role_and_group_and_shares_over_turns():
    turns = table([[0.0, 0.0], [1.0], [0.0], [0.0]], seats=[0, 1, 0, 1], groups=[0, 0, 0, 0])
    advantage_of_0 = -1 / 3 / (1 / 3) ** 0.5  # of 0, 0 and a virtual 1: mean 1/3, deviation sqrt(1/3)
    advantage_of_1 = 3**-0.5  # role 1 has 1, 0 and a virtual 1: mean 2/3, deviation sqrt(1/3)
    assert ngrpo(turns).advantages == pytest.approx(
        [advantage_of_0, advantage_of_0, advantage_of_1, advantage_of_0, -2 * advantage_of_1], abs=1e-5
    )


def test_ngrpo_epsilon_is_added_to_the_deviation():
    assert ngrpo(group_of([0] * 8), epsilon=1 / 3).advantages == pytest.approx([-1 / 6] * 8)


def test_ngrpo_hard_inputs():
    assert ngrpo(table([])).advantages.shape == (0,)
    assert ngrpo(group_of([1e6 + 1, 1e6 + 3]), best=1e6 + 5).advantages == pytest.approx([-1, 0], abs=1e-5)
    assert ngrpo(group_of([7.0]), num_virtual=0).advantages.tolist() == [0.0]
    assert ngrpo(group_of([0.1] * 7), num_virtual=0).advantages == pytest.approx(np.zeros(7), abs=1e-9)


def test_mc_grpo_golden():
    advantages = mc_grpo(group_of([0, 0.2, 0.5, 0.9, 1])).advantages
    assert advantages == pytest.approx([-1.247, -0.748, 0, 0.998, 1.247], abs=1e-3)


def test_mc_grpo_epsilon_is_added_to_the_deviation():
    assert mc_grpo(group_of([0, 0.2, 0.5, 0.9, 1]), epsilon=0.1).advantages == pytest.approx([-1, -0.6, 0, 0.8, 1])


def test_mc_grpo_median_of_an_even_group_is_the_lower_middle_value():
    # median 1, distances 1, 0, 2, 5: lower median 1
    assert mc_grpo(group_of([0, 1, 3, 6])).advantages == pytest.approx(np.array([-1, 0, 2, 5]) / 1.001)


def test_without_a_deviation_mc_grpo_falls_back_to_grpo_or_amplifies():
    turns = group_of([0, 0, 0, 1, 0])
    assert mc_grpo(turns).advantages == pytest.approx(grpo(turns).advantages)
    assert bind("credit", "mc_grpo", preset="as_released")(turns, {}).advantages == pytest.approx([0, 0, 0, 1000, 0])


def test_mc_grpo_fallback_is_per_group():
    turns = table([[v] for v in (0, 0, 1, 0, 1, 3)], groups=[0, 0, 0, 1, 1, 1])
    advantages = mc_grpo(turns).advantages
    assert advantages[:3] == pytest.approx(grpo(group_of([0, 0, 1])).advantages)
    assert advantages[3:] == pytest.approx(np.array([-1, 0, 2]) / 1.001)


@given(st.lists(EIGHTHS, min_size=2, max_size=9))
def test_mc_grpo_equals_plain_loops(returns):
    median = statistics.median_low(returns)
    mad = statistics.median_low([abs(value - median) for value in returns])
    expected = [(value - median) / (mad + 1e-3) for value in returns]
    assert mc_grpo(group_of(returns), without_deviation="amplify").advantages == pytest.approx(expected, abs=1e-6)


def test_mc_grpo_normalises_per_role_and_shares_over_turns():
    turns = table([[1.0, 1.0], [5.0], [0.0], [5.0], [1.0], [5.0]], seats=[0, 1] * 3, groups=[0] * 6)
    assert mc_grpo(turns).advantages == pytest.approx(np.array([1, 1, 0, -1, 0, 0, 0]) / 1.001)


def test_pass_at_k_by_hand():
    assert pass_at_k(group_of([1, 5, 3, 2])).advantages.tolist() == [0, 2, 0, 0]


def test_pass_at_k_by_hand_with_division():
    # sample deviation of 1, 0, 0, 0 is 1/2
    assert pass_at_k(group_of([1, 0, 0, 0]), divide_by_std=True).advantages == pytest.approx([2, 0, 0, 0], abs=1e-5)
    assert pass_at_k(group_of([1, 0, 0, 0]), divide_by_std=True, epsilon=0.5).advantages.tolist() == [1, 0, 0, 0]


def test_pass_at_k_roles_are_separate_and_all_turns_of_the_best_are_credited():
    assert pass_at_k(table(**BY_HAND)).advantages == pytest.approx([4, 4, 0, 0, 4, 4, 4])


@given(EIGHTHS, EIGHTHS)
def test_pass_at_k_of_a_pair_is_the_positive_part_of_rloo(return_a, return_b):
    assert pass_at_k(group_of([return_a, return_b])).advantages == pytest.approx(
        np.maximum(rloo(group_of([return_a, return_b])).advantages, 0), abs=1e-12
    )


@given(st.lists(EIGHTHS, min_size=2, max_size=8))
def test_pass_at_k_each_advantage_is_the_loss_of_the_maximum_without_that_member(returns):
    losses_of_maximum = [max(returns) - max(returns[:index] + returns[index + 1 :]) for index in range(len(returns))]
    assert pass_at_k(group_of(returns)).advantages == pytest.approx(losses_of_maximum, abs=1e-12)


def test_pass_at_k_groups_of_different_sizes():
    turns = table([[1.0], [9.0], [4.0], [2.0], [8.0], [3.0]], groups=[0, 1, 0, 0, 1, 2])
    assert pass_at_k(turns).advantages.tolist() == [0, 1, 2, 0, 0, 0]


def test_dgrpo_by_hand():
    # success rate 1/4: weight 1 + 3/4
    assert dgrpo(group_of([1, 0, 0, 0])).advantages == pytest.approx(1.75 * np.array([1.5, -0.5, -0.5, -0.5]), abs=1e-5)
    assert dgrpo(group_of([1, 0, 0, 0]), divide_by_std=False, strength=2.0).advantages == pytest.approx(
        [1.875, -0.625, -0.625, -0.625]
    )


def test_dgrpo_options_worst_and_best_set_the_success_rate():
    # mean -0.5 between -1 and 1: p = 1/4
    advantages = dgrpo(group_of([1, -1, -1, -1]), worst=-1.0, divide_by_std=False).advantages
    assert advantages == pytest.approx(1.75 * np.array([1.5, -0.5, -0.5, -0.5]))


def test_dgrpo_success_rates_are_clipped_to_0_and_1():
    assert dgrpo(group_of([5, 7]), divide_by_std=False).advantages == pytest.approx([-1, 1])
    assert dgrpo(group_of([-5, -7]), divide_by_std=False).advantages == pytest.approx([2, -2])


@given(st.lists(EIGHTHS, min_size=1, max_size=8), st.booleans())
def test_without_strength_dgrpo_is_grpo(returns, divide):
    turns = table([[value] for value in returns], groups=[index // 3 for index in range(len(returns))])
    expected = grpo(turns, divide_by_std=divide).advantages
    assert dgrpo(turns, strength=0.0, divide_by_std=divide).advantages == pytest.approx(expected, abs=1e-6)


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=8), st.floats(0, 3))
def test_dgrpo_weight_lies_between_one_and_one_plus_strength(returns, strength):
    unweighted = np.abs(dgrpo(group_of(returns), strength=0.0).advantages)
    weighed = np.abs(dgrpo(group_of(returns), strength=strength).advantages)
    assert (weighed >= unweighted - 1e-9).all()
    assert (weighed <= (1 + strength) * unweighted + 1e-9).all()


def test_dgrpo_epsilon_is_added_to_the_deviation():
    assert dgrpo(group_of([1, 0, 0, 0]), strength=0.0, epsilon=0.5).advantages == pytest.approx(
        [0.75, -0.25, -0.25, -0.25]
    )


def test_dgrpo_roles_have_their_own_difficulty():
    # role 0: mean 1, p = 1; role 1: mean -1, p = 0: weight 2
    assert dgrpo(table(**BY_HAND), divide_by_std=False).advantages == pytest.approx([2, 2, -4, -2, 4, 4, 4])


def test_dgrpo_best_must_be_above_worst():
    with pytest.raises(CreditError, match=r"best 0\.0 is not above worst 0\.0"):
        dgrpo(group_of([1, 0]), best=0.0)


def test_loop_golden_with_division():
    # sample deviation 1/2
    assert loop(group_of([1, 0, 0, 0]), divide_by_std=True).advantages == pytest.approx([2.0, -2 / 3, -2 / 3, -2 / 3])


def test_loop_small_advantages_become_zero_by_hand():
    # means of the others: 1.5, 1.5 + 1/3 ...: advantages of 0, 1, 1.02, 3 are -1.6733, -0.34, -0.3133, 2.3267
    advantages = np.array([0 - 5.02 / 3, 1 - 4.02 / 3, 1.02 - 4 / 3, 3 - 2.02 / 3])
    assert loop(group_of([0, 1, 1.02, 3]), min_advantage=0.33).advantages == pytest.approx(
        [advantages[0], advantages[1], 0.0, advantages[3]]
    )


def test_loop_advantage_equal_to_the_threshold_stays_and_the_default_threshold_is_a_hundredth():
    assert loop(group_of([0.25, 0.0]), min_advantage=0.25).advantages.tolist() == [0.25, -0.25]
    assert loop(group_of([0.009, 0.0])).advantages.tolist() == [0.0, 0.0]
    assert loop(group_of([0.011, 0.0])).advantages == pytest.approx([0.011, -0.011])


def test_loop_threshold_applies_after_the_division():
    assert loop(group_of([0.009, 0.0]), divide_by_std=True).advantages == pytest.approx([2**0.5, -(2**0.5)])


@given(st.lists(st.lists(EIGHTHS, min_size=1, max_size=4), min_size=1, max_size=8))
def test_without_a_threshold_loop_is_rloo(rewards):
    turns = table(rewards, groups=[index // 3 for index in range(len(rewards))])
    assert loop(turns, min_advantage=0.0).advantages == pytest.approx(rloo(turns).advantages, abs=1e-9)


@given(st.lists(EIGHTHS, min_size=1, max_size=8), st.floats(0, 5))
def test_loop_threshold_moves_no_advantage_by_more_than_itself(returns, threshold):
    thresholded = loop(group_of(returns), min_advantage=threshold).advantages
    assert (np.abs(thresholded - rloo(group_of(returns)).advantages) <= threshold + 1e-9).all()
    assert ((thresholded == 0) | (np.abs(thresholded) >= threshold)).all()


def test_loop_divisor_is_never_below_its_minimum():
    advantages = loop(group_of([1e-9, 0.0]), divide_by_std=True, min_advantage=0.0).advantages
    assert advantages == pytest.approx([1e-2, -1e-2])


def test_flow_grpo_by_hand():
    # samples 3, 0, 0: mean 1, sample deviation sqrt(3); per trajectory 3, 0: mean 1.5, deviation 3 / sqrt(2)
    turns = table([[3.0], [1.0, -1.0]], groups=[0, 0])
    assert flow_grpo(turns).advantages == pytest.approx(np.array([2, -1, -1]) / 3**0.5, abs=1e-5)
    assert flow_grpo(turns, weigh="trajectories").advantages == pytest.approx(np.array([1, -1, -1]) / 2**0.5, abs=1e-5)


@given(REWARDS)
def test_flow_grpo_that_weighs_trajectories_is_grpo(rewards):
    turns = table(rewards, groups=[index // 3 for index in range(len(rewards))])
    assert np.array_equal(flow_grpo(turns, weigh="trajectories").advantages, grpo(turns).advantages)
    assert np.array_equal(flow_grpo(turns).advantages, grpo(turns, over="turns").advantages)


def test_flow_grpo_epsilon_is_added_to_the_deviation():
    turns = table([[1.0], [-1.0]], groups=[0, 0])
    assert flow_grpo(turns, epsilon=2**0.5).advantages == pytest.approx([8**-0.5, -(8**-0.5)])
