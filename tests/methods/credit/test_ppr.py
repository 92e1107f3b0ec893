import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.methods.credit.tables import table

from sparring.core.errors import ConfigError, CreditError
from sparring.methods.credit.grpo import grpo
from sparring.methods.credit.ppr import ppr


def scored(process, outcome, *, rest=None, names=("best_action", "game"), **others):
    """Return a table whose turns earn these process rewards, outcomes and other rewards, per trajectory and turn."""
    turns = table(process, **others)
    paid = np.array([value for own in outcome for value in own], dtype=np.float64)
    more = np.zeros(len(paid)) if rest is None else np.array([value for own in rest for value in own])
    parts = {names[0]: turns.reward, names[1]: paid, "rest": more}
    return dataclasses.replace(turns, reward=turns.reward + paid + more, components=parts)


# two games: one wins after two turns scored 1 and 0.5, one draws after a turn scored 0
HAND = {"process": [[1.0, 0.5], [0.0]], "outcome": [[0.0, 1.0], [0.0]], "groups": [0, 0]}


def test_by_hand_centred_at_half():
    # rewards 0.5, 0 + 0.5 and -0.5 + 0; to go 1, 0.5 and -0.5, mean 1/3
    turns = scored(**HAND)
    expected = np.array([1.0, 0.5, -0.5]) - 1 / 3
    assert ppr(turns, divide_by_std=False).advantages == pytest.approx(expected)
    assert ppr(turns).advantages == pytest.approx(expected / expected.std(ddof=1), abs=1e-5)
    assert ppr(turns, epsilon=1.0).advantages == pytest.approx(expected / (1 + expected.std(ddof=1)))
    discounted = np.array([0.75, 0.5, -0.5])
    assert ppr(turns, gamma=0.5, divide_by_std=False).advantages == pytest.approx(discounted - 0.25)


def test_by_hand_centred_at_the_mean():
    # process 0.25, -0.25 and 0; outcomes 1, 1 and 0.5; to go 2, 0.75 and 0.5
    expected = np.array([2.0, 0.75, 0.5]) - 3.25 / 3
    assert ppr(scored(**HAND), centring="mean", divide_by_std=False).advantages == pytest.approx(expected)


def test_scales_names_and_other_rewards():
    turns = scored([[2.0, 1.0], [0.0]], [[0.0, 4.0], [2.0]], rest=[[-0.1, 0.0], [0.3]], names=("judge", "payoff"), groups=[0, 0])
    options = {"process": "judge", "outcome": "payoff", "largest_process": 2.0, "lowest_outcome": 0.0, "highest_outcome": 4.0}
    expected = np.array([0.9, 0.5, -0.2])
    assert ppr(turns, divide_by_std=False, **options).advantages == pytest.approx(expected - expected.mean())
    with pytest.raises(CreditError, match="'game'"):
        ppr(turns, process="judge")
    with pytest.raises(CreditError, match="'best_action'"):
        ppr(turns, outcome="payoff")
    with pytest.raises(ConfigError, match="must be larger"):
        ppr(turns, lowest_outcome=1.0)


@given(outcomes=st.lists(st.floats(-1, 1), min_size=1, max_size=7))
def test_in_games_of_one_turn_it_is_grpo_and_the_two_centrings_agree_on_equal_scores(outcomes):
    turns = scored([[0.5]] * len(outcomes), [[value] for value in outcomes], groups=[0] * len(outcomes))
    for divide in (True, False):
        expected = grpo(dataclasses.replace(turns, reward=turns.reward / 2), divide_by_std=divide).advantages
        for centring in ("half", "mean"):
            assert ppr(turns, centring=centring, divide_by_std=divide).advantages == pytest.approx(expected, abs=1e-6)


def drawn(seed):
    generator = np.random.Generator(np.random.Philox(seed))
    lengths = generator.integers(1, 5, 9)
    columns = [[generator.normal(size=length).tolist() for length in lengths] for _ in range(3)]
    return scored(columns[0], columns[1], rest=columns[2], groups=generator.integers(0, 2, 9), roles=generator.integers(0, 2, 9))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("centring", ["half", "mean"])
def test_it_equals_plain_loops(seed, centring):
    turns = drawn(seed)
    togo, keys = [], []
    for trajectory in range(9):
        rows = np.flatnonzero(turns.trajectory == trajectory)
        process, rest = turns.components["best_action"][rows] / 3, turns.components["rest"][rows]
        share = (turns.components["game"][rows].sum() + 2) / 5
        if centring == "half":
            rewards = [p - 0.5 + more for p, more in zip(process, rest, strict=True)]
            rewards[-1] += share - 0.5
        else:
            rewards = [p - process.mean() + share + more for p, more in zip(process, rest, strict=True)]
        togo += [sum(0.9**k * r for k, r in enumerate(rewards[turn:])) for turn in range(len(rows))]
        keys += [(turns.group[row], turns.role[row]) for row in rows]
    alike = [[value for value, key in zip(togo, keys, strict=True) if key == own] for own in keys]
    expected = [value - np.mean(own) for value, own in zip(togo, alike, strict=True)]
    options = {"centring": centring, "largest_process": 3.0, "lowest_outcome": -2.0, "highest_outcome": 3.0, "gamma": 0.9}
    assert ppr(turns, divide_by_std=False, **options).advantages == pytest.approx(expected, abs=1e-9)


@settings(deadline=None)
@given(seed=st.integers(0, 1000), shift=st.floats(-1e4, 1e4))
def test_with_mean_centring_a_generous_judge_changes_nothing(seed, shift):
    turns = drawn(seed)
    parts = {**turns.components, "best_action": turns.components["best_action"] + shift}
    moved = dataclasses.replace(turns, reward=turns.reward + shift, components=parts)
    plain = ppr(turns, centring="mean", divide_by_std=False).advantages
    assert ppr(moved, centring="mean", divide_by_std=False).advantages == pytest.approx(plain, abs=1e-7)


def test_hard_tables():
    for centring in ("half", "mean"):
        assert ppr(scored([], []), centring=centring).advantages.shape == (0,)
        assert ppr(scored([[5.0]], [[1.0]]), centring=centring).advantages.tolist() == [0.0]
        equal = scored([[0.1]] * 5, [[1e6]] * 5, groups=[0] * 5)
        assert ppr(equal, centring=centring).advantages == pytest.approx(np.zeros(5), abs=1e-3)
