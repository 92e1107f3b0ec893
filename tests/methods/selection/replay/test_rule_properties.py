import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.methods.selection.replay import test_rules as rules

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError, CreditError
from sparring.core.rng import Stream
from sparring.methods.selection.replay.base import ReplayBuffer, ReplayEntry
from sparring.methods.selection.replay.none import none
from sparring.methods.selection.replay.prioritised_replay import prioritised_replay
from sparring.methods.selection.replay.r3 import r3, succeeds
from sparring.methods.selection.replay.ssb import ssb

request_of, games = rules.request_of, rules.games
joined_numbers, stored_entries = rules.joined_numbers, rules.stored_entries

GROUPS = st.lists(st.lists(st.integers(-3, 3), min_size=1, max_size=4), max_size=5)
PAIRS = st.lists(st.integers(1, 9), min_size=1, max_size=6).map(lambda sizes: [[size, -size] for size in sizes])
SEEDS = st.integers(0, 10**6)


def with_differences(groups):
    return [payoffs for payoffs in groups if len(set(payoffs)) > 1]


# -- none


@given(GROUPS, GROUPS)
def test_the_rule_none_ignores_stored_games(past_groups, new_groups):
    new_games = games(1000, *new_groups)
    plan = none(request_of(new_games, stored_entries(games(0, *past_groups))))
    assert (plan.additions, plan.buffer, dict(plan.metrics)) == ((), (), {})
    buffer = ReplayBuffer(stored_entries(games(0, *past_groups)))
    assert buffer.join(
        bind("selection.replay", "none"),
        new_games,
        {},
        num_episodes=9,
        step=1,
        stream=Stream.from_seed(0),
        progress=0.0,
    ) == (list(new_games), {})
    assert buffer.entries == ()


@given(GROUPS)
def test_rules_with_zero_shares_equal_rule_none(new_groups):
    new_games = games(1000, *new_groups)
    for plan in (
        ssb(request_of(new_games, stored_entries(games(0, [1, -1]))), fill=0.0),
        prioritised_replay(request_of(new_games), share=1.0),
        r3(request_of(new_games)),
    ):
        assert plan.additions == none(request_of(new_games)).additions


# -- ssb and prioritised replay


@settings(max_examples=50)
@given(GROUPS, GROUPS, st.integers(0, 12), st.sampled_from([0.0, 0.5, 1.0]), SEEDS)
def test_ssb_adds_the_fewest_groups_that_fill_the_batch(past_groups, new_groups, num_episodes, fill, seed):
    past_groups = with_differences(past_groups)
    buffer, new_games = stored_entries(games(0, *past_groups)), games(1000, *new_groups)
    plan = ssb(request_of(new_games, buffer, num_episodes=num_episodes, seed=seed), fill=fill)
    num_useful = sum(len(payoffs) for payoffs in with_differences(new_groups))
    target = round(fill * max(num_episodes - num_useful, 0))
    joined_payoffs = {}
    for entry, group in plan.additions:
        assert group == entry.episode.group_id
        joined_payoffs.setdefault(group, []).append(entry)
    sizes = {group: len(payoffs) for group, payoffs in enumerate(past_groups)}
    assert {group: len(members) for group, members in joined_payoffs.items()} == {
        group: sizes[group] for group in joined_payoffs
    }
    count = len(plan.additions)
    assert count >= min(target, sum(sizes.values()))
    assert (
        count == 0 or count - max(map(len, joined_payoffs.values())) < target
    )  # with one group fewer the batch is not full


@settings(max_examples=50)
@given(PAIRS, st.sampled_from([0.25, 0.5, 1.0]), SEEDS)
def test_with_equal_groups_and_exponent_one_both_rules_draw_the_same(past_groups, share, seed):
    request = request_of((), stored_entries(games(0, *past_groups)), num_episodes=8, seed=seed)
    assert prioritised_replay(request, share=share, alpha=1.0).additions == ssb(request, fill=share).additions


@settings(max_examples=50)
@given(GROUPS, GROUPS, st.integers(1, 9))
def test_both_rules_store_whole_groups_with_differences_newest_first(past_groups, new_groups, capacity):
    buffer, new_games = stored_entries(games(0, *with_differences(past_groups))), games(1000, *new_groups)
    plans = [
        ssb(request_of(new_games, buffer), capacity=capacity),
        prioritised_replay(request_of(new_games, buffer), capacity=capacity),
    ]
    assert plans[0].buffer == plans[1].buffer
    num_free, expected = capacity, []
    for payoffs, first_number, step in reversed(
        [(p, 0, 0) for p in with_differences(past_groups)] + [(p, 1000, 1) for p in new_groups if len(set(p)) > 1]
    ):
        if len(payoffs) > num_free:
            break
        num_free -= len(payoffs)
        expected.insert(0, (payoffs, first_number, step))
    entries = [(entry.episode.returns[0], entry.step) for entry in plans[0].buffer]
    assert entries == [(payoff, step) for payoffs, _, step in expected for payoff in payoffs]


@settings(max_examples=50)
@given(PAIRS, st.sampled_from([0.0, 0.6, 1.0, 2.0]), st.integers(1, 12), SEEDS)
def test_prioritised_draws_are_those_of_plain_loops(past_groups, alpha, num_episodes, seed):
    """Efraimidis and Spirakis: the k groups with the smallest -ln(1 - u) / weight."""
    request = request_of((), stored_entries(games(0, *past_groups)), num_episodes=num_episodes, seed=seed)
    sizes = [payoffs[0] for payoffs in past_groups]  # mean |A| of a pair (p, -p)
    keys = sorted((-math.log(1.0 - Stream.from_seed(seed).uniform(g)) / size**alpha, g) for g, size in enumerate(sizes))
    expected = []
    for _, group in keys:
        if 2 * len(expected) >= num_episodes:
            break
        expected.append(group)
    plan = prioritised_replay(request, share=1.0, alpha=alpha, beta=0.7)
    assert joined_numbers(plan) == sorted(number for group in expected for number in (2 * group, 2 * group + 1))
    shares = [size**alpha / sum(other_size**alpha for other_size in sizes) for size in sizes]
    weights = [(len(sizes) * share) ** -0.7 for share in shares]
    weights_drawn = [weights[group] for group in expected]
    assert plan.metrics["replay_weight"] == pytest.approx(sum(weights_drawn) / len(weights_drawn) / max(weights))
    assert 0 < plan.metrics["replay_weight"] <= 1 + 1e-12


@given(st.lists(st.integers(2, 5), min_size=2, max_size=5), SEEDS)
def test_ssb_weighs_a_group_by_the_sum_of_its_advantages(lengths, seed):
    """In a group of n games, one pays n and the rest 0, so the sum of |A| is 2 (n - 1)."""
    buffer = stored_entries(games(0, *[[length] + [0] * (length - 1) for length in lengths]))
    keys = [
        (-math.log(1.0 - Stream.from_seed(seed).uniform(g)) / (2 * (length - 1)), g) for g, length in enumerate(lengths)
    ]
    assert {group for _, group in ssb(request_of((), buffer, num_episodes=1, seed=seed)).additions} == {min(keys)[1]}


# -- r3


@settings(max_examples=50)
@given(GROUPS, GROUPS, st.integers(1, 3), SEEDS)
def test_r3_adds_the_opposite_outcome_to_groups_without_differences(past_groups, new_groups, number, seed):
    buffer, new_games = stored_entries(games(0, *past_groups)), games(1000, *new_groups)
    plan = r3(request_of(new_games, buffer, seed=seed), number=number)
    payoffs = {1000 + index: group_payoffs for index, group_payoffs in enumerate(new_groups)}
    for entry, group in plan.additions:
        assert len(set(payoffs[group])) == 1
        assert succeeds(entry.episode) != (payoffs[group][0] > 0)
    for outcome in (True, False):
        num_stored = sum((payoff > 0) == outcome for group_payoffs in past_groups for payoff in group_payoffs)
        num_lacking = sum(
            len(set(group_payoffs)) == 1 and (group_payoffs[0] > 0) != outcome for group_payoffs in new_groups
        )
        assert sum(succeeds(entry.episode) == outcome for entry, _ in plan.additions) == min(
            number * num_lacking, num_stored
        )


@settings(max_examples=50)
@given(GROUPS, GROUPS, st.integers(1, 4))
def test_r3_keeps_the_newest_games_of_each_outcome_and_of_equal_groups(past_groups, new_groups, capacity):
    plan = r3(request_of(games(1000, *new_groups), stored_by_r3(past_groups)), capacity=capacity)
    order = [(payoff, 0) for group_payoffs in past_groups for payoff in group_payoffs] + [
        (payoff, 1) for group_payoffs in new_groups for payoff in group_payoffs
    ]
    expected = []
    for index, (payoff, step) in enumerate(order):
        num_later = sum((other_payoff > 0) == (payoff > 0) for other_payoff, _ in order[index + 1 :])
        if num_later < capacity:
            expected.append((payoff, step))
    assert [(entry.episode.returns[0], entry.step) for entry in plan.buffer] == expected


def stored_by_r3(groups):
    """Return these groups as r3 stores them: the priority of a game says whether it succeeded."""
    return tuple(ReplayEntry(episode, "g", 0, float(succeeds(episode))) for episode in games(0, *groups))


# -- hard inputs


@pytest.mark.parametrize("rule", [ssb, prioritised_replay])
def test_groups_without_differences_are_not_stored_and_large_payoffs_are(rule):
    plan = rule(request_of(games(0, [5], [1, 1, 1], [1e6, 1e6 + 1], [0.1 + 0.2, 0.3])))
    assert [entry.episode.returns[0] for entry in plan.buffer] == [1e6, 1e6 + 1]
    assert [entry.priority for entry in plan.buffer] == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("rule", [ssb, prioritised_replay, r3])
def test_a_reward_that_is_not_finite_is_refused(rule):
    with pytest.raises(CreditError, match="not finite"):
        rule(request_of(games(0, [1.0, float("nan")])))


@pytest.mark.parametrize(
    ("name", "options"),
    [("ssb", {"fill": 1.5}), ("prioritised_replay", {"share": -0.1}), ("r3", {"number": 0}), ("ssb", {"capacity": 0})],
)
def test_bad_options_are_refused(name, options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        bind("selection.replay", name, options)
