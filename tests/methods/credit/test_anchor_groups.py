import dataclasses
from difflib import SequenceMatcher

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases import every_case
from tests.methods.credit.tables import table

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError
from sparring.methods.credit.anchors import anchor_groups, mean_over_trajectories, node_groups
from sparring.methods.credit.base import turn_keys
from sparring.methods.credit.branch_grpo import branch_grpo
from sparring.methods.credit.gigpo import gigpo
from sparring.methods.credit.grpo import grpo
from sparring.methods.credit.hgpo import hgpo
from sparring.methods.credit.mars2 import mars2
from sparring.methods.credit.rloo import rloo
from sparring.methods.credit.salt import salt
from sparring.ops.groups import group_ids


def table_of_views(views, *, names=(), actions=None, **columns):
    """Return a table whose trajectories see these views, turn by turn."""
    turns = table([[0.0] * len(row) for row in views], **columns)
    flat_views = np.array([view for row in views for view in row], dtype=np.int64)
    flat_actions = np.zeros(len(flat_views), dtype=np.int64) if actions is None else np.array(actions, dtype=np.int64)
    return dataclasses.replace(turns, view=flat_views, view_names=tuple(names), action=flat_actions)


def equality_matrix(ids):
    return np.equal.outer(ids, ids).tolist()


def test_equal_views_form_a_group_only_within_one_group_and_role():
    views = [[5, 5], [5], [5], [5]]
    ids, count = anchor_groups(table_of_views(views, groups=[0, 0, 1, 0], roles=[0, 0, 0, 1]), "x", "view")
    assert (ids[0] == ids[1] == ids[2], count) == (True, 3)
    ids, count = anchor_groups(table_of_views(views, groups=[0, 1, 0, 1], games=[0, 1, 0, 1]), "x", "view")
    assert (equality_matrix(ids), count) == (equality_matrix(np.array([0, 0, 1, 0, 1])), 2)


@pytest.mark.parametrize("similarity", [None, 0.9])
def test_notes_are_grouped_only_with_notes(similarity):
    turns = table_of_views([[0, 0, 0], [0, 0]], names=["same"], groups=[0, 0])
    ids, count = anchor_groups(
        dataclasses.replace(turns, note=np.array([0, 1, 0, 0, 1], dtype=bool)), "x", "view", similarity
    )
    assert count == 2 and equality_matrix(ids) == equality_matrix(np.array([0, 1, 0, 0, 1]))


def test_attempts_and_notes_have_different_turn_places():
    turns = table_of_views([[0, 0, 0], [0, 0, 0]], groups=[0, 0])
    assert equality_matrix(group_ids(*turn_keys(turns))[0]) == equality_matrix(np.array([0, 1, 2, 0, 1, 2]))
    attempts = dataclasses.replace(turns, attempt=np.array([0, 0, 1, 0, 1, 1]))
    assert equality_matrix(group_ids(*turn_keys(attempts))[0]) == equality_matrix(np.array([0, 1, 2, 0, 3, 2]))
    notes = dataclasses.replace(turns, note=np.array([0, 0, 1, 0, 1, 1], dtype=bool))
    assert equality_matrix(group_ids(*turn_keys(notes))[0]) == equality_matrix(np.array([0, 1, 2, 0, 3, 2]))


def test_information_states_can_be_anchors():
    turns = table_of_views([[5, 6], [7, 7]], groups=[0, 0], keys=[1, 2, 1, 3])
    assert equality_matrix(anchor_groups(turns, "x", "state_key")[0]) == equality_matrix(np.array([1, 2, 1, 3]))


def clusters_by_loop(views, texts, groups, threshold):
    """Return the clusters of the released code, by a loop over the turns in the order of their texts."""
    cluster = {}
    for group in set(groups):
        leaders = []
        for row in sorted(np.flatnonzero(np.array(groups) == group), key=lambda row: texts[views[row]]):
            text = texts[views[row]]
            representative = next(
                (
                    leader
                    for leader in leaders
                    if SequenceMatcher(None, text, texts[views[leader]]).ratio() >= threshold
                ),
                None,
            )
            leaders += [row] if representative is None else []
            cluster[row] = row if representative is None else representative
    return np.array([cluster[row] for row in range(len(views))])


@settings(deadline=None)
@given(
    texts=st.lists(st.text("abc", max_size=6), min_size=1, max_size=6, unique=True),
    rows=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1)), min_size=1, max_size=14),
    threshold=st.floats(0.1, 1.0),
)
def test_similar_texts_are_clustered_as_in_the_released_loop(texts, rows, threshold):
    views, groups = [view % len(texts) for view, _ in rows], [group for _, group in rows]
    turns = table_of_views([[view] for view in views], names=texts, groups=groups)
    assert equality_matrix(anchor_groups(turns, "x", "view", threshold)[0]) == equality_matrix(
        clusters_by_loop(views, texts, groups, threshold)
    )


@pytest.mark.parametrize("numbering", [[0, 1, 2], [1, 0, 2], [2, 1, 0]])
def test_clusters_depend_on_the_texts_and_not_on_the_order_of_the_batch(numbering):
    # the middle text resembles the two others; the alphabetically first text leads, so the last one is a separate cluster
    texts = ["aaaa", "aabb", "bbbb"]
    turns = table_of_views([[view] for view in numbering], names=texts, groups=[0] * 3)
    clusters = dict(zip(numbering, anchor_groups(turns, "x", "view", 0.5)[0], strict=True))
    assert clusters[0] == clusters[1] != clusters[2]
    renumbered = table_of_views([[0], [1], [2]], names=[texts[view] for view in numbering], groups=[0] * 3)
    assert equality_matrix(anchor_groups(renumbered, "x", "view", 0.5)[0]) == equality_matrix(
        anchor_groups(turns, "x", "view", 0.5)[0]
    )


def test_similarity_needs_texts():
    with pytest.raises(ConfigError, match="anchor: view"):
        anchor_groups(table([[1.0]]), "x", "state_key", 0.9)


def test_nodes_are_state_and_action_and_turns_without_action_join_no_group():
    turns = table_of_views(
        [[0], [0], [0], [1], [0], [0]], groups=[0] * 6, keys=[0, 0, 0, 1, 0, 0], actions=[2, 2, 1, 2, -1, -1]
    )
    assert equality_matrix(node_groups(turns, "x", turns.state_key)[0]) == equality_matrix(np.array([0, 0, 1, 2, 3, 4]))


def test_a_trajectory_that_revisits_a_view_counts_once():
    values, ids, trajectory = np.array([1.0, 1.0, 4.0, 7.0]), np.array([0, 0, 0, 1]), np.array([0, 0, 1, 2])
    assert mean_over_trajectories(values, ids, 2, trajectory) == pytest.approx([2.5, 7.0])
    assert mean_over_trajectories(values[[0, 2, 1]], ids[:3], 1, np.array([0, 1, 2])) == pytest.approx([2.0])
    assert mean_over_trajectories(np.zeros(0), np.zeros(0, dtype=np.int64), 0, np.zeros(0, dtype=np.int64)).shape == (
        0,
    )


def test_an_empty_table():
    assert anchor_groups(table_of_views([]), "x", "view")[1] == 0
    assert anchor_groups(table_of_views([]), "x", "view", 0.9)[1] == 0
    assert node_groups(table_of_views([]), "x", np.zeros(0, dtype=np.int64))[1] == 0


def with_views(turns, views, names=()):
    return dataclasses.replace(turns, view=np.array(views, dtype=np.int64), view_names=tuple(names))


def random_turns(seed, views=3):
    """Return a random table of 9 trajectories in 2 groups and 2 roles, and its plain lists; rewards are few halves."""
    generator = np.random.Generator(np.random.Philox(seed))
    rewards = [(generator.integers(-2, 3, length) / 2).tolist() for length in generator.integers(1, 6, 9)]
    groups, roles = generator.integers(0, 2, 9), generator.integers(0, 2, 9)
    view_ids = generator.integers(0, views, sum(map(len, rewards)))
    return with_views(table(rewards, groups=groups, roles=roles, keys=view_ids // 2), view_ids), rewards, groups, roles


def test_gigpo_golden_step_part():
    # two games of two turns share the first view; rewards 1 and 0 at their ends
    turns = with_views(table([[0.0, 1.0], [0.0, 0.0]], groups=[0, 0]), [0, 1, 0, 2])
    advantages, episode_part = gigpo(turns).advantages, gigpo(turns, weight=0.0).advantages
    assert advantages - episode_part == pytest.approx([0.475, 0.0, -0.475, 0.0])
    assert episode_part == pytest.approx([0.5, 0.5, -0.5, -0.5])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("divide", [False, True])
def test_gigpo_without_the_step_part_is_grpo(seed, divide):
    turns = random_turns(seed)[0]
    for unit in ("episodes", "turns"):
        grpo_advantages = grpo(turns, divide_by_std=divide, over=unit).advantages
        assert np.array_equal(gigpo(turns, weight=0.0, divide_by_std=divide, over=unit).advantages, grpo_advantages)
    unshared_turns = with_views(turns, np.arange(len(turns.reward)))
    assert np.array_equal(gigpo(unshared_turns).advantages, grpo(unshared_turns, divide_by_std=False).advantages)


def gigpo_by_loops(rewards, groups, roles, views, *, gamma, weight, divide, over):
    def mean_and_deviation(values):
        values = list(values)
        mean = sum(values) / len(values)
        deviation = (sum((v - mean) ** 2 for v in values) / max(len(values) - 1, 1)) ** 0.5
        return mean, (deviation + 1e-6) if divide and len(values) > 1 else 1.0

    groups, rows, episodes, clusters = list(zip(groups, roles, strict=True)), [], {}, {}
    for turn_rewards, group in zip(rewards, groups, strict=True):
        episodes.setdefault(group, []).append((sum(turn_rewards), len(turn_rewards)))
        for turn in range(len(turn_rewards)):
            view = views[len(rows)]
            return_to_go = sum(gamma**k * r for k, r in enumerate(turn_rewards[turn:]))
            clusters.setdefault((group, view), []).append(return_to_go)
            rows.append((group, view, sum(turn_rewards), return_to_go))
    advantages = []
    for group, view, episode_return, return_to_go in rows:
        members = episodes[group]
        mean, deviation = mean_and_deviation(r for r, n in members for _ in range(n if over == "turns" else 1))
        step_mean, step_deviation = mean_and_deviation(clusters[group, view])
        episode_part = 0.0 if len(members) == 1 else (episode_return - mean) / deviation
        advantages.append(episode_part + weight * (return_to_go - step_mean) / step_deviation)
    return advantages


@every_case("seed", range(5))
@every_case("divide", [False, True])
@every_case("over", ["episodes", "turns"])
def test_gigpo_equals_plain_loops(seed, divide, over):
    turns, rewards, groups, roles = random_turns(seed)
    options = {"gamma": 0.8, "weight": 0.7}
    expected = gigpo_by_loops(rewards, groups, roles, turns.view.tolist(), divide=divide, over=over, **options)
    assert gigpo(turns, divide_by_std=divide, over=over, **options).advantages == pytest.approx(expected, abs=1e-9)


def test_information_states_can_be_the_anchor_of_gigpo():
    turns, rewards, groups, roles = random_turns(3, views=6)
    expected = gigpo_by_loops(
        rewards, groups, roles, turns.state_key.tolist(), gamma=0.95, weight=1.0, divide=False, over="episodes"
    )
    assert gigpo(turns, anchor="state_key").advantages == pytest.approx(expected)
    assert gigpo(turns).advantages != pytest.approx(expected)


def test_gigpo_similar_texts_share_a_step_group():
    turns = with_views(
        table([[0.0, 1.0], [0.0, 0.0]], groups=[0, 0]), [0, 1, 2, 3], names=("a long way 1", "x", "a long way 2", "y")
    )
    step_part = gigpo(turns, similarity=0.9).advantages - gigpo(turns, weight=0.0).advantages
    assert step_part == pytest.approx([0.475, 0.0, -0.475, 0.0])
    assert np.array_equal(gigpo(turns, similarity=1.0).advantages, gigpo(turns).advantages)


def test_gigpo_released_variant_weighs_long_games_more():
    turns = with_views(table([[3.0], [0.0, 0.0]], groups=[0, 0]), [0, 1, 2])
    assert bind("credit", "gigpo", preset="as_released")(turns, {}).advantages == pytest.approx([2.0, -1.0, -1.0])
    assert gigpo(turns).advantages == pytest.approx([1.5, -1.5, -1.5])


def test_gigpo_with_one_trajectory_equal_returns_and_large_returns():
    single_turns = with_views(table([[5.0, 1.0]]), [0, 1])
    equal_turns = with_views(table([[0.1]] * 5, groups=[0] * 5), [0] * 5)
    for options in ({}, {"divide_by_std": True}, {"over": "turns"}):
        for turns in (single_turns, equal_turns):
            assert gigpo(turns, **options).advantages == pytest.approx(0.0, abs=1e-9)
    large_turns = with_views(table([[1e6 + 1], [1e6 + 3]], groups=[0, 0]), [0, 0])
    assert gigpo(large_turns).advantages == pytest.approx([-2.0, 2.0], abs=1e-6)


# two games with equal views, and a third game that shares only the last view
THREE_GAMES = {"rewards": [[0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0]], "groups": [0, 0, 0]}


def test_hgpo_weights_equal_those_of_the_released_code():
    # at the last view: level 1 compares 1 with (1, 0, 0), levels 2 and 3 with (1, 0)
    turns = with_views(table(**THREE_GAMES), [0, 1, 2, 0, 1, 2, 2])
    last_advantages = hgpo(turns, gamma=1.0, divide_by_std=False).advantages[[2, 5, 6]]
    assert last_advantages == pytest.approx([2 / 9 * 2 / 3 + 7 / 9 * 0.5, -2 / 9 / 3 - 7 / 9 * 0.5, -1 / 3])
    # divided by the population deviation, levels 2 and 3 are +-1, and level 1 of (1, 0, 0) is sqrt 2
    divided_by_std = hgpo(turns, gamma=1.0).advantages
    assert divided_by_std[2] == pytest.approx(2 / 9 * 2**0.5 + 3 / 9 + 4 / 9, abs=1e-5)
    # second turns have two levels (2/5, 3/5), first turns one
    assert divided_by_std[:2] == pytest.approx([1.0, 1.0], abs=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_hgpo_without_history_is_the_step_part_of_gigpo(seed):
    turns = random_turns(seed, views=2)[0]
    step_part = gigpo(turns, gamma=0.9).advantages - gigpo(turns, gamma=0.9, weight=0.0).advantages
    assert hgpo(turns, gamma=0.9, history=0, divide_by_std=False).advantages == pytest.approx(step_part, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_without_shared_views_hgpo_has_only_its_episode_part(seed):
    turns = random_turns(seed, views=2)[0]
    unshared_turns = with_views(turns, np.arange(len(turns.reward)))
    assert np.array_equal(hgpo(unshared_turns, base=True).advantages, grpo(unshared_turns).advantages)
    assert not hgpo(unshared_turns).advantages.any()


def hgpo_by_loops(rewards, groups, roles, views, *, gamma, history, alpha, divide, base, count_zeros):
    rows, contexts, episode_returns = [], {}, {}
    for turn_rewards, group in zip(rewards, zip(groups, roles, strict=True), strict=True):
        trajectory_views = views[len(rows) : len(rows) + len(turn_rewards)]
        episode_returns.setdefault(group, []).append(sum(turn_rewards))
        for turn in range(len(turn_rewards)):
            return_to_go = sum(gamma**k * r for k, r in enumerate(turn_rewards[turn:]))
            keys = [
                (group, tuple(trajectory_views[turn + 1 - k : turn + 1]))
                for k in range(1, min(history + 1, turn + 1) + 1)
            ]
            for key in keys:
                contexts.setdefault(key, []).append(return_to_go)
            rows.append((group, sum(turn_rewards), return_to_go, keys))

    def standardised(value, values, ddof):
        mean = sum(values) / len(values)
        deviation = (sum((v - mean) ** 2 for v in values) / (len(values) - ddof)) ** 0.5
        return (value - mean) / (deviation + 1e-6 if divide else 1.0)

    advantages = []
    for group, episode_return, return_to_go, keys in rows:
        levels = [(len(key[1]), standardised(return_to_go, contexts[key], 0)) for key in keys if len(contexts[key]) > 1]
        if base:
            levels.append(
                (0, standardised(episode_return, episode_returns[group], 1) if len(episode_returns[group]) > 1 else 0.0)
            )
        levels = [(k, a) for k, a in levels if count_zeros or abs(a) > 1e-9]
        advantages.append(
            sum((k + 1) ** alpha * a for k, a in levels) / (sum((k + 1) ** alpha for k, _ in levels) or 1.0)
        )
    return advantages


@every_case("seed", range(8))
@every_case("divide", [False, True])
@every_case("base", [False, True])
@every_case("count_zeros", [False, True])
def test_hgpo_equals_plain_loops(seed, divide, base, count_zeros):
    turns, rewards, groups, roles = random_turns(seed, views=2)
    options = {"gamma": 0.5, "history": seed % 4, "alpha": 0.5 * seed, "base": base, "count_zeros": count_zeros}
    expected = hgpo_by_loops(rewards, groups, roles, turns.view.tolist(), divide=divide, **options)
    assert hgpo(turns, divide_by_std=divide, **options).advantages == pytest.approx(expected, abs=1e-9)


def test_hgpo_released_variant_skips_levels_with_zero_advantage():
    # all four games end in view 2; with their first views, games 0 and 1 form one pair and games 2 and 3 another
    rewards = [[0.0, 1.0], [0.0, 0.0], [0.0, 0.5], [0.0, 0.5]]
    turns = with_views(table(rewards, groups=[0] * 4), [0, 2, 0, 2, 1, 2, 1, 2])
    published_advantages = hgpo(turns, gamma=1.0, divide_by_std=False).advantages
    released_advantages = bind("credit", "hgpo", {"gamma": 1.0, "divide_by_std": False}, preset="as_released")(
        turns, {}
    ).advantages
    assert published_advantages == pytest.approx(released_advantages)  # no level that counts has advantage 0 here
    turns = dataclasses.replace(turns, reward=np.array([0.0, 1, 0, 1, 0, 0, 0, 0]))
    published_advantages = hgpo(turns, gamma=1.0, divide_by_std=False).advantages
    released_advantages = bind("credit", "hgpo", {"gamma": 1.0, "divide_by_std": False}, preset="as_released")(
        turns, {}
    ).advantages
    assert published_advantages[1::2] == pytest.approx([0.2, 0.2, -0.2, -0.2])
    assert released_advantages[1::2] == pytest.approx([0.5, 0.5, -0.5, -0.5])


def test_hgpo_alpha_zero_weighs_all_levels_equally_up_to_the_history():
    turns = with_views(table(**THREE_GAMES), [0, 1, 2, 0, 1, 2, 2])
    assert hgpo(turns, gamma=1.0, divide_by_std=False, alpha=0.0).advantages[2] == pytest.approx(
        (2 / 3 + 0.5 + 0.5) / 3
    )
    assert hgpo(turns, gamma=1.0, divide_by_std=False, history=1).advantages[2] == pytest.approx(
        2 / 5 * 2 / 3 + 3 / 5 * 0.5
    )


def test_hgpo_with_information_states_all_history_lengths_agree():
    turns = table(**THREE_GAMES, keys=[0, 1, 2, 0, 1, 2, 3])
    without_history, with_history = (hgpo(turns, anchor="state_key", history=history).advantages for history in (0, 2))
    assert without_history == pytest.approx(with_history)
    assert np.abs(without_history[:6]).min() > 0.5


def test_hgpo_with_one_trajectory_equal_returns_and_large_returns():
    assert not hgpo(with_views(table([[5.0, 1.0]]), [0, 1]), base=True).advantages.any()
    equal_turns = with_views(table([[1e6 + 0.1, 1e6 + 0.1]] * 7, groups=[0] * 7), [0, 1] * 7)
    for count_zeros in (True, False):
        assert hgpo(equal_turns, base=True, count_zeros=count_zeros).advantages == pytest.approx(np.zeros(14), abs=1e-3)
    large_turns = with_views(table([[1e6 + 1], [1e6 + 3]], groups=[0, 0]), [0, 0])
    assert hgpo(large_turns, divide_by_std=False).advantages == pytest.approx([-1.0, 1.0], abs=1e-6)


def test_hgpo_compares_both_turns_of_a_seat_that_sees_one_view_twice():
    turns = with_views(table([[0.0, 1.0], [1.0]], groups=[0, 0], roles=[0, 0]), [0, 0, 1])
    assert hgpo(turns).advantages == pytest.approx([-1, 1, 0], abs=1e-4)
    assert hgpo(turns, gamma=1.0).advantages.tolist() == [0, 0, 0]
    assert np.abs(hgpo(turns, divide_by_std=False).advantages).max() < 0.03


def with_views_and_actions(turns, views, actions):
    return dataclasses.replace(turns, view=np.array(views, dtype=np.int64), action=np.array(actions, dtype=np.int64))


def random_salt_table(seed):
    """Return a random table of 9 trajectories in 2 groups, with views that recur within a trajectory."""
    generator = np.random.Generator(np.random.Philox(seed))
    rewards = [generator.normal(size=length).tolist() for length in generator.integers(1, 5, 9)]
    size = sum(map(len, rewards))
    views, actions = generator.integers(0, 2, size), generator.integers(-1, 2, size)
    keys = 10 * views + generator.integers(0, 2, size)
    turns = table(rewards, groups=generator.integers(0, 2, 9), roles=generator.integers(0, 2, 9), keys=keys)
    return with_views_and_actions(turns, views, actions)


def base_estimator(name):
    return {
        "grpo": lambda turns: grpo(turns).advantages,
        "dr_grpo": lambda turns: grpo(turns, divide_by_std=False).advantages,
        "rloo": lambda turns: rloo(turns).advantages,
    }[name]


def test_salt_by_hand():
    # returns 3, 0, 0: leave-one-out 3, -1.5, -1.5; the first two share their first step, the last two their last
    turns = with_views_and_actions(
        table([[0.0, 3.0], [0.0, 0.0], [0.0, 0.0]], groups=[0] * 3), [0, 1, 0, 2, 0, 2], [5, 5, 5, 5, 6, 5]
    )
    assert salt(turns, base="rloo").advantages == pytest.approx([0.75, 3.0, 0.75, -1.5, -1.5, -1.5])


def test_salt_step_shared_by_all_trajectories_gets_no_advantage():
    turns = with_views_and_actions(
        table([[0.0, 3.0], [0.0, 0.0], [0.0, 1.0]], groups=[0] * 3), [0, 1, 0, 2, 0, 3], [5] * 6
    )
    for base in ("grpo", "dr_grpo", "rloo"):
        assert salt(turns, base=base).advantages[::2] == pytest.approx(np.zeros(3), abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("base", ["grpo", "dr_grpo", "rloo"])
def test_without_merged_steps_salt_is_its_base_estimator(seed, base):
    turns = random_salt_table(seed)
    unshared_turns = with_views_and_actions(turns, np.arange(len(turns.reward)), np.zeros(len(turns.reward)))
    assert salt(unshared_turns, base=base).advantages == pytest.approx(base_estimator(base)(unshared_turns), abs=1e-12)
    without_actions = with_views_and_actions(turns, np.zeros(len(turns.reward)), np.full(len(turns.reward), -1))
    assert salt(without_actions, base=base).advantages == pytest.approx(
        base_estimator(base)(without_actions), abs=1e-12
    )


@every_case("seed", range(5))
@every_case("base", ["grpo", "dr_grpo", "rloo"])
@every_case("anchor", ["view", "state_key"])
def test_salt_equals_plain_loops(seed, base, anchor):
    turns = random_salt_table(seed)
    base_advantages, column = base_estimator(base)(turns), getattr(turns, anchor)
    rows = list(zip(turns.group, turns.role, column, turns.action, strict=True))
    expected = []
    for row, key in enumerate(rows):
        advantage_of_trajectory = (
            {row: base_advantages[row]}
            if key[-1] < 0
            else {turns.trajectory[j]: base_advantages[j] for j, other_key in enumerate(rows) if other_key == key}
        )
        expected.append(sum(advantage_of_trajectory.values()) / len(advantage_of_trajectory))
    assert salt(turns, base=base, anchor=anchor).advantages == pytest.approx(expected, abs=1e-9)


def with_actions(turns, actions):
    return dataclasses.replace(turns, action=np.array(actions, dtype=np.int64))


# all games begin in one state; action a leads to a second turn, with returns 4 and 0, and action b ends with return 1
HAND = {"rewards": [[0.0, 4.0], [0.0, 0.0], [1.0]], "groups": [0] * 3, "keys": [0, 1, 0, 1, 0]}


def test_mars2_by_hand():
    turns = with_actions(table(**HAND), [0, 0, 0, 1, 1])
    # values of nodes: a 2, aa 4, ab 0, b 1; baselines: a 1, b 2, aa (2 + 0) / 2, ab (2 + 4) / 2
    shaped_rewards = np.array([2 + 0.3 * 1, 4 + 0.3 * 3, 2 + 0.3 * 1, 0 - 0.3 * 3, 1 - 0.3 * 1])
    centred_rewards = shaped_rewards - shaped_rewards.mean()
    assert mars2(turns, divide_by_std=False).advantages == pytest.approx(centred_rewards)
    assert mars2(turns).advantages == pytest.approx(centred_rewards / shaped_rewards.std(ddof=1), abs=1e-5)
    assert mars2(turns, epsilon=1.0).advantages == pytest.approx(centred_rewards / (1 + shaped_rewards.std(ddof=1)))
    # weight 1 and siblings only: the baseline of aa is 0, that of ab is 4
    shaped_rewards = np.array([3, 8, 3, -4, 0])
    options = {"weight": 1.0, "sibling_share": 1.0, "divide_by_std": False}
    assert mars2(turns, **options).advantages == pytest.approx(shaped_rewards - shaped_rewards.mean())


@given(returns=st.lists(st.floats(-100, 100), min_size=1, max_size=7), weight=st.floats(0, 2))
def test_mars2_without_parents_and_siblings_is_grpo(returns, weight):
    turns = with_actions(
        table([[value] for value in returns], groups=[0] * len(returns), keys=range(len(returns))), [0] * len(returns)
    )
    for divide in (True, False):
        expected = grpo(turns, divide_by_std=divide).advantages
        assert mars2(turns, weight=weight, divide_by_std=divide).advantages == pytest.approx(expected, abs=1e-6)


def mars2_by_loops(turns, weight, share):
    rows = range(len(turns.reward))
    returns = [turns.reward[turns.trajectory == turns.trajectory[row]].sum() for row in rows]
    states = list(zip(turns.group, turns.role, turns.state_key, strict=True))
    nodes = list(zip(states, turns.action, strict=True))
    mean_returns = {node: np.mean([returns[row] for row in rows if nodes[row] == node]) for node in nodes}
    shaped_rewards = []
    for row in rows:
        terms = []
        if row and turns.trajectory[row] == turns.trajectory[row - 1]:
            terms.append((1 - share, mean_returns[nodes[row - 1]]))
        siblings = [value for node, value in mean_returns.items() if node[0] == states[row] and node != nodes[row]]
        if siblings:
            terms.append((share, np.mean(siblings)))
        node_value = mean_returns[nodes[row]]
        baseline = sum(w * v for w, v in terms) if len(terms) == 2 else terms[0][1] if terms else node_value
        shaped_rewards.append(node_value + weight * (node_value - baseline))
    groups = list(zip(turns.group, turns.role, strict=True))
    return [
        shaped_rewards[row] - np.mean([shaped_rewards[peer] for peer in rows if groups[peer] == groups[row]])
        for row in rows
    ]


@pytest.mark.parametrize("seed", range(6))
def test_mars2_equals_plain_loops(seed):
    turns = random_tree(seed)
    options = {"weight": 0.2 * seed, "sibling_share": 0.15 * seed}
    expected = mars2_by_loops(turns, *options.values())
    assert mars2(turns, divide_by_std=False, **options).advantages == pytest.approx(expected, abs=1e-9)


def random_tree(seed, num_games=12):
    """Return a random table whose groups form trees: turns with equal histories have equal keys."""
    generator = np.random.Generator(np.random.Philox(seed))
    rewards, keys, actions, key_of_history = [], [], [], {}
    for length in generator.integers(1, 5, num_games):
        chosen_actions, history = generator.integers(0, 2, length), ()
        for action in chosen_actions:
            keys.append(key_of_history.setdefault(history, len(key_of_history)))
            actions.append(action)
            history = (*history, action, generator.integers(0, 2))
        rewards.append(generator.normal(size=length).tolist())
    turns = table(
        rewards, groups=generator.integers(0, 2, num_games), roles=generator.integers(0, 2, num_games), keys=keys
    )
    size = len(keys)
    return dataclasses.replace(turns, action=np.array(actions), view=turns.state_key, logprob=-generator.random(size))


def test_branch_grpo_by_hand():
    # leaves 2, 0, 0, 2 (mean 1); leaves 0 and 1 share their first turn, and leaf 2 has a different first action
    turns = with_actions(
        table([[0.0, 2.0], [0.0, 0.0], [0.0], [2.0]], groups=[0] * 4, keys=[0, 1, 0, 2, 0, 3]), [5, 5, 5, 5, 6, 5]
    )
    expected = [0.0, 1.0, 0.0, -1.0, -1.0, 1.0]
    assert branch_grpo(turns, divide_by_std=False).advantages == pytest.approx(expected)
    assert branch_grpo(turns).advantages == pytest.approx(np.array(expected) / (4 / 3) ** 0.5, abs=1e-5)
    assert branch_grpo(turns, epsilon=1.0).advantages == pytest.approx(np.array(expected) / (1 + (4 / 3) ** 0.5))


@pytest.mark.parametrize("seed", range(5))
def test_branch_grpo_is_salt_on_trees_and_grpo_without_shared_turns(seed):
    turns = random_tree(seed)
    assert branch_grpo(turns).advantages == pytest.approx(salt(turns, anchor="state_key").advantages, abs=1e-9)
    unshared_turns = dataclasses.replace(turns, state_key=np.arange(len(turns.reward)))
    assert branch_grpo(unshared_turns).advantages == pytest.approx(grpo(unshared_turns).advantages, abs=1e-12)


def test_branch_grpo_surprise_raises_advantages_of_unlikely_tokens():
    turns = with_actions(table([[2.0], [0.0], [0.0]], groups=[0] * 3, keys=[0, 1, 2], tokens=[2, 1, 4]), [0, 0, 0])
    # the surprises are 3, 1 and 2, so their z-scores are +-sqrt(1.5) and 0
    turns = dataclasses.replace(turns, logprob=np.array([-6.0, -1.0, -8.0]))
    without_surprise, z_scores = np.array([4 / 3, -2 / 3, -2 / 3]), np.array([1.5**0.5, -(1.5**0.5), 0.0])
    options = {"divide_by_std": False, "surprise_weight": 0.4}
    assert branch_grpo(turns, **options).advantages == pytest.approx(without_surprise * (1 + 0.4 * z_scores))
    # the third turn has no surprise, so the z-scores are +-1 and 0
    without_third = dataclasses.replace(turns, n_tokens=np.array([2, 1, 0]))
    assert branch_grpo(without_third, **options).advantages == pytest.approx(without_surprise * [1.4, 0.6, 1.0])
    no_tokens = dataclasses.replace(turns, n_tokens=np.zeros(3, dtype=np.int64))
    assert branch_grpo(no_tokens, **options).advantages == pytest.approx(without_surprise)
