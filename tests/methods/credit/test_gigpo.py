import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases import every_case
from tests.methods.credit.tables import table

from sparring.config.plugins.registry import bind
from sparring.methods.credit.gigpo import gigpo
from sparring.methods.credit.grpo import grpo


def seeing(turns, views, names=()):
    return dataclasses.replace(turns, view=np.array(views, dtype=np.int64), view_names=tuple(names))


def drawn(seed, views=3):
    """Return a random table of 9 trajectories in 2 groups, 2 roles and 2 games, and its plain lists."""
    generator = np.random.Generator(np.random.Philox(seed))
    rewards = [generator.normal(size=length).tolist() for length in generator.integers(1, 5, 9)]
    groups, roles = generator.integers(0, 2, 9), generator.integers(0, 2, 9)
    seen = generator.integers(0, views, sum(map(len, rewards)))
    return seeing(table(rewards, groups=groups, roles=roles, keys=seen // 2), seen), rewards, groups, roles


def test_golden_step_part():
    # two games of two turns share the first view; rewards 1 and 0 at their ends
    turns = seeing(table([[0.0, 1.0], [0.0, 0.0]], groups=[0, 0]), [0, 1, 0, 2])
    whole, episode = gigpo(turns).advantages, gigpo(turns, weight=0.0).advantages
    assert whole - episode == pytest.approx([0.475, 0.0, -0.475, 0.0])
    assert episode == pytest.approx([0.5, 0.5, -0.5, -0.5])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("divide", [False, True])
def test_without_the_step_part_it_is_grpo(seed, divide):
    turns = drawn(seed)[0]
    for over in ("episodes", "turns"):
        same = grpo(turns, divide_by_std=divide, over=over).advantages
        assert np.array_equal(gigpo(turns, weight=0.0, divide_by_std=divide, over=over).advantages, same)
    alone = seeing(turns, np.arange(len(turns.reward)))
    assert np.array_equal(gigpo(alone).advantages, grpo(alone, divide_by_std=False).advantages)


def naive(rewards, groups, roles, views, *, gamma, weight, divide, over):
    """The estimator in plain Python loops."""

    def against(values):
        values = list(values)
        mean = sum(values) / len(values)
        deviation = (sum((v - mean) ** 2 for v in values) / max(len(values) - 1, 1)) ** 0.5
        return mean, (deviation + 1e-6) if divide and len(values) > 1 else 1.0

    groups, rows, episodes, clusters = list(zip(groups, roles, strict=True)), [], {}, {}
    for own, group in zip(rewards, groups, strict=True):
        episodes.setdefault(group, []).append((sum(own), len(own)))
        for turn in range(len(own)):
            view = views[len(rows)]
            togo = sum(gamma**k * r for k, r in enumerate(own[turn:]))
            clusters.setdefault((group, view), []).append(togo)
            rows.append((group, view, sum(own), togo))
    result = []
    for group, view, whole, togo in rows:
        members = episodes[group]
        mean, deviation = against(r for r, n in members for _ in range(n if over == "turns" else 1))
        step_mean, step_deviation = against(clusters[group, view])
        episode = 0.0 if len(members) == 1 else (whole - mean) / deviation
        result.append(episode + weight * (togo - step_mean) / step_deviation)
    return result


@every_case("seed", range(5))
@every_case("divide", [False, True])
@every_case("over", ["episodes", "turns"])
def test_it_equals_plain_loops(seed, divide, over):
    turns, rewards, groups, roles = drawn(seed)
    options = {"gamma": 0.8, "weight": 0.7}
    expected = naive(rewards, groups, roles, turns.view.tolist(), divide=divide, over=over, **options)
    assert gigpo(turns, divide_by_std=divide, over=over, **options).advantages == pytest.approx(expected, abs=1e-9)


def test_states_of_knowledge_can_be_the_anchor():
    turns, rewards, groups, roles = drawn(3, views=6)
    expected = naive(rewards, groups, roles, turns.state_key.tolist(), gamma=0.95, weight=1.0, divide=False, over="episodes")
    assert gigpo(turns, anchor="state_key").advantages == pytest.approx(expected)
    assert gigpo(turns).advantages != pytest.approx(expected)


def test_similar_texts_share_a_step_group():
    turns = seeing(table([[0.0, 1.0], [0.0, 0.0]], groups=[0, 0]), [0, 1, 2, 3], names=("a long way 1", "x", "a long way 2", "y"))
    step = gigpo(turns, similarity=0.9).advantages - gigpo(turns, weight=0.0).advantages
    assert step == pytest.approx([0.475, 0.0, -0.475, 0.0])
    assert np.array_equal(gigpo(turns, similarity=1.0).advantages, gigpo(turns).advantages)


def test_as_released_weighs_long_games_more():
    turns = seeing(table([[3.0], [0.0, 0.0]], groups=[0, 0]), [0, 1, 2])
    assert bind("credit", "gigpo", preset="as_released")(turns, {}).advantages == pytest.approx([2.0, -1.0, -1.0])
    assert gigpo(turns).advantages == pytest.approx([1.5, -1.5, -1.5])


@settings(deadline=None)
@given(seed=st.integers(0, 1000), shift=st.floats(-1e6, 1e6))
def test_step_parts_are_centred_and_a_shift_of_every_last_reward_moves_only_the_discounting(seed, shift):
    turns = drawn(seed)[0]
    step = gigpo(turns).advantages - gigpo(turns, weight=0.0).advantages
    keys = list(zip(turns.group, turns.role, turns.view, strict=True))
    for key in set(keys):
        assert sum(value for own, value in zip(keys, step, strict=True) if own == key) == pytest.approx(0.0, abs=1e-9)
    shifted = dataclasses.replace(turns, reward=turns.reward + shift * turns.done)
    assert gigpo(shifted, gamma=1.0).advantages == pytest.approx(gigpo(turns, gamma=1.0).advantages, abs=1e-6)


P = 0.4
# (probability, rewards, scores): stop with P at any of two turns; the third turn ends; a view is a turn
TRAJECTORIES = [(P, [1.0], [1 - P]), ((1 - P) * P, [-0.5, 3.0], [-P, 1 - P]), ((1 - P) ** 2, [-0.5, 1.5], [-P, -P])]


@pytest.mark.parametrize("members", [2, 3])
def test_each_part_is_the_exact_gradient_shrunk_by_the_members_that_met(members):
    """The step part of a view that m members met is (m - 1) / m of its gradient; the others meet it independently of oneself."""
    q_stop, q_on, reach = (1.0, 3.0), (-0.5 + P * 3.0 + (1 - P) * 1.5, 1.5), (1.0, 1 - P)
    exact = [reach[s] * P * (1 - P) * (q_stop[s] - q_on[s]) for s in (0, 1)]
    found = {0.0: 0.0, 1.0: 0.0}
    for chosen in itertools.product(TRAJECTORIES, repeat=members):
        views = [turn for _, rewards, _ in chosen for turn in range(len(rewards))]
        turns = seeing(table([rewards for _, rewards, _ in chosen], groups=[0] * members), views)
        scores = np.array([score for _, _, scores in chosen for score in scores])
        chance = np.prod([p for p, _, _ in chosen]) / members
        for weight in found:
            found[weight] += chance * float(gigpo(turns, gamma=1.0, weight=weight).advantages @ scores)
    assert found[0.0] == pytest.approx(sum(exact) * (members - 1) / members)
    step = 0.0
    for state, gradient in enumerate(exact):
        for others in itertools.product((True, False), repeat=members - 1):
            met = sum(others)
            chance = reach[state] ** met * (1 - reach[state]) ** (members - 1 - met)
            step += chance * gradient * met / (met + 1)
    assert found[1.0] - found[0.0] == pytest.approx(step)


def test_hard_tables():
    assert gigpo(seeing(table([]), [])).advantages.shape == (0,)
    alone = seeing(table([[5.0, 1.0]]), [0, 1])
    equal = seeing(table([[0.1]] * 5, groups=[0] * 5), [0] * 5)
    for options in ({}, {"divide_by_std": True}, {"over": "turns"}):
        assert gigpo(alone, **options).advantages == pytest.approx([0.0, 0.0], abs=1e-9)
        assert gigpo(equal, **options).advantages == pytest.approx(np.zeros(5), abs=1e-9)
    big = seeing(table([[1e6 + 1], [1e6 + 3]], groups=[0, 0]), [0, 0])
    assert gigpo(big).advantages == pytest.approx([-2.0, 2.0], abs=1e-6)
