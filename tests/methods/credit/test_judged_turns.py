import dataclasses
import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.methods.credit.tables import EIGHTHS, table

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError, CreditError
from sparring.methods.credit.at_grpo import at_grpo
from sparring.methods.credit.grpo import grpo
from sparring.methods.credit.match_tir import match_tir
from sparring.methods.credit.oprl import oprl
from sparring.methods.credit.ppr import ppr
from sparring.methods.credit.rloo import rloo
from sparring.methods.credit.spae import potential, spae
from sparring.methods.credit.vpr import vpr
from sparring.play.turn_table import with_components


def table_of_scores(process, outcome, *, other_rewards=None, names=("best_action", "game"), **columns):
    """Return a table whose turns earn these process rewards, outcomes and other rewards, per trajectory and turn."""
    turns = table(process, **columns)
    outcomes = np.array([value for values in outcome for value in values], dtype=np.float64)
    flat_other_rewards = (
        np.zeros(len(outcomes))
        if other_rewards is None
        else np.array([value for values in other_rewards for value in values])
    )
    components = {names[0]: turns.reward, names[1]: outcomes, "rest": flat_other_rewards}
    return dataclasses.replace(turns, reward=turns.reward + outcomes + flat_other_rewards, components=components)


# game 0 is won after turns with scores 1 and 0.5; game 1 is drawn after a turn with score 0
HAND_OF_PPR = {"process": [[1.0, 0.5], [0.0]], "outcome": [[0.0, 1.0], [0.0]], "groups": [0, 0]}


def test_ppr_by_hand_centred_at_half():
    # rewards 0.5, 0 + 0.5 and -0.5 + 0; to go 1, 0.5 and -0.5, mean 1/3
    turns = table_of_scores(**HAND_OF_PPR)
    expected = np.array([1.0, 0.5, -0.5]) - 1 / 3
    assert ppr(turns, divide_by_std=False).advantages == pytest.approx(expected)
    assert ppr(turns).advantages == pytest.approx(expected / expected.std(ddof=1), abs=1e-5)
    assert ppr(turns, epsilon=1.0).advantages == pytest.approx(expected / (1 + expected.std(ddof=1)))
    discounted = np.array([0.75, 0.5, -0.5])
    assert ppr(turns, gamma=0.5, divide_by_std=False).advantages == pytest.approx(discounted - 0.25)


def test_ppr_by_hand_centred_at_the_mean():
    # process 0.25, -0.25 and 0; outcomes 1, 1 and 0.5; to go 2, 0.75 and 0.5
    expected = np.array([2.0, 0.75, 0.5]) - 3.25 / 3
    assert ppr(table_of_scores(**HAND_OF_PPR), centring="mean", divide_by_std=False).advantages == pytest.approx(
        expected
    )


def test_ppr_scales_names_and_other_rewards():
    turns = table_of_scores(
        [[2.0, 1.0], [0.0]],
        [[0.0, 4.0], [2.0]],
        other_rewards=[[-0.1, 0.0], [0.3]],
        names=("judge", "payoff"),
        groups=[0, 0],
    )
    options = {
        "process": "judge",
        "outcome": "payoff",
        "largest_process": 2.0,
        "lowest_outcome": 0.0,
        "highest_outcome": 4.0,
    }
    expected = np.array([0.9, 0.5, -0.2])
    assert ppr(turns, divide_by_std=False, **options).advantages == pytest.approx(expected - expected.mean())
    with pytest.raises(CreditError, match="'game'"):
        ppr(turns, process="judge")
    with pytest.raises(CreditError, match="'best_action'"):
        ppr(turns, outcome="payoff")
    with pytest.raises(ConfigError, match="must be larger"):
        ppr(turns, lowest_outcome=1.0)


@given(outcomes=st.lists(st.floats(-1, 1), min_size=1, max_size=7))
def test_in_one_turn_games_ppr_is_grpo_and_both_centrings_agree(outcomes):
    turns = table_of_scores([[0.5]] * len(outcomes), [[value] for value in outcomes], groups=[0] * len(outcomes))
    for divide in (True, False):
        expected = grpo(dataclasses.replace(turns, reward=turns.reward / 2), divide_by_std=divide).advantages
        for centring in ("half", "mean"):
            assert ppr(turns, centring=centring, divide_by_std=divide).advantages == pytest.approx(expected, abs=1e-6)


def random_ppr_table(seed):
    generator = np.random.Generator(np.random.Philox(seed))
    lengths = generator.integers(1, 5, 9)
    columns = [[generator.normal(size=length).tolist() for length in lengths] for _ in range(3)]
    return table_of_scores(
        columns[0],
        columns[1],
        other_rewards=columns[2],
        groups=generator.integers(0, 2, 9),
        roles=generator.integers(0, 2, 9),
    )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("centring", ["half", "mean"])
def test_ppr_equals_plain_loops(seed, centring):
    turns = random_ppr_table(seed)
    returns_to_go, keys = [], []
    for trajectory in range(9):
        rows = np.flatnonzero(turns.trajectory == trajectory)
        process, other_rewards = turns.components["best_action"][rows] / 3, turns.components["rest"][rows]
        outcome_share = (turns.components["game"][rows].sum() + 2) / 5
        if centring == "half":
            rewards = [p - 0.5 + other_reward for p, other_reward in zip(process, other_rewards, strict=True)]
            rewards[-1] += outcome_share - 0.5
        else:
            rewards = [
                p - process.mean() + outcome_share + other_reward
                for p, other_reward in zip(process, other_rewards, strict=True)
            ]
        returns_to_go += [sum(0.9**k * r for k, r in enumerate(rewards[turn:])) for turn in range(len(rows))]
        keys += [(turns.group[row], turns.role[row]) for row in rows]
    returns_of_group = [
        [value for value, other_key in zip(returns_to_go, keys, strict=True) if other_key == key] for key in keys
    ]
    expected = [value - np.mean(peers) for value, peers in zip(returns_to_go, returns_of_group, strict=True)]
    options = {
        "centring": centring,
        "largest_process": 3.0,
        "lowest_outcome": -2.0,
        "highest_outcome": 3.0,
        "gamma": 0.9,
    }
    assert ppr(turns, divide_by_std=False, **options).advantages == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("centring", ["half", "mean"])
def test_ppr_with_one_turn_and_with_equal_turns_is_zero(centring):
    assert ppr(table_of_scores([[5.0]], [[1.0]]), centring=centring).advantages.tolist() == [0.0]
    equal_turns = table_of_scores([[0.1]] * 5, [[1e6]] * 5, groups=[0] * 5)
    assert ppr(equal_turns, centring=centring).advantages == pytest.approx(np.zeros(5), abs=1e-3)


def table_of_probes(outcome, accuracy, confidence, *, names=("best_action", "sure"), **columns):
    """Return a table with these outcomes, and probed accuracies and confidences, per trajectory and turn."""
    turns = table(outcome, **columns)
    accuracies, confidences = (
        np.array([value for values in column for value in values], dtype=np.float64)
        for column in (accuracy, confidence)
    )
    components = {"game": turns.reward, names[0]: accuracies, names[1]: confidences}
    return dataclasses.replace(turns, reward=turns.reward + accuracies + confidences, components=components)


def test_potential_at_all_extreme_probes():
    accuracy, confidence = np.array([1.0, 0, 0, 1]), np.array([1.0, 1, 0, 0])
    assert potential(accuracy, confidence) == pytest.approx([1, -1, 0, 0.5])


# potentials 0.5, 1, -1 and -1; outcomes 1 and 0
HAND_OF_SPAE = {
    "outcome": [[0.0, 0.0, 1.0], [0.0]],
    "accuracy": [[1, 1, 0], [0]],
    "confidence": [[0, 1, 1], [1]],
    "groups": [0, 0],
}


def test_spae_by_hand():
    turns = table_of_probes(**HAND_OF_SPAE)
    gains = np.array([0.5, 0.5, -2.0, -1.0])
    options = {"confidence": "sure", "divide_by_std": False}
    # after the second turn's potential of 1 the outcome counts half
    assert spae(turns, **options).advantages == pytest.approx(gains + np.array([0.5, 0.5, 0.25, -0.5]))
    assert spae(turns, **options, weight=0.2, reduction=0.0).advantages == pytest.approx(
        0.2 * gains + np.array([0.5, 0.5, 0, -0.5])
    )
    assert spae(turns, **options, saturation=1.0).advantages == pytest.approx(gains + np.array([0.5, 0.5, 0.5, -0.5]))
    assert spae(turns, **options, saturation=0.4).advantages == pytest.approx(gains + np.array([0.5, 0.25, 0.25, -0.5]))
    divided_by_std = spae(turns, confidence="sure").advantages
    assert divided_by_std == pytest.approx(gains + np.array([1, 1, 0.5, -1]) / 2**0.5, abs=1e-5)
    assert spae(turns, confidence="sure", epsilon=1e9).advantages == pytest.approx(gains, abs=1e-8)


def test_spae_names_of_components_are_options():
    turns = table_of_probes(**HAND_OF_SPAE, names=("right", "certain"))
    default_names = spae(table_of_probes(**HAND_OF_SPAE), confidence="sure").advantages
    assert np.array_equal(spae(turns, accuracy="right", confidence="certain").advantages, default_names)


def test_spae_without_a_probe_confidence_is_the_probability_of_the_reply_per_token():
    turns = table([[0.5, 1.0, 1.0]], tokens=[2, 1, 0])
    turns = dataclasses.replace(turns, components={"best_action": turns.reward}, logprob=np.log([0.25, 0.8, 0.1]))
    phi = potential(np.array([0.5, 1.0, 1.0]), np.array([0.5, 0.8, 1.0]))
    assert spae(turns).advantages == pytest.approx(np.diff(phi, prepend=0.0))


def test_spae_probes_never_count_as_rewards():
    turns = table([[1.5], [0.25]], groups=[0, 0], tokens=[1, 1])
    turns = dataclasses.replace(turns, components={"best_action": np.array([0.5, 0.25])}, logprob=np.zeros(2))
    assert spae(turns, weight=0.0, divide_by_std=False).advantages == pytest.approx([0.5, -0.5])


@given(outcomes=st.lists(st.lists(st.floats(-10, 10), min_size=1, max_size=4), min_size=1, max_size=6))
def test_without_weight_and_reduction_spae_is_grpo_of_the_returns(outcomes):
    certainties = [[1.0] * len(turns) for turns in outcomes]
    groups = [0] * len(outcomes)
    expected = grpo(table(outcomes, groups=groups)).advantages
    advantages = spae(
        table_of_probes(outcomes, certainties, certainties, groups=groups), confidence="sure", weight=0.0, reduction=1.0
    ).advantages
    assert advantages == pytest.approx(expected, abs=1e-5)


@settings(deadline=None)
@given(seed=st.integers(0, 1000), saturation=st.floats(-0.5, 1.0), reduction=st.floats(0, 1))
def test_spae_equals_plain_loops_and_gains_sum_to_the_last_potential(seed, saturation, reduction):
    generator = np.random.Generator(np.random.Philox(seed))
    lengths = generator.integers(1, 5, 7)
    columns = [[generator.random(length).tolist() for length in lengths] for _ in range(3)]
    groups = generator.integers(0, 2, 7)
    turns = table_of_probes(*columns, groups=groups)
    grpo_advantages = grpo(table(columns[0], groups=groups), divide_by_std=False).advantages
    expected, row = [], 0
    for accuracies, confidences in zip(*columns[1:], strict=True):
        previous_potential, is_saturated = 0.0, False
        for accuracy, confidence in zip(accuracies, confidences, strict=True):
            potential_now = 1.5 * accuracy * confidence + 0.5 * accuracy - confidence
            expected.append(
                (reduction if is_saturated else 1.0) * grpo_advantages[row] + 2.0 * (potential_now - previous_potential)
            )
            previous_potential, is_saturated, row = potential_now, is_saturated or potential_now > saturation, row + 1
    options = {"confidence": "sure", "divide_by_std": False, "saturation": saturation, "reduction": reduction}
    assert spae(turns, weight=2.0, **options).advantages == pytest.approx(expected, abs=1e-9)
    gains = spae(turns, **options).advantages - spae(turns, **options, weight=0.0).advantages
    sums = np.bincount(turns.trajectory, weights=gains)
    is_last_turn = turns.done
    assert sums == pytest.approx(
        potential(turns.components["best_action"][is_last_turn], turns.components["sure"][is_last_turn]), abs=1e-9
    )


def test_spae_with_one_turn_and_with_equal_turns():
    assert spae(table_of_probes([[1e6]], [[1.0]], [[1.0]]), confidence="sure").advantages == pytest.approx([1.0])
    equal_turns = table_of_probes([[1e6 + 0.1]] * 5, [[0.0]] * 5, [[0.0]] * 5, groups=[0] * 5)
    assert spae(equal_turns, confidence="sure").advantages == pytest.approx(np.zeros(5), abs=1e-3)


def random_match_tir_table(seed):
    generator = np.random.Generator(np.random.Philox(seed))
    rewards = [generator.normal(size=length).tolist() for length in generator.integers(1, 5, 9)]
    return table(rewards, groups=generator.integers(0, 2, 9), roles=generator.integers(0, 2, 9))


def test_match_tir_by_hand():
    turns = table([[1.0, 2.0], [0.0, 0.0, 1.0]], groups=[0, 0])
    # returns 3 and 1; to go, halved a turn: 2, 2 and 0.25, 0.5, 1; the third turn has one member
    trajectory_part, turn_part = np.array([1, 1, -1, -1, -1]), np.array([0.875, 0.75, -0.875, -0.75, 0.0])
    assert match_tir(turns, gamma=0.5, divide_by_std=False).advantages == pytest.approx(
        0.5 * trajectory_part + 0.5 * turn_part
    )
    advantages = match_tir(turns, gamma=0.5, divide_by_std=False, turn_share=0.25).advantages
    assert advantages == pytest.approx(0.75 * trajectory_part + 0.25 * turn_part)
    # of two, the sample deviation is the half difference times sqrt(2)
    divided_by_std = match_tir(turns, gamma=0.5).advantages
    assert divided_by_std == pytest.approx(np.array([1, 1, -1, -1, -0.5]) / 2**0.5, abs=1e-5)
    assert match_tir(turns, epsilon=1e9).advantages == pytest.approx(np.zeros(5), abs=1e-8)


def test_match_tir_discount_of_the_paper_is_the_default():
    turns = table([[0.0, 1.0], [0.0, 0.0]], groups=[0, 0])
    assert match_tir(turns, turn_share=1.0, divide_by_std=False).advantages == pytest.approx([0.45, 0.5, -0.45, -0.5])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("divide", [True, False])
def test_without_the_turn_part_or_in_one_turn_games_match_tir_is_grpo(seed, divide):
    turns = random_match_tir_table(seed)
    assert np.array_equal(
        match_tir(turns, turn_share=0.0, divide_by_std=divide).advantages, grpo(turns, divide_by_std=divide).advantages
    )
    one_turn_games = table([[value] for value in turns.reward], groups=turns.group, roles=turns.role)
    grpo_advantages = grpo(one_turn_games, divide_by_std=divide).advantages
    assert match_tir(one_turn_games, divide_by_std=divide).advantages == pytest.approx(grpo_advantages, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_match_tir_equals_plain_loops(seed):
    turns = random_match_tir_table(seed)
    rows = range(len(turns.reward))
    same_trajectory = [[turns.trajectory[i] == turns.trajectory[j] for j in rows] for i in rows]
    returns_to_go = [
        sum(0.9 ** (j - i) * turns.reward[j] for j in rows if j >= i and same_trajectory[i][j]) for i in rows
    ]
    keys = list(zip(turns.group, turns.role, turns.turn_index, strict=True))
    expected = []
    for row in rows:
        same_step = [returns_to_go[j] for j in rows if keys[j] == keys[row]]
        turn_part = (
            0.0
            if len(same_step) == 1
            else (returns_to_go[row] - np.mean(same_step)) / (np.std(same_step, ddof=1) + 1e-6)
        )
        expected.append((grpo(turns).advantages[row] + turn_part) / 2)
    assert match_tir(turns).advantages == pytest.approx(expected, abs=1e-9)


NEWER = {"process": "process_logprob", "policy": "old_logprob"}
OLDER = {"process": "old_logprob", "policy": "reference_logprob"}
MODELS = st.sampled_from(sorted(NEWER))


def table_of_log_ratios(rewards, gains, model="process", **options):
    """Return a table with these log-ratios of the model and without the columns that the model does not read."""
    columns = {NEWER[model]: np.array(gains, dtype=np.float64) - 2.0, OLDER[model]: np.full(len(gains), -2.0)}
    return dataclasses.replace(table(rewards, **options), **columns)


def random_oprl_table(seed, model="process"):
    generator = np.random.Generator(np.random.Philox(seed))
    rewards = [generator.normal(size=generator.integers(1, 5)).tolist() for _ in range(8)]
    roles = generator.integers(0, 2, 8).tolist()
    return table_of_log_ratios(
        rewards, generator.normal(size=sum(map(len, rewards))), model, groups=[0, 0, 0, 0, 0, 1, 1, 2], roles=roles
    )


def oprl_by_loops(turns, model, beta, alpha, form):
    def relative_to_group(value, group_values):
        peers = list(group_values)
        peers.remove(value)
        if not peers:
            return 0.0
        return (
            value - np.mean(peers)
            if form == "rloo"
            else (value - np.mean(group_values)) / (np.std(group_values, ddof=1) + 1e-6)
        )

    keys = list(zip(turns.group, turns.role, strict=True))
    step_rewards = [
        beta * (a - b) for a, b in zip(getattr(turns, NEWER[model]), getattr(turns, OLDER[model]), strict=True)
    ]
    returns = {
        trajectory: sum(turns.reward[turns.trajectory == trajectory]) for trajectory in np.unique(turns.trajectory)
    }
    key_of_trajectory = {trajectory: keys[int(np.argmax(turns.trajectory == trajectory))] for trajectory in returns}
    advantages = []
    for row, trajectory in enumerate(turns.trajectory):
        episode_part = relative_to_group(
            returns[trajectory], [returns[peer] for peer in returns if key_of_trajectory[peer] == keys[row]]
        )
        advantages.append(
            episode_part
            + alpha
            * relative_to_group(
                step_rewards[row], [s for s, k in zip(step_rewards, keys, strict=True) if k == keys[row]]
            )
        )
    return advantages


@pytest.mark.parametrize("model", NEWER)
def test_oprl_by_hand(model):
    """Returns 1 and 0; step rewards .5, .1 and 0 against the mean of the other two."""
    turns = table_of_log_ratios([[0.0, 1.0], [0.0]], [5.0, 1.0, 0.0], model, groups=[0, 0])
    credit = oprl(turns, model=model, beta=0.1, alpha=2.0)
    assert credit.advantages == pytest.approx([1 + 2 * 0.45, 1 - 2 * 0.15, -1 - 2 * 0.3])
    assert credit.metrics == {
        "step_reward_mean": pytest.approx(0.2),
        "step_reward_std": pytest.approx(np.std([0.5, 0.1, 0.0])),
    }


@given(
    st.integers(0, 500),
    MODELS,
    st.sampled_from([0.05, 1.0]),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from(["rloo", "grpo"]),
)
def test_oprl_equals_plain_loops(seed, model, beta, alpha, form):
    turns = random_oprl_table(seed, model)
    expected = oprl_by_loops(turns, model, beta, alpha, form)
    assert oprl(turns, model=model, beta=beta, alpha=alpha, form=form).advantages == pytest.approx(expected, abs=1e-8)


@given(st.integers(0, 500), MODELS)
def test_without_step_rewards_oprl_is_rloo_or_grpo(seed, model):
    turns = random_oprl_table(seed, model)
    before_update = dataclasses.replace(turns, **{NEWER[model]: getattr(turns, OLDER[model])})
    for form, estimator in (("rloo", rloo), ("grpo", grpo)):
        expected = estimator(turns).advantages
        assert oprl(turns, model=model, alpha=0.0, form=form).advantages == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert oprl(before_update, model=model, form=form).advantages == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("form", ["rloo", "grpo"])
def test_oprl_with_equal_turns_or_one_member(form):
    for turns in (table_of_log_ratios([[1e6], [1e6]], [0.3, 0.3], groups=[0, 0]), table_of_log_ratios([[1e6]], [0.3])):
        assert oprl(turns, form=form).advantages == pytest.approx(0.0)


REWARDS = st.lists(st.lists(EIGHTHS, min_size=1, max_size=4), min_size=1, max_size=8)


def table_of_verdicts(process, game=None, mask=None, **kwargs):
    """Return a table of turns with process rewards, and the game's reward at the end of each trajectory."""
    turns = table(process, **{"groups": [0] * len(process), **kwargs})
    game = (
        np.zeros(len(turns.reward))
        if game is None
        else np.where(turns.done, 1.0, 0.0) * np.repeat(game, [len(p) for p in process])
    )
    components = {"best_action": turns.reward, "game": game}
    return replace(
        turns,
        reward=turns.reward + game,
        components=components,
        judged=None if mask is None else np.array(mask, dtype=bool),
    )


def test_vpr_by_hand():
    # turn 0: 1, 0, 1, 0: mean 1/2, deviation 3^-0.5; turn 1: 1, 0: mean 1/2, deviation 2^-0.5; turn 2: one member
    turns = table_of_verdicts([[1.0, 1.0, 1.0], [0.0], [1.0, 0.0], [0.0]], game=[1.0, 1.0, 0.0, 0.0])
    advantage_at_turn_0, advantage_at_turn_1 = 3**0.5 / 2, 2**0.5 / 2
    assert vpr(turns).advantages == pytest.approx(
        [
            advantage_at_turn_0,
            advantage_at_turn_1,
            0,
            -advantage_at_turn_0,
            advantage_at_turn_0,
            -advantage_at_turn_1,
            -advantage_at_turn_0,
        ],
        abs=1e-5,
    )
    assert vpr(turns, divide_by_std=False).advantages == pytest.approx([0.5, 0.5, 0, -0.5, 0.5, -0.5, -0.5])
    assert vpr(turns, divide_by_std=False, leave_one_out=True).advantages == pytest.approx(
        [2 / 3, 1, 0, -2 / 3, 2 / 3, -1, -2 / 3]
    )
    assert bind("credit", "vpr", preset="unbiased")(turns, {}).advantages == pytest.approx(
        [2 / 3, 1, 0, -2 / 3, 2 / 3, -1, -2 / 3]
    )
    assert (
        vpr(turns, baseline="none", divide_by_std=False).advantages.tolist() == turns.components["best_action"].tolist()
    )


@given(REWARDS, st.booleans(), st.booleans())
def test_vpr_equals_plain_loops(rewards, leave_one_out, divide_by_std):
    groups = [index // 4 for index in range(len(rewards))]
    turns = table_of_verdicts(rewards, groups=groups)
    credit = vpr(turns, leave_one_out=leave_one_out, divide_by_std=divide_by_std, epsilon=0.5)
    group_keys = list(zip(turns.group.tolist(), turns.turn_index.tolist(), strict=True))
    for row, reward in enumerate(turns.reward):
        members = [peer for peer in range(len(group_keys)) if group_keys[peer] == group_keys[row]]
        peers = [peer for peer in members if peer != row] if leave_one_out else members
        expected = reward - turns.reward[peers].mean() if peers else 0.0
        if divide_by_std and len(members) > 1:
            expected /= turns.reward[members].std(ddof=1) + 0.5
        assert credit.advantages[row] == pytest.approx(expected, abs=1e-9)


def test_vpr_discounted_future_rewards_and_the_outcome_by_hand():
    turns = table_of_verdicts([[1.0, 0.0], [0.0, 1.0], [0.0], [1.0]], game=[1.0, 0.0, 0.0, 1.0])
    unscaled = {"divide_by_std": False}
    # discounted by one half: 1, 0; 1/2, 1; 0; 1
    assert vpr(turns, gamma=0.5, **unscaled).advantages == pytest.approx([0.375, -0.5, -0.125, 0.5, -0.625, 0.375])
    with_outcome = vpr(turns, outcome=2.0, **unscaled).advantages
    assert with_outcome == pytest.approx([0.5 + 1, -0.5 + 1, -0.5 - 1, 0.5 - 1, -0.5 - 1, 0.5 + 1])
    outcome_only = (
        vpr(turns, outcome=2.0, leave_one_out=True, **unscaled).advantages
        - vpr(turns, leave_one_out=True, **unscaled).advantages
    )
    assert outcome_only == pytest.approx([4 / 3, 4 / 3, -4 / 3, -4 / 3, -4 / 3, 4 / 3])


def test_vpr_other_baseline_groups_by_hand():
    turns = table_of_verdicts([[1.0, 0.0], [0.0, 1.0]], keys=[0, 1, 0, 0])
    unscaled = {"divide_by_std": False}
    assert vpr(turns, baseline="state", **unscaled).advantages == pytest.approx([1 / 3, 0, -2 / 3, 1 / 3])
    assert vpr(turns, baseline="role", **unscaled).advantages == pytest.approx([0.5, -0.5, -0.5, 0.5])
    seats = table_of_verdicts([[1.0], [10.0], [3.0], [30.0]], seats=[0, 1, 0, 1])
    assert vpr(seats, **unscaled).advantages == pytest.approx([-1, -10, 1, 10])


def test_vpr_turns_without_a_verdict_are_not_in_the_group():
    turns = table_of_verdicts([[1.0], [0.0], [0.0], [1.0]], mask=[True, True, False, True], game=[0.0, 0.0, 1.0, 1.0])
    assert vpr(turns, divide_by_std=False).advantages == pytest.approx([1 / 3, -2 / 3, 0, 1 / 3])
    assert vpr(turns).metrics == {"judged_share": 0.75}
    assert vpr(turns, divide_by_std=False, outcome=1.0).advantages == pytest.approx(
        [1 / 3 - 0.5, -2 / 3 - 0.5, 0.5, 1 / 3 + 0.5]
    )


@given(REWARDS, st.booleans())
def test_vpr_is_at_grpo_on_the_process_reward(rewards, divide):
    groups, seats = [index // 4 for index in range(len(rewards))], [index % 2 for index in range(len(rewards))]
    turns = table_of_verdicts(rewards, groups=groups, seats=seats)
    scale = "std" if divide else "none"
    assert vpr(turns, divide_by_std=divide).advantages == pytest.approx(
        at_grpo(turns, scale=scale).advantages, abs=1e-9
    )


@given(REWARDS)
def test_without_process_reward_the_outcome_part_is_grpo_or_rloo(rewards):
    turns = table_of_verdicts([[0.0] * len(values) for values in rewards], game=[sum(values) for values in rewards])
    assert vpr(turns, outcome=1.0).advantages == pytest.approx(grpo(turns).advantages, abs=1e-9)
    assert bind("credit", "vpr", {"outcome": 1.0}, preset="unbiased")(turns, {}).advantages == pytest.approx(
        rloo(turns).advantages, abs=1e-9
    )


# A policy decides when to stop. "stop" is wrong and ends the game; after "go", which is right, one turn follows.
P, Q = 0.4, 0.3
STOP, RIGHT, WRONG = (
    (P, [0.0], [1 - P]),
    ((1 - P) * Q, [1.0, 1.0], [-P, 1 - Q]),
    ((1 - P) * (1 - Q), [1.0, 0.0], [-P, -Q]),
)


def expected_gradient(members, **options):
    """Return the exact expected gradient in the logits of stopping and of the second turn's right action, per member."""
    total = np.zeros(2)
    for trajectories in itertools.product((STOP, RIGHT, WRONG), repeat=members):
        turns = table_of_verdicts([rewards for _, rewards, _ in trajectories])
        score = np.array([value for _, _, scores in trajectories for value in scores])
        score_terms = vpr(turns, divide_by_std=False, **options).advantages * score
        is_second_turn = turns.turn_index == 1
        total += np.prod([probability for probability, _, _ in trajectories]) * np.array(
            [score_terms[~is_second_turn].sum(), score_terms[is_second_turn].sum()]
        )
    return total / members


def test_the_expected_gradient_of_vpr_is_that_of_immediate_rewards():
    gradient = np.array([P * (1 - P) * (0.0 - 1.0), (1 - P) * Q * (1 - Q) * (1.0 - 0.0)])
    assert expected_gradient(3, baseline="none") == pytest.approx(gradient)
    chance_of_no_peer = P**2 * (1 - P)  # only one of three reaches turn 1, so it has no peer
    scaled_gradient = gradient * [1, 1 - chance_of_no_peer / (1 - P)]
    assert expected_gradient(3, leave_one_out=True) == pytest.approx(scaled_gradient)
    # a turn's reward is in its own baseline, which takes off 1/m of m members: 3 at turn 0, 2 or 3 at turn 1
    pairs, all_three = 2 * P * (1 - P), (1 - P) ** 2
    assert expected_gradient(3) == pytest.approx(gradient * [2 / 3, pairs / 2 + all_three * 2 / 3])


@pytest.mark.parametrize("baseline", ["turn_index", "state", "role", "none"])
def test_vpr_single_turn_and_a_table_without_verdicts(baseline):
    for leave_one_out, divide in itertools.product((False, True), repeat=2):
        options = {"baseline": baseline, "leave_one_out": leave_one_out, "divide_by_std": divide}
        advantages = vpr(table_of_verdicts([[1e6]]), **options).advantages
        assert advantages == pytest.approx([1e6 if baseline == "none" and not divide else 0.0])
        assert not vpr(table_of_verdicts([[1.0], [0.0]], mask=[False, False]), **options).advantages.any()


def table_of_candidates(process, committed=None, **changes):
    """Return a table of candidates, with one list of rewards per prompt; the reply at ``committed`` was played."""
    played_index = committed or [0] * len(process)
    turns = table_of_verdicts([[value] for rewards in process for value in rewards], **changes)
    prompts = [prompt for prompt, rewards in enumerate(process) for _ in rewards]
    is_played = [
        index == played_index[prompt] for prompt, rewards in enumerate(process) for index in range(len(rewards))
    ]
    return replace(turns, state_group=np.array(prompts), committed=np.array(is_played))


def test_vpr_candidates_by_hand():
    # prompt 0: 1, 0, 0: mean 1/3, deviation 3^-0.5; prompt 1: all equal; prompt 2: one reply
    turns = table_of_candidates([[1.0, 0.0, 0.0], [1.0, 1.0, 1.0], [1.0]])
    advantages = vpr(turns, baseline="candidates").advantages
    positive_advantage, negative_advantage = 2 / 3 * 3**0.5, -1 / 3 * 3**0.5
    assert advantages == pytest.approx(
        [positive_advantage, negative_advantage, negative_advantage, 0, 0, 0, 0], abs=1e-5
    )
    assert vpr(turns, baseline="candidates", divide_by_std=False, leave_one_out=True).advantages == pytest.approx(
        [1.0, -0.5, -0.5, 0, 0, 0, 0]
    )


@given(st.lists(st.lists(EIGHTHS, min_size=2, max_size=5), min_size=1, max_size=6), st.booleans(), st.booleans())
def test_vpr_candidates_of_one_prompt_are_a_group_of_one_turn(rewards, leave_one_out, divide_by_std):
    options = {"leave_one_out": leave_one_out, "divide_by_std": divide_by_std}
    turns = table_of_candidates(rewards)
    as_groups = replace(
        turns, group=turns.state_group, turn_index=np.zeros_like(turns.turn_index), state_group=None, committed=None
    )
    advantages = vpr(turns, baseline="candidates", **options).advantages
    assert advantages == pytest.approx(vpr(as_groups, **options).advantages)


def test_vpr_outcome_goes_to_the_replies_that_were_played():
    turns = table_of_candidates([[0.0, 0.0], [0.0, 0.0]], committed=[1, 0])
    turns = replace(turns, reward=np.array([0.0, 1.0, -1.0, 0.0]), role=np.zeros(4, dtype=int))
    advantages = vpr(turns, baseline="candidates", outcome=1.0, divide_by_std=False).advantages
    assert advantages.tolist() == [0.0, 1.0, -1.0, 0.0]


def test_vpr_candidates_without_verdicts_have_no_advantage():
    turns = table_of_candidates([[1.0, 0.0], [1.0, 0.0]], mask=[True, True, False, False])
    assert vpr(turns, baseline="candidates", divide_by_std=False).advantages.tolist() == [0.5, -0.5, 0.0, 0.0]


RELEASED = {"baseline": "candidates", "divide_by_std": False, "whiten": True, "equal": "mask", "epsilon": 1e-8}


def test_vpr_as_released_by_hand():
    # centred, the first prompt has 1, -1 and the third 2, -1, -1, with deviation (8/5)^0.5; the second has equal rewards
    turns = table_of_candidates([[2.0, 0.0], [0.5, 0.5, 0.5], [2.0, -1.0, -1.0]])
    credit = vpr(turns, **RELEASED)
    scale = (8 / 5) ** 0.5
    assert credit.advantages == pytest.approx(
        [1 / scale, -1 / scale, 0, 0, 0, 2 / scale, -1 / scale, -1 / scale], abs=1e-6
    )
    assert credit.trained.tolist() == [True] * 2 + [False] * 3 + [True] * 3
    assert credit.metrics == pytest.approx({"judged_share": 1.0, "equal_share": 1 / 3, "skipped_update": 0.0})
    assert bind("credit", "vpr", preset="as_released")(turns, {}).advantages == pytest.approx(
        credit.advantages, abs=1e-9
    )


@given(st.lists(st.lists(EIGHTHS, min_size=1, max_size=4), min_size=1, max_size=8))
def test_vpr_released_variant_equals_its_definition(rewards):
    turns = table_of_candidates(rewards)
    credit = vpr(turns, **RELEASED)
    centred_rewards = np.concatenate([np.array(group) - np.mean(group) for group in rewards])
    train = np.concatenate([[len(set(group)) > 1] * len(group) for group in rewards])
    assert credit.trained.tolist() == train.tolist()
    expected = np.zeros(len(centred_rewards))
    if train.any():
        expected[train] = (centred_rewards[train] - centred_rewards[train].mean()) / (
            centred_rewards[train].std() + 1e-8
        )
    assert credit.advantages == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("most", "trains"), [(1.0, True), (0.7, True), (2 / 3, True), (0.66, False), (0.0, False)])
def test_vpr_step_is_skipped_above_a_share_of_equal_groups(most, trains):
    turns = table_of_candidates([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    credit = vpr(turns, **RELEASED, skip_above=most)
    assert credit.trained.tolist() == [trains, trains, False, False, False, False]
    assert credit.metrics["skipped_update"] == float(not trains)


def test_vpr_whitening_without_masks_counts_equal_groups():
    turns = table_of_candidates([[2.0, 0.0], [1.0, 1.0]])
    credit = vpr(turns, baseline="candidates", divide_by_std=False, whiten=True)
    assert credit.advantages == pytest.approx([2**0.5, -(2**0.5), 0, 0], abs=1e-5) and credit.trained is None


def test_vpr_turns_without_verdicts_do_not_train():
    turns = replace(table_of_candidates([[1.0, 0.0], [5.0, 2.0]]), judged=np.array([True, True, False, False]))
    credit = vpr(turns, **RELEASED)
    assert credit.trained.tolist() == [True, True, False, False] and credit.advantages[2:].tolist() == [0, 0]
    assert credit.metrics["equal_share"] == 0.0 and credit.metrics["judged_share"] == 0.5
    without_verdicts = replace(turns, judged=None, components={"game": turns.reward})
    for options in (RELEASED, {"baseline": "candidates"}):
        with pytest.raises(CreditError, match="abstains on every turn"):
            vpr(without_verdicts, **options)
        credit = vpr(with_components(without_verdicts, ["best_action"]), **options)
        assert credit.metrics["judged_share"] == 0.0 and not credit.advantages.any()
    assert not vpr(with_components(without_verdicts, ["best_action"]), **RELEASED).trained.any()


def test_vpr_preset_by_turn_equals_the_defaults():
    turns = table_of_verdicts([[1.0, 1.0], [0.0, 1.0], [0.0, 0.0]])
    default_credit = bind("credit", "vpr", preset="by_turn")(turns, {})
    assert default_credit.advantages.tolist() == vpr(turns).advantages.tolist() and default_credit.trained is None


def test_vpr_masking_together_with_an_outcome_is_refused():
    with pytest.raises(CreditError, match="equal: keep"):
        vpr(table_of_candidates([[1.0, 0.0]]), **RELEASED, outcome=1.0)


def test_vpr_candidates_refuse_future_rewards_and_need_all_replies():
    with pytest.raises(CreditError, match="gamma: 0"):
        vpr(table_of_candidates([[1.0, 0.0]]), baseline="candidates", gamma=0.5)
    with pytest.raises(CreditError, match="candidates=True"):
        bind("credit", "vpr", {"baseline": "candidates"})(table_of_verdicts([[1.0], [0.0]]), {})
