from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.methods.credit import tables

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError, CreditError
from sparring.core.rng import Stream
from sparring.methods.credit.loop import loop
from sparring.methods.selection.base import trajectories
from sparring.methods.selection.d3s_downsample import d3s_downsample
from sparring.methods.selection.equal_groups import equal_groups
from sparring.methods.selection.roc_resample import roc_resample
from sparring.methods.selection.small_advantage import small_advantage
from sparring.methods.selection.snr_filter import snr_filter
from sparring.methods.selection.variance_filter import variance_filter

STREAM = Stream.from_seed(0)


def advantages_of_trajectories(turns):
    returns = np.bincount(turns.trajectory, weights=turns.reward)
    groups = turns.group[np.unique(turns.trajectory, return_index=True)[1]]
    return np.array([r - returns[groups == g].mean() for r, g in zip(returns, groups, strict=True)])


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.5, [0, 1, 4, 5]), (0.3, [0, 1, 5]), (0.25, [0, 5]), (0.01, [None]), (1.0, [0, 1, 2, 3, 4, 5, 6, 7])],
)
def test_d3s_downsample_by_hand(share, expected):
    """The advantages are -4, -2, 0, 0, 3, 6, -1.5, -1.5.

    Of three advantages, -4, -2 and 6 have the largest sum of squared deviations: 56.
    """
    turns = tables.table([[0.0], [2.0], [4.0], [4.0], [7.0], [10.0, 0.0], [2.5], [2.5]], groups=[0] * 8)
    rows = d3s_downsample(turns, STREAM, share=share)
    kept_trajectories = sorted(set(turns.trajectory[rows].tolist()))
    assert len(kept_trajectories) == len(expected)
    if None not in expected:
        assert kept_trajectories == expected


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-5, 5)), min_size=1, max_size=9), st.floats(0.05, 1.0))
def test_the_kept_subset_has_the_largest_variance_of_its_size(trajectories, share):
    turns = tables.table([[float(r)] for _, r in trajectories], groups=[g for g, _ in trajectories])
    mask, values = d3s_downsample(turns, STREAM, share=share), advantages_of_trajectories(turns)
    size = int(mask.sum())
    assert size == max(1, int(np.ceil(share * len(values) - 1e-9)))
    largest_variance = max(np.var([values[i] for i in subset]) for subset in combinations(range(len(values)), size))
    assert np.var(values[mask]) == pytest.approx(largest_variance, abs=1e-9)


def test_draws_decide_between_equal_advantages_and_an_odd_size_adds_a_high_one():
    turns = tables.table([[1.0], [1.0], [-1.0], [-1.0], [-1.0], [1.0]], groups=[0] * 6)
    selections = {tuple(d3s_downsample(turns, Stream.from_seed(s), share=0.5).tolist()) for s in range(30)}
    assert len(selections) > 5
    for mask in selections:
        assert sorted(turns.reward[list(mask)].tolist()) == [-1.0, 1.0, 1.0]


def test_d3s_downsample_with_empty_equal_and_small_tables():
    assert d3s_downsample(tables.table([[5.0]]), STREAM).all()
    assert d3s_downsample(tables.table([[1.0]] * 4, groups=[0] * 4), STREAM).sum() == 2
    turns = tables.table([[1e6], [1e6 + 1], [1e6 + 0.5], [1e6 + 0.5]], groups=[0] * 4)
    assert d3s_downsample(turns, STREAM).tolist() == [True, True, False, False]


def test_policy_keep_keeps_every_turn():
    assert equal_groups(tables.table([[1.0], [1.0]], groups=[0, 0]), Stream.from_seed(0)).all()


def test_policy_drop_removes_groups_without_differences():
    turns = tables.table([[1.0], [0.5, 0.5], [1.0], [2.0], [9.0]], groups=[0, 0, 1, 1, 2])
    assert equal_groups(turns, Stream.from_seed(0), policy="drop").tolist() == [False, False, False, True, True, True]


def test_rounding_errors_are_no_difference():
    turns = tables.table([[0.1, 0.2], [0.3]], groups=[0, 0])
    assert not equal_groups(turns, Stream.from_seed(0), policy="drop").any()


def test_a_group_of_zeros_counts_as_equal_in_any_batch():
    turns = tables.table(
        [[0.0]] * 5 + [[0.0], [1.0], [0.0]] + [[0.0]], groups=[0] * 5 + [1] * 3 + [0]
    )  # the batch's mean is 1/9
    assert dropped_turns(turns).tolist() == [False] * 5 + [True] * 3 + [False]


ROWS = st.lists(
    st.tuples(st.lists(st.integers(-2, 2), min_size=1, max_size=3), st.integers(0, 3), st.integers(0, 1)),
    min_size=1,
    max_size=10,
)


def table_of(rows, factor=1.0):
    """Return the table of rows (rewards, group, seat), rewards times a factor."""
    rewards = [[factor * value for value in turn_rewards] for turn_rewards, _, _ in rows]
    return tables.table(rewards, seats=[seat for _, _, seat in rows], groups=[group for _, group, _ in rows])


def dropped_turns(turns):
    return equal_groups(turns, Stream.from_seed(0), policy="drop")


@given(ROWS)
def test_a_group_is_dropped_if_and_only_if_its_returns_are_equal(rows):
    expected = []
    for rewards, group, seat in rows:
        returns = [
            sum(turn_rewards)
            for turn_rewards, other_group, other_seat in rows
            if (other_group, other_seat) == (group, seat)
        ]
        expected += [len(returns) == 1 or len(set(returns)) > 1] * len(rewards)
    assert dropped_turns(table_of(rows)).tolist() == expected


def test_large_returns_do_not_hide_small_groups_and_bad_policies_are_refused():
    turns = tables.table([[1e6], [1e6 + 1.0], [1e6], [1e6]], groups=[0, 0, 1, 1])
    assert dropped_turns(turns).tolist() == [True, True, False, False]
    turns_of_two_scales = tables.table([[1e10], [-1e10], [0.25], [0.75]], groups=[0, 0, 1, 1])
    assert dropped_turns(turns_of_two_scales).all()
    with pytest.raises(ConfigError, match="policy"):
        bind("selection", "equal_groups", {"policy": "skip"})


def group_of(num_good, num_bad, *, num_illegal=None, turns=4):
    """Return a group with these numbers of successes, failures and illegal turns per trajectory."""
    count = num_good + num_bad
    turns_table = tables.table(
        [[1.0 if i < num_good else 0.0] + [0.0] * (turns - 1) for i in range(count)], groups=[0] * count
    )
    num_illegal = num_illegal or [0] * count
    return replace(turns_table, legal=np.concatenate([np.arange(turns) >= num_illegal[i] for i in range(count)]))


def trajectories_of(turns, mask):
    return sorted(set(turns.trajectory[mask].tolist()))


def test_the_published_ratio_of_20_successes_and_12_failures_is_10_to_6():
    turns = group_of(20, 12)
    remaining = trajectories_of(turns, roc_resample(turns, STREAM, keep=16))
    assert (sum(i < 20 for i in remaining), sum(i >= 20 for i in remaining)) == (10, 6)


@pytest.mark.parametrize(
    ("num_good", "num_bad", "numbers"),
    [(1, 31, (1, 15)), (2, 30, (2, 14)), (30, 2, (14, 2)), (31, 1, (15, 1)), (3, 29, (2, 14)), (17, 1, (15, 1))],
)
def test_neither_outcome_falls_below_its_minimum(num_good, num_bad, numbers):
    turns = group_of(num_good, num_bad)
    remaining = trajectories_of(turns, roc_resample(turns, STREAM, keep=16))
    assert (sum(i < num_good for i in remaining), sum(i >= num_good for i in remaining)) == numbers


def test_successes_with_fewest_illegal_turns_stay_and_failures_are_drawn():
    turns = group_of(4, 4, num_illegal=[3, 0, 2, 1, 4, 0, 0, 0])
    selections = [trajectories_of(turns, roc_resample(turns, Stream.from_seed(s), keep=4)) for s in range(30)]
    assert {tuple(i for i in selection if i < 4) for selection in selections} == {(1, 3)}
    assert len({tuple(i for i in selection if i >= 4) for selection in selections}) == 6
    penalty_selections = [
        trajectories_of(turns, roc_resample(turns, Stream.from_seed(s), keep=4, negatives="penalty")) for s in range(30)
    ]
    assert all(4 not in selection for selection in penalty_selections)


def test_a_reward_component_for_form_lowers_the_penalty():
    turns = group_of(3, 3, num_illegal=[1, 1, 0, 0, 0, 0])
    with_form_reward = replace(turns, components={"form": np.where(turns.trajectory == 0, 1.0, 0.0)})
    assert trajectories_of(turns, roc_resample(turns, STREAM, keep=2, least=1))[0] == 2
    assert trajectories_of(turns, roc_resample(with_form_reward, STREAM, keep=2, least=1, component="form"))[0] == 0
    with pytest.raises(CreditError, match=r"'forms'.*write one of form"):
        roc_resample(with_form_reward, STREAM, keep=2, least=1, component="forms")


def test_the_penalty_is_the_rate_of_illegal_turns():
    turns = tables.table([[1.0] * 4, [1.0], [0.0], [0.0]], groups=[0] * 4)
    one_illegal_turn = replace(turns, legal=np.array([False, True, True, True, False, True, True]))
    assert trajectories_of(one_illegal_turn, roc_resample(one_illegal_turn, STREAM, keep=2, least=1))[0] == 0
    two_illegal_turns = replace(turns, legal=np.array([False, False, True, True, False, True, True]))
    assert trajectories_of(two_illegal_turns, roc_resample(two_illegal_turns, STREAM, keep=2, least=1))[0] == 0


def test_equal_groups_are_dropped_and_small_groups_stay_by_default():
    turns = tables.table([[1.0], [1.0], [0.0], [1.0], [2.0]], groups=[0, 0, 1, 1, 2])
    assert roc_resample(turns, STREAM, keep=4).tolist() == [False, False, True, True, False]
    assert not roc_resample(turns, STREAM, keep=4, smaller="drop").any()
    assert roc_resample(turns, STREAM, keep=2, least=1, smaller="drop").tolist() == [False, False, True, True, False]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(2, 12), st.integers(0, 1), st.integers(0, 99))
def test_a_resampled_group_has_its_size_and_its_ratio(num_good, num_bad, keep, min_each, seed):
    turns = group_of(num_good, num_bad, turns=1)
    remaining = trajectories_of(turns, roc_resample(turns, Stream.from_seed(seed), keep=keep, least=min_each))
    assert len(remaining) == min(keep, num_good + num_bad)
    successes = sum(i < num_good for i in remaining)
    assert abs(successes - len(remaining) * num_good / (num_good + num_bad)) <= max(0.5, min_each)


def test_roc_resample_with_empty_and_one_sided_tables():
    assert not roc_resample(tables.table([[5.0]]), STREAM).any()
    assert roc_resample(tables.table([[1e6], [1e6 + 1]], groups=[0, 0]), STREAM).all()
    with pytest.raises(ConfigError, match="least: 1"):
        roc_resample(tables.table([[1.0]]), STREAM, keep=3)


def test_small_advantage_by_hand():
    turns = tables.table([[0.0], [1.0, 1.0], [1.0], [4.0], [4.0]], groups=[0, 0, 0, 1, 1])  # A = -1.5, 1.5, 0, 0, 0
    assert small_advantage(turns, STREAM).tolist() == [True, True, True, False, False, False]
    assert small_advantage(turns, STREAM, threshold=1.6).tolist() == [False] * 6
    assert small_advantage(turns, STREAM, threshold=0.0).all()
    assert small_advantage(turns, STREAM, multiple=4).sum() == 5  # three rows of two trajectories, and two more
    assert small_advantage(turns, STREAM, multiple=9).all()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(-3, 3)), max_size=12),
    st.sampled_from([0.01, 1.0, 2.0]),
)
def test_dropped_turns_are_those_that_loop_sets_to_zero(trajectories, threshold):
    groups, seats, rewards = ([t[i] for t in trajectories] for i in range(3))
    turns = tables.table([[float(r), 0.0] for r in rewards], groups=groups, seats=seats)
    expected = loop(turns, min_advantage=threshold).advantages != 0.0
    assert small_advantage(turns, STREAM, threshold=threshold).tolist() == expected.tolist()


def test_the_largest_dropped_advantages_fill_the_multiple_in_any_order():
    rewards = [[0.0], [9.0], [4.4], [4.6], [4.5]]
    turns = tables.table(rewards, groups=[0] * 5)  # distances from the mean of the other members: 5.6, 5.6, 0.1, 0.1, 0
    assert small_advantage(turns, STREAM, threshold=1.0, multiple=4).tolist() == [True, True, True, True, False]
    selections = {
        tuple(small_advantage(turns, Stream.from_seed(s), threshold=1.0, multiple=3)[2:4].tolist()) for s in range(20)
    }
    assert selections == {(True, False), (False, True)}


def test_small_advantage_with_empty_and_equal_tables():
    assert not small_advantage(tables.table([[5.0]]), STREAM).any()
    assert not small_advantage(tables.table([[0.1, 0.2], [0.3]], groups=[0, 0]), STREAM, threshold=1e-30).any()
    assert small_advantage(tables.table([[1e6], [1e6 + 0.02]], groups=[0, 0]), STREAM).all()


def groups_with_gaps(*gaps):
    """Return a table with a group of two for each gap between two returns: variance gap^2 / 2."""
    return tables.table([r for gap in gaps for r in ([0.0], [gap])], groups=np.repeat(np.arange(len(gaps)), 2))


def kept_groups(turns, mask):
    return sorted(set(turns.group[mask].tolist()))


@pytest.mark.parametrize(
    ("options", "groups"),
    [
        ({"top_p": 0.6}, [3]),  # variances 0, 2, 8, 18 of 28: 18 is 64 %
        ({"top_p": 0.65}, [2, 3]),  # 26 is 93 %
        ({"top_p": 0.95}, [1, 2, 3]),
        ({"top_p": 1.0}, [1, 2, 3]),
        ({"top_p": 0.6, "score": "deviation"}, [2, 3]),  # deviations as 0, 2, 4, 6 of 12: 6 is 50 %
        ({"top_p": 0.5, "score": "deviation"}, [3]),
        ({"top_p": 1.0, "min_p": 0.4}, [2, 3]),
        ({"top_p": 1.0, "min_p": 0.5}, [3]),
        ({"top_p": 0.65, "tolerance": 1.0}, [3]),  # 18 >= 18.2 - 1
    ],
)
def test_snr_filter_by_hand(options, groups):
    turns = groups_with_gaps(0.0, 2.0, 4.0, 6.0)
    assert kept_groups(turns, snr_filter(turns, STREAM, **options)) == groups


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=9), st.floats(0.05, 1.0))
def test_snr_filter_equals_a_loop_over_sorted_groups(gaps, top_p):
    turns = groups_with_gaps(*map(float, gaps))
    variances, covered_variance, number = sorted((gap * gap / 2 for gap in gaps), reverse=True), 0.0, 0
    total = sum(variances)
    while variances and variances[0] > 0 and covered_variance < top_p * total - 1e-9:
        covered_variance += variances.pop(0)
        number += 1
    assert len(kept_groups(turns, snr_filter(turns, STREAM, top_p=top_p))) == number


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0, 100).filter(lambda gap: gap == 0 or gap > 1e-3), min_size=1, max_size=9))
def test_snr_filter_with_top_p_one_drops_only_equal_groups(gaps):
    turns = groups_with_gaps(*gaps)
    assert snr_filter(turns, STREAM, top_p=1.0).tolist() == equal_groups(turns, STREAM, policy="drop").tolist()


def test_snr_filter_with_empty_equal_and_large_tables():
    assert not snr_filter(tables.table([[1.0]]), STREAM).any()
    assert not snr_filter(groups_with_gaps(0.0, 0.0), STREAM, tolerance=0.01).any()
    assert not snr_filter(tables.table([[0.1, 0.2], [0.3]], groups=[0, 0]), STREAM).any()
    assert snr_filter(tables.table([[1e6], [1e6 + 1]], groups=[0, 0]), STREAM).all()
    assert snr_filter(tables.table([[1e-5], [0.0], [1e-5], [0.0]], groups=[0, 0, 1, 1]), STREAM, top_p=1.0).all()


# deviations of the groups: 0, 1/sqrt 2, 2/sqrt 2, 3/sqrt 2
FOUR_GROUPS = {
    "rewards": [[1.0], [1.0], [0.0], [0.5, 0.5], [2.0], [0.0], [3.0], [0.0]],
    "groups": [0, 0, 1, 1, 2, 2, 3, 3],
}


@pytest.mark.parametrize(
    ("keep", "groups"), [(0.25, [3]), (0.1, [3]), (0.5, [2, 3]), (0.74, [2, 3]), (0.75, [1, 2, 3]), (1.0, [0, 1, 2, 3])]
)
def test_variance_filter_by_hand(keep, groups):
    turns = tables.table(**FOUR_GROUPS)
    assert kept_groups(turns, variance_filter(turns, STREAM, keep=keep)) == groups


def test_with_a_matching_share_variance_filter_drops_only_equal_groups():
    turns = tables.table(**FOUR_GROUPS)
    assert variance_filter(turns, STREAM, keep=0.75).tolist() == equal_groups(turns, STREAM, policy="drop").tolist()


def test_variance_filter_ranks_each_role_separately():
    turns = tables.table([[1.0], [1.0], [0.0], [1.0]], seats=[0, 0, 1, 1], groups=[0] * 4)
    assert variance_filter(turns, STREAM, keep=0.5).tolist() == [False, False, True, True]


def test_every_group_and_role_has_a_separate_draw():
    turns = tables.table([[0.0], [1.0]] * 4, seats=[0, 0, 1, 1] * 2, groups=[0] * 4 + [1] * 4)
    first_groups = {variance_filter(turns, Stream.from_seed(seed), keep=0.25).argmax() // 2 for seed in range(60)}
    assert first_groups == {0, 1, 2, 3}
    draws = trajectories(turns, "test").group_draws(STREAM)
    assert len(set(draws.tolist())) == 4
    assert len(set(trajectories(turns, "test").draws(STREAM).tolist())) == 8


def test_the_stream_and_not_the_order_decides_between_equal_groups():
    rewards, groups = [[0.0], [1.0]] * 8, np.repeat(np.arange(8), 2)
    turns = tables.table(rewards, groups=groups)
    kept_by_seed = {
        tuple(kept_groups(turns, variance_filter(turns, Stream.from_seed(seed), keep=0.5))) for seed in range(20)
    }
    assert len(kept_by_seed) > 10
    assert {len(groups) for groups in kept_by_seed} == {4}
    reversed_turns = tables.table(rewards, groups=groups[::-1])
    assert kept_groups(reversed_turns, variance_filter(reversed_turns, STREAM, keep=0.5)) == kept_groups(
        turns, variance_filter(turns, STREAM, keep=0.5)
    )


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=4), min_size=1, max_size=8), st.floats(0.01, 1.0))
def test_no_dropped_group_has_more_variance_than_a_kept_group(groups, keep):
    turns = tables.table(
        [[r] for group_returns in groups for r in group_returns],
        groups=[g for g, group_returns in enumerate(groups) for _ in group_returns],
    )
    mask = variance_filter(turns, STREAM, keep=keep)
    remaining = kept_groups(turns, mask)
    assert len(remaining) == max(1, int(keep * len(groups) + 1e-9))
    deviation = [
        np.std(group_returns) * np.sqrt(len(group_returns) / max(len(group_returns) - 1, 1)) for group_returns in groups
    ]
    dropped_deviations = [d for g, d in enumerate(deviation) if g not in remaining]
    assert max(dropped_deviations, default=0.0) <= min(deviation[g] for g in remaining) + 1e-6


def test_variance_filter_with_empty_and_equal_tables():
    assert variance_filter(tables.table([[1.0]]), STREAM).all()
    assert variance_filter(tables.table([[1e6 + 0.1], [1e6 + 0.1]], groups=[0, 0]), STREAM).all()  # the only group


@pytest.mark.parametrize("rule", [d3s_downsample, roc_resample, small_advantage, snr_filter, variance_filter])
@pytest.mark.parametrize("reward", [np.nan, np.inf])
def test_rewards_that_are_not_finite_are_refused(rule, reward):
    with pytest.raises(CreditError, match=rf"{rule.__name__}.*row 1"):
        rule(tables.table([[0.0, reward]]), STREAM)
    with pytest.raises(CreditError, match="not finite"):
        dropped_turns(tables.table([[reward], [1.0]], groups=[0, 0]))
