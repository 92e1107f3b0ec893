import dataclasses
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import EIGHTHS, group_of, groups_of_four, table

from sparring.config.plugins.registry import bind
from sparring.core.errors import CreditError
from sparring.methods.credit.a_grae import a_grae
from sparring.methods.credit.arena_rl import arena_rl
from sparring.methods.credit.copo import copo
from sparring.methods.credit.grpo import grpo
from sparring.methods.credit.s_grpo import s_grpo
from sparring.methods.credit.ssl import ssl
from sparring.methods.credit.xrpo import xrpo
from sparring.ops.tournaments import tournament_ranks


def test_a_grae_by_hand():
    # p = 1/4 and 1/2, omega = 3/8
    turns = groups_of_four([1, 0, 0, 0, 1, 1, 0, 0])
    grpo_advantages = grpo(turns).advantages
    hard_weight = 0.5 * (3 / 8 / 0.5 + 5 / 8 / 0.75**0.5)
    even_weight = 0.5 * (3 / 8 / 0.5**0.5 + 5 / 8 / 0.5**0.5)
    expected = grpo_advantages * np.repeat([hard_weight, even_weight], 4) * np.where(grpo_advantages > 0, 3 / 8, 1)
    credit = a_grae(turns)
    assert credit.advantages == pytest.approx(expected)
    assert credit.metrics["success_rate"] == pytest.approx(3 / 8)


def test_a_grae_success_is_a_return_above_the_threshold():
    assert np.array_equal(a_grae(groups_of_four([3, 2, 2, 2]), success=3.0).advantages != 0, [True] * 4)
    assert not a_grae(groups_of_four([3, 2, 2, 2]), success=3.1).advantages.any()
    assert not a_grae(
        groups_of_four([3, 2, 2, 2])
    ).advantages.any()  # all succeed, so the advantages are 0 despite different returns


@given(st.lists(st.permutations([0.0, 0.0, 1.0, 1.0]), min_size=1, max_size=3))
def test_a_grae_is_grpo_over_root_two_if_half_of_every_group_succeeds(groups):
    """omega = p = 1/2: the weight is 1 / sqrt(2), and alpha = 1/2 keeps successes whole."""
    turns = groups_of_four([value for group in groups for value in group])
    assert a_grae(turns, alpha=0.5).advantages == pytest.approx(grpo(turns).advantages / 2**0.5)


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=16), st.sampled_from([0.5, 1.0]))
def test_a_grae_equals_plain_loops(returns, alpha):
    groups = [returns[index : index + 4] for index in range(0, len(returns), 4)]
    mean_success_rate = sum(sum(group) / len(group) for group in groups) / len(groups)
    grpo_advantages, expected = grpo(groups_of_four(returns)).advantages, []
    for value, grpo_advantage in zip(returns, grpo_advantages, strict=True):
        group = groups[len(expected) // 4]
        success_rate = sum(group) / len(group)
        advantage = (
            0.0
            if success_rate in (0, 1)
            else mean_success_rate * 0.5 * grpo_advantage / success_rate**0.5
            + (1 - mean_success_rate) * 0.5 * grpo_advantage / (1 - success_rate) ** 0.5
        )
        expected.append(advantage * min(1, mean_success_rate / alpha) if advantage > 0 else advantage)
        assert value in group
    assert a_grae(groups_of_four(returns), alpha=alpha).advantages == pytest.approx(expected, abs=1e-9)


def test_a_grae_epsilon_and_state():
    assert a_grae(groups_of_four([1, 0, 1, 0]), alpha=0.5, epsilon=3**-0.5).advantages == pytest.approx(
        np.array([1, -1, 1, -1]) * 3**0.5 / 32**0.5
    )


ANSWERS = st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=12)


def test_copo_by_hand():
    # group 0: half succeed, entropy ln 2; group 1: all succeed, entropy 0, local part 0; means 1/2, 1: z = -+ 1/sqrt(2)
    blend = [1 / (1 + math.exp(-5.0 * (entropy - 0.5))) for entropy in (math.log(2), 0.0)]
    local, z = 3**0.5 / 2, 2**-0.5
    right_advantage, wrong_advantage, agreed_advantage = (
        blend[0] * local - (1 - blend[0]) * z,
        -blend[0] * local - (1 - blend[0]) * z,
        (1 - blend[1]) * z,
    )
    credit = copo(groups_of_four([1, 1, 0, 0, 1, 1, 1, 1]))
    assert credit.advantages == pytest.approx(
        [
            right_advantage,
            right_advantage,
            wrong_advantage,
            wrong_advantage,
            agreed_advantage,
            agreed_advantage,
            agreed_advantage,
            agreed_advantage,
        ],
        abs=1e-5,
    )
    assert credit.metrics["local_weight"] == pytest.approx(sum(blend) / 2)


@given(ANSWERS, st.sampled_from([0.0, 5.0, 20.0]), st.sampled_from([0.0, 0.5, 1.0]))
def test_copo_equals_plain_loops(returns, sharpness, threshold):
    groups = [returns[index : index + 4] for index in range(0, len(returns), 4)]
    means = [sum(group) / len(group) for group in groups]
    std_of_means = np.std(means, ddof=1) if len(means) > 1 else 0.0
    expected = []
    for group, mean in zip(groups, means, strict=True):
        entropy = -sum(n / len(group) * math.log(n / len(group)) for n in Counter(group).values())
        sigma = 1 / (1 + math.exp(-sharpness * (entropy - threshold)))
        deviation = np.std(group, ddof=1) if len(group) > 1 else 0.0
        standing = 0.0 if std_of_means < 1e-12 else (mean - sum(means) / len(means)) / (std_of_means + 1e-6)
        expected += [sigma * (value - mean) / (deviation + 1e-6) + (1 - sigma) * standing for value in group]
    assert copo(groups_of_four(returns), sharpness=sharpness, threshold=threshold).advantages == pytest.approx(
        expected, abs=1e-9
    )


@given(st.lists(st.integers(-80, 80).map(lambda number: number / 8), min_size=2, max_size=8, unique=True))
def test_if_no_two_replies_agree_a_sharp_blend_is_grpo(returns):
    turns = table([[value] for value in returns], groups=[index // 2 for index in range(len(returns))])
    if len(returns) % 2 == 0:
        assert copo(turns, sharpness=1e6, threshold=0.5).advantages == pytest.approx(grpo(turns).advantages, abs=1e-9)


def test_copo_groups_are_compared_with_those_of_their_own_role_and_game():
    turns = table(
        [[0.0], [5.0], [1.0], [7.0], [100.0]], seats=[0, 1, 0, 1, 0], groups=[0, 0, 1, 1, 2], games=[0, 0, 0, 0, 1]
    )
    z = 2**-0.5
    assert copo(turns, sharpness=1e6).advantages == pytest.approx([-z, -z, z, z, 0], abs=1e-5)


def test_copo_returns_equal_up_to_rounding_count_as_agreement():
    advantages = copo(groups_of_four([0.1 + 0.2, 0.3, 0.3, 0.1 + 0.2, 1, 1, 1, 1])).advantages
    assert advantages == pytest.approx(copo(groups_of_four([0.3] * 4 + [1] * 4)).advantages, abs=1e-9)
    assert advantages[0] < -0.5


def test_copo_with_an_extreme_sharpness_stays_finite():
    assert np.isfinite(copo(groups_of_four([0, 1, 1, 1]), sharpness=1e300).advantages).all()


def test_copo_epsilon_and_state():
    advantages = copo(groups_of_four([1, 0, 1, 0]), sharpness=1e6, epsilon=3**-0.5).advantages
    assert advantages == pytest.approx(np.array([1, -1, 1, -1]) * 3**0.5 / 4)


def test_s_grpo_golden():
    # wrong, right, right, right: 0, 1, 1/2, 1/4, mean 7/16
    assert s_grpo(group_of([0, 1, 1, 1], tokens=[1, 2, 3, 4])).advantages + 7 / 16 == pytest.approx([0, 1, 0.5, 0.25])
    assert s_grpo(group_of([1, 1, 0, 1], tokens=[4, 2, 1, 3])).advantages + 7 / 16 == pytest.approx([0.25, 1, 0, 0.5])


def test_s_grpo_length_in_turns():
    turns = table([[0.0, 1.0], [1.0]], groups=[0, 0], tokens=[1, 1, 9])
    assert s_grpo(turns).advantages == pytest.approx([0.25, 0.25, -0.25])
    assert s_grpo(turns, length="turns").advantages == pytest.approx([-0.25, -0.25, 0.25])


def test_s_grpo_success_is_a_return_above_the_threshold():
    assert s_grpo(group_of([3, 2], tokens=[1, 2]), success=3.0).advantages.tolist() == [0.5, -0.5]
    assert s_grpo(group_of([3, 2], tokens=[1, 2]), success=2.0).advantages.tolist() == [0.25, -0.25]


@given(st.integers(1, 8), st.data())
def test_with_at_most_one_success_s_grpo_is_dr_grpo(count, data):
    winner = data.draw(st.integers(0, count))
    turns = group_of([float(index == winner) for index in range(count)], tokens=list(range(count, 0, -1)))
    assert s_grpo(turns).advantages == pytest.approx(grpo(turns, divide_by_std=False).advantages, abs=1e-12)


@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0]), st.integers(1, 4)), min_size=1, max_size=12))
def test_s_grpo_equals_plain_loops(members):
    rewards = []
    groups = [members[index : index + 5] for index in range(0, len(members), 5)]
    for group in groups:
        lengths = sorted(length for value, length in group if value)
        rewards_of_length = {
            length: np.mean([0.5**j for j, other_length in enumerate(lengths) if other_length == length])
            for length in lengths
        }
        values = [rewards_of_length[length] if value else 0.0 for value, length in group]
        rewards += [value - sum(values) / len(values) for value in values]
    numbers = [index // 5 for index in range(len(members))]
    turns = table([[value] for value, _ in members], groups=numbers, tokens=[length for _, length in members])
    assert s_grpo(turns).advantages == pytest.approx(rewards, abs=1e-12)


def test_s_grpo_keeps_roles_separate_and_shares_over_turns():
    turns = table([[1.0, 0.0], [1.0], [1.0], [0.0]], seats=[0, 1, 0, 1], groups=[0] * 4)
    assert s_grpo(turns).advantages == pytest.approx([-0.25, -0.25, 0.5, 0.25, -0.5])


def test_s_grpo_of_many_successes_stays_finite():
    assert np.isfinite(s_grpo(group_of([1.0] * 2000, tokens=range(2000))).advantages).all()


PROGRESS = st.integers(0, 16).map(lambda number: number / 16)


def ssl_group(outcomes, progress, **kwargs):
    turns = table([[a + b] for a, b in zip(outcomes, progress, strict=True)], groups=[0] * len(outcomes), **kwargs)
    components = {"game": np.array(outcomes, dtype=float), "best_action": np.array(progress, dtype=float)}
    return dataclasses.replace(turns, components=components)


def test_ssl_by_hand():
    # progress 0.2, 0.25, 0.6, 0.9 reaches 0, 1, 2, 3 of three tiers: rewards 0 + 0, 0 + 1/6, 1 + 1/3, 1 + 1/2; mean 3/4
    advantages = ssl(ssl_group([0, 0, 1, 1], [0.2, 0.25, 0.6, 0.9]), divide_by_std=False).advantages
    assert advantages == pytest.approx(np.array([0, 1 / 6, 4 / 3, 3 / 2]) - 0.75)


def test_ssl_by_hand_with_division():
    # rewards 0 and 1/2: deviation 1 / sqrt(8)
    assert ssl(ssl_group([0, 0], [0, 1])).advantages == pytest.approx([-(2**-0.5), 2**-0.5], abs=1e-5)
    assert ssl(ssl_group([0, 0], [0, 1]), epsilon=8**-0.5).advantages == pytest.approx([-(8**-0.5), 8**-0.5])


def test_ssl_component_is_summed_per_trajectory_and_removed_from_the_return():
    turns = table([[0.3, 0.3], [0.0]], groups=[0, 0])
    turns = dataclasses.replace(turns, components={"game": np.zeros(3), "best_action": np.array([0.3, 0.3, 0.0])})
    assert ssl(turns, divide_by_std=False).advantages == pytest.approx([1 / 6, 1 / 6, -1 / 6])  # no success, two tiers


def test_ssl_tiers_component_success_and_alpha_are_options():
    turns = ssl_group([2, 2], [0.2, 0.6])
    assert ssl(turns, tiers=(0.5, 0.1), divide_by_std=False).advantages == pytest.approx([-0.125, 0.125])
    assert ssl(turns, alpha=0.0).advantages.tolist() == [0, 0]
    assert ssl(turns, alpha=0.9, divide_by_std=False).advantages == pytest.approx([-0.3, 0.3])
    advantages = ssl(turns, component="game", tiers=(3.0,), success=0.5, divide_by_std=False).advantages
    assert advantages == pytest.approx([-0.5, 0.5])  # the remaining return is 0.2 and 0.6


@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0]), PROGRESS), min_size=1, max_size=8), st.booleans())
def test_ssl_without_weight_on_tiers_is_grpo_on_success(members, divide):
    turns = ssl_group(*zip(*members, strict=True))
    success = dataclasses.replace(turns, reward=turns.components["game"])
    expected = grpo(success, divide_by_std=divide).advantages
    assert ssl(turns, alpha=0.0, divide_by_std=divide).advantages == pytest.approx(expected, abs=1e-6)


@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0]), PROGRESS), min_size=1, max_size=8), st.floats(0, 0.99))
def test_ssl_no_failure_gets_a_higher_advantage_than_a_success(members, alpha):
    advantages = ssl(ssl_group(*zip(*members, strict=True)), alpha=alpha).advantages
    right = np.array([value for value, _ in members]) == 1
    assert not right.any() or right.all() or advantages[right].min() > advantages[~right].max()


def test_ssl_missing_component_is_refused_by_name():
    with pytest.raises(CreditError, match=r"no reward component 'steps' \(available: best_action, game"):
        ssl(ssl_group([1], [0]), component="steps")
    with pytest.raises(CreditError, match="available: none"):
        ssl(table([[1.0]]))
    with pytest.raises(CreditError, match="tiers is empty"):
        ssl(ssl_group([1], [0]), tiers=())


def xrpo_group(returns, logprobs, tokens=None):
    turns = table([[value] for value in returns], groups=[0] * len(returns), tokens=tokens or [1] * len(returns))
    return dataclasses.replace(turns, logprob=np.array(logprobs, dtype=float))


def test_xrpo_by_hand():
    # base (0.5, 0.5, -0.5, -0.5) * 2 / sqrt(4/3); mean score -1: eta of the first exp(-0.1), of the second above 1
    grpo_advantage = 3**0.5 / 2
    turns = xrpo_group([1, 1, 0, 0], [-1.1, -0.5, -2.0, -0.4])
    expected = [grpo_advantage + 2.5 * (1 - math.exp(-0.1)), grpo_advantage, -grpo_advantage, -grpo_advantage]
    assert xrpo(turns).advantages == pytest.approx(expected, abs=1e-5)


def test_xrpo_bonus_is_capped():
    turns = xrpo_group([1, 1, 0, 0], [-9.0, -0.5, -2.0, -0.4])
    grpo_advantage = 3**0.5 / 2
    assert xrpo(turns).advantages == pytest.approx(
        [1.5 * grpo_advantage, grpo_advantage, -grpo_advantage, -grpo_advantage], abs=1e-5
    )
    assert xrpo(turns, cap=0.1).advantages == pytest.approx(
        [1.1 * grpo_advantage, grpo_advantage, -grpo_advantage, -grpo_advantage], abs=1e-5
    )


def test_xrpo_scores_are_means_over_the_trajectorys_tokens():
    turns = table([[0.0, 1.0], [1.0], [0.0]], groups=[0] * 3, tokens=[1, 3, 2, 1])
    turns = dataclasses.replace(turns, logprob=np.array([-3.0, -5.0, -2.0, 0.0]))
    # scores -2, -1, 0, mean -1; returns 1, 1, 0: base 1/3 / sqrt(1/3)
    grpo_advantage = 3**-0.5
    bonus = 0.1 * (1 - math.exp(-1))
    assert xrpo(turns, strength=0.1).advantages == pytest.approx(
        [grpo_advantage + bonus] * 2 + [grpo_advantage, -2 * grpo_advantage], abs=1e-5
    )


@given(
    st.lists(st.tuples(EIGHTHS, st.floats(-5, 0)), min_size=1, max_size=8), st.sampled_from([(0.0, 0.5), (2.5, 0.0)])
)
def test_without_strength_or_cap_xrpo_is_grpo(members, options):
    turns = xrpo_group(*zip(*members, strict=True))
    expected = grpo(turns).advantages
    assert xrpo(turns, strength=options[0], cap=options[1]).advantages == pytest.approx(expected, abs=1e-6)


@given(st.lists(st.tuples(EIGHTHS, st.floats(-5, 0)), min_size=1, max_size=8), EIGHTHS)
def test_xrpo_equals_plain_loops(members, success):
    returns, scores = zip(*members, strict=True)
    turns = xrpo_group(returns, scores)
    expected = []
    for value, score, grpo_advantage in zip(returns, scores, grpo(turns).advantages, strict=True):
        bonus = max(2.5 * (1 - math.exp(score - sum(scores) / len(scores))), 0)
        expected.append(
            grpo_advantage + min(bonus, 0.5 * grpo_advantage)
            if value >= success and grpo_advantage > 0
            else grpo_advantage
        )
    assert xrpo(turns, success=success).advantages == pytest.approx(expected, abs=1e-6)


def test_xrpo_without_tokens_stays_finite():
    assert np.isfinite(xrpo(xrpo_group([1, 0], [-1.0, 0.0], tokens=[0, 0])).advantages).all()


def test_xrpo_epsilon_and_state():
    assert xrpo(xrpo_group([1, -1], [0, 0]), epsilon=2**0.5).advantages == pytest.approx([8**-0.5, -(8**-0.5)])


SCHEMES = ["anchor", "round_robin", "swiss", "single_elimination", "double_elimination"]
CONSISTENT = [scheme for scheme in SCHEMES if scheme != "swiss"]
preference = bind("credit", "arena_rl", preset="minimax_preference")


@pytest.mark.parametrize("scheme", CONSISTENT)
def test_arena_rl_golden(scheme):
    advantages = arena_rl(group_of([7, 9, -1, 3]), scheme=scheme, divide_by_std=False).advantages
    assert advantages + 0.5 == pytest.approx([2 / 3, 1, 0, 1 / 3])
    assert arena_rl(group_of([7, 9, -1, 3]), scheme=scheme).advantages == pytest.approx(
        [0.387, 1.162, -1.162, -0.387], abs=1e-3
    )


def test_arena_rl_by_hand_swiss():
    # 9 beats 3, 7 beats -1; 9 beats 7, 3 beats -1: points 2, 1, 1, 0 and equal Buchholz of the middle two
    advantages = arena_rl(group_of([7, 9, -1, 3]), scheme="swiss", divide_by_std=False).advantages
    assert advantages == pytest.approx([0, 0.5, -0.5, 0])


@given(st.lists(EIGHTHS, min_size=2, max_size=9), st.sampled_from(CONSISTENT))
def test_arena_rl_all_schemes_except_swiss_equal_a_count_of_wins(returns, scheme):
    n = len(returns)
    wins = [sum((a > b) + 0.5 * (a == b) for b in returns) - 0.5 for a in returns]
    advantages = arena_rl(group_of(returns), scheme=scheme, divide_by_std=False).advantages
    assert advantages == pytest.approx(np.array(wins) / (n - 1) - 0.5, abs=1e-9)


@given(st.lists(EIGHTHS, min_size=2, max_size=9))
def test_minimax_preference_is_the_share_of_wins_less_a_half(returns):
    wins = [sum((a > b) + 0.5 * (a == b) for b in returns) - 0.5 for a in returns]
    assert preference(group_of(returns), {}).advantages == pytest.approx(
        np.array(wins) / (len(returns) - 1) - 0.5, abs=1e-9
    )


@given(st.lists(EIGHTHS, min_size=2, max_size=9), st.sampled_from(SCHEMES))
def test_arena_rl_depends_only_on_the_order_of_returns_and_preserves_it(returns, scheme):
    advantages = arena_rl(group_of(returns), scheme=scheme).advantages
    assert arena_rl(group_of([value**3 + 5 for value in returns]), scheme=scheme).advantages == pytest.approx(
        advantages, abs=1e-12
    )
    for a, first in zip(returns, advantages, strict=True):
        for b, second in zip(returns, advantages, strict=True):
            assert a != b or first == pytest.approx(second, abs=1e-9)
            assert scheme == "swiss" or a <= b or first > second


@given(st.lists(EIGHTHS, min_size=2, max_size=9, unique=True))
def test_arena_rl_swiss_equals_the_tournament_of_the_sorted_returns(returns):
    ordered = np.sort(returns)[::-1]
    ranks = tournament_ranks("swiss", np.repeat(ordered[:, None], len(returns), axis=1))
    by_return = dict(zip(ordered.tolist(), (1 - ranks / (len(returns) - 1)).tolist(), strict=True))
    expected = np.array([by_return[value] for value in returns])
    assert arena_rl(group_of(returns), scheme="swiss", divide_by_std=False).advantages == pytest.approx(
        expected - expected.mean()
    )


@pytest.mark.parametrize("scheme", SCHEMES)
def test_arena_rl_groups_in_one_batch_have_the_same_advantages_as_separately(scheme):
    groups = [[3, 1], [5], [2, 2, 9], [1, 1, 1, 1], [4, 8], [9, 1, 5, 5, 2]]
    turns = table([[v] for g in groups for v in g], groups=[i for i, g in enumerate(groups) for _ in g])
    separate_advantages = [arena_rl(group_of(g), scheme=scheme).advantages for g in groups]
    assert arena_rl(turns, scheme=scheme).advantages == pytest.approx(np.concatenate(separate_advantages), abs=1e-12)


def test_arena_rl_large_groups_keep_the_order_of_returns():
    returns = np.random.Generator(np.random.Philox(0)).permutation(80).astype(float)
    advantages = arena_rl(group_of(returns), divide_by_std=False).advantages
    assert advantages == pytest.approx(returns / 79 - 0.5)


def test_arena_rl_handles_roles_turns_epsilon_and_state():
    turns = table([[1.0, 1.0], [1.0], [0.0], [9.0]], seats=[0, 1, 0, 1], groups=[0] * 4)
    credit = arena_rl(turns, epsilon=2**-0.5)
    assert credit.advantages == pytest.approx(np.array([1, 1, -1, -1, 1]) / 8**0.5)
