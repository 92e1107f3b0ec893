import dataclasses
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import EIGHTHS, table

from sparring.config import resolve
from sparring.core.errors import ConfigError, MissingError
from sparring.methods.credit.bi_level_gae import bi_level_gae
from sparring.methods.credit.gae import gae
from sparring.methods.credit.hiper import hiper
from sparring.methods.credit.mars import mars
from sparring.methods.credit.spa import spa
from sparring.methods.credit.vine_ppo import vine_ppo
from sparring.methods.credit.vtrace import vtrace
from sparring.ops.groups import discounted_returns, whiten_values


def test_gae_by_hand():
    turns = table([[0.0, 0.0, 1.0], [-1.0]], values=[0.1, 0.2, 0.3, -0.5], seats=[0, 1])
    delta = [0.9 * 0.2 - 0.1, 0.9 * 0.3 - 0.2, 1 - 0.3, -1 + 0.5]
    second_advantage = delta[1] + 0.45 * delta[2]
    expected = [delta[0] + 0.45 * second_advantage, second_advantage, delta[2], delta[3]]
    credit = gae(turns, gamma=0.9, lam=0.5)
    assert credit.advantages == pytest.approx(expected)
    assert credit.value_targets == pytest.approx(np.array(expected) + np.array([0.1, 0.2, 0.3, -0.5]))


@given(st.lists(st.lists(st.floats(-10, 10), min_size=1, max_size=5), min_size=1, max_size=5), st.floats(0, 1))
def test_gae_with_lambda_one_and_no_critic_is_the_return(rewards, gamma):
    turns = table(rewards, values=[0.0] * sum(map(len, rewards)))
    expected = discounted_returns(turns.reward, turns.trajectory, gamma=gamma)
    assert gae(turns, gamma=gamma, lam=1.0).advantages == pytest.approx(expected, abs=1e-9)


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=6))
def test_with_a_perfect_critic_gae_is_0(rewards):
    values = np.cumsum(rewards[::-1])[::-1]
    assert gae(table([rewards], values=values), lam=0.7).advantages == pytest.approx(np.zeros(len(rewards)), abs=1e-9)


def test_whitening_in_gae_changes_neither_targets_nor_a_single_turn():
    turns = table([[1.0, 2.0], [4.0]], values=[0.5, 0.5, 0.5])
    credit = gae(turns, whiten=True)
    assert (credit.advantages.mean(), credit.advantages.std(ddof=1)) == (
        pytest.approx(0, abs=1e-9),
        pytest.approx(1, abs=1e-6),
    )
    assert credit.value_targets == pytest.approx(gae(turns).value_targets)
    assert gae(table([[3.0]], values=[1.0]), whiten=True).advantages.tolist() == [2.0]


def test_gae_default_gamma_is_1_and_default_lambda_is_095():
    turns = table([[0.0, 1.0]], values=[0.25, 0.5])
    assert gae(turns).advantages == pytest.approx([0.25 + 0.95 * 0.5, 0.5])


def table_with_ratios(rewards, values, ratios):
    """Return a table with these probability ratios of the current policy to the sampling policy."""
    return dataclasses.replace(
        table(rewards, values=values), logprob=np.full(len(values), -3.0), old_logprob=np.log(ratios) - 3.0
    )


def vtrace_random_turns(seed, spread=1.0):
    generator = np.random.Generator(np.random.Philox(seed))
    rewards = [generator.normal(size=generator.integers(1, 5)).tolist() for _ in range(6)]
    size = sum(map(len, rewards))
    return table_with_ratios(rewards, generator.normal(size=size), np.exp(spread * generator.normal(size=size)))


def vtrace_by_loops(turns, gamma, lam, rho_bar, c_bar):
    targets, advantages = [], []
    for number in np.unique(turns.trajectory):
        mask = turns.trajectory == number
        rewards, values, ratios = (
            turns.reward[mask],
            np.append(turns.value[mask], 0.0),
            np.exp((turns.old_logprob - turns.logprob)[mask]),
        )
        clipped_ratios, traces = np.minimum(ratios, rho_bar), lam * np.minimum(ratios, c_bar)
        v_s = [
            values[s]
            + sum(
                gamma ** (t - s)
                * np.prod(traces[s:t])
                * clipped_ratios[t]
                * (rewards[t] + gamma * values[t + 1] - values[t])
                for t in range(s, len(rewards))
            )
            for s in range(len(rewards))
        ] + [0.0]
        advantages += [clipped_ratios[s] * (rewards[s] + gamma * v_s[s + 1] - values[s]) for s in range(len(rewards))]
        targets += v_s[:-1]
    return advantages, targets


def test_vtrace_by_hand():
    """Ratios 2 and 0.5 are clipped to 1 and 0.5. v_1 = 1 + 0.5 (4 - 1) = 2.5; v_0 = 0 + (0 + 1 - 0) + (2.5 - 1) = 2.5."""
    credit = vtrace(table_with_ratios([[0.0, 4.0]], [0.0, 1.0], [2.0, 0.5]))
    assert credit.value_targets == pytest.approx([2.5, 2.5])
    assert credit.advantages == pytest.approx([2.5, 1.5])
    assert credit.metrics == {"ratio_mean": pytest.approx(1.25), "truncated_share": 0.5}


@given(
    st.integers(0, 500),
    st.sampled_from([0.5, 1.0]),
    st.sampled_from([0.0, 0.7, 1.0]),
    st.sampled_from([(1.0, 1.0), (2.0, 0.5)]),
)
def test_vtrace_equals_the_sum_of_the_paper(seed, gamma, lam, bars):
    turns = vtrace_random_turns(seed)
    credit = vtrace(turns, gamma=gamma, lam=lam, rho_bar=bars[0], c_bar=bars[1])
    advantages, targets = vtrace_by_loops(turns, gamma, lam, *bars)
    assert credit.advantages == pytest.approx(advantages)
    assert credit.value_targets == pytest.approx(targets)


@given(st.integers(0, 500), st.floats(0, 1))
def test_with_fresh_games_vtrace_is_gae(seed, gamma):
    turns = vtrace_random_turns(seed, spread=0.0)
    assert vtrace(turns, gamma=gamma).advantages == pytest.approx(gae(turns, gamma=gamma, lam=1.0).advantages)
    assert vtrace(turns, gamma=gamma, lam=0.6).value_targets == pytest.approx(
        gae(turns, gamma=gamma, lam=0.6).value_targets
    )


def test_vtrace_with_unclipped_ratios_gives_the_exact_gradient_from_stale_data():
    """One decision sampled with probability q, now p: the ratio turns the mean under q into the mean under p."""
    q, p = 0.7, 0.4
    total = 0.0
    for probability, ratio, reward, score in ((q, p / q, 1.0, 1 - p), (1 - q, (1 - p) / (1 - q), 5.0, -p)):
        total += probability * vtrace(table_with_ratios([[reward]], [2.0], [ratio]), rho_bar=1e9).advantages[0] * score
    assert total == pytest.approx(p * (1 - p) * (1.0 - 5.0))


def test_vtrace_importance_weight_can_be_left_to_the_loss():
    turns = table_with_ratios([[4.0]], [1.0], [0.5])
    assert vtrace(turns).advantages == pytest.approx([1.5])
    assert vtrace(turns, weigh_policy=False).advantages == pytest.approx([3.0])


def test_vtrace_with_huge_ratios_and_offsets():
    extreme_turns = table_with_ratios([[1.0, 1.0]], [0.0, 0.0], [1.0, 1.0])
    extreme_turns = dataclasses.replace(extreme_turns, old_logprob=np.array([1e4, -1e4]))
    assert np.isfinite(vtrace(extreme_turns, rho_bar=1e12, c_bar=1e12).advantages).all()
    assert vtrace(table_with_ratios([[0.0, 1e6]], [1e6, 1e6], [1.0, 1.0])).advantages == pytest.approx([0.0, 0.0])


def hiper_random_turns(seed):
    generator = np.random.Generator(np.random.Philox(seed))
    rewards = [generator.normal(size=generator.integers(1, 8)).tolist() for _ in range(5)]
    size = sum(map(len, rewards))
    turns = table(rewards, values=generator.normal(size=size))
    return dataclasses.replace(turns, view=generator.integers(0, 2, size))


def hiper_by_loops(turns, is_opening, gamma, lam_turn, lam_segment):
    turn_advantages, segment_advantages = np.zeros(len(turns.reward)), np.full(len(turns.reward), np.nan)
    for number in np.unique(turns.trajectory):
        rows = np.flatnonzero(turns.trajectory == number)
        segment_starts = [row for row in rows if is_opening(row)]
        value_after, high_after = 0.0, 0.0
        for begin, end in reversed(list(zip(segment_starts, [*segment_starts[1:], rows[-1] + 1], strict=True))):
            next_advantage = 0.0
            for row in reversed(range(begin, end)):
                next_value = value_after if row == end - 1 else turns.value[row + 1]
                next_advantage = (
                    turns.reward[row] + gamma * next_value - turns.value[row] + gamma * lam_turn * next_advantage
                )
                turn_advantages[row] = next_advantage
            earned = sum(gamma ** (row - begin) * turns.reward[row] for row in range(begin, end))
            factor = gamma ** (end - begin)
            high_after = earned + factor * value_after - turns.value[begin] + factor * lam_segment * high_after
            segment_advantages[begin], value_after = high_after, turns.value[begin]
    return turn_advantages, segment_advantages


def test_hiper_by_hand_with_one_critic():
    """Turn advantages are .2, .1, .7 and .6; segment advantages are 0 + .3 - .1 + .7 = .9 and .7.

    The first turn of a segment gets the mean of both.
    """
    turns = table([[0.0, 0.0, 0.0, 1.0]], values=[0.1, 0.2, 0.3, 0.4])
    credit = hiper(turns, segment_turns=2, lam_turn=1.0, lam_segment=1.0, normalise=False)
    assert credit.advantages == pytest.approx([0.55, 0.1, 0.7, 0.6])
    assert credit.value_targets == pytest.approx([0.65, 0.3, 1.0, 1.0])
    assert credit.metrics == {"segment_turns": 2.0}


@given(
    st.integers(0, 500), st.integers(1, 4), st.sampled_from([0.5, 1.0]), st.sampled_from([0.0, 0.7, 1.0]), st.booleans()
)
def test_hiper_equals_plain_loops(seed, length, gamma, lam, by_view):
    turns = hiper_random_turns(seed)

    def is_opening(row):
        is_first_turn = turns.turn_index[row] == 0
        return is_first_turn or (
            turns.view[row] != turns.view[row - 1] if by_view else turns.turn_index[row] % length == 0
        )

    low, high = hiper_by_loops(turns, is_opening, gamma, lam, 0.8)
    options = {
        "segments": "view" if by_view else "turns",
        "segment_turns": length,
        "gamma": gamma,
        "lam_turn": lam,
        "lam_segment": 0.8,
    }
    credit = hiper(turns, high_share=0.25, normalise=False, **options)
    expected = np.where(np.isnan(high), low, 0.75 * low + 0.25 * np.nan_to_num(high))
    assert credit.advantages == pytest.approx(expected)
    assert credit.value_targets == pytest.approx(expected + turns.value)


@given(st.integers(0, 500), st.floats(0, 1), st.floats(0, 1))
def test_one_segment_or_segments_of_one_turn_are_gae(seed, gamma, lam):
    turns = hiper_random_turns(seed)
    gae_credit = gae(turns, gamma=gamma, lam=lam)
    one_segment = hiper(turns, segment_turns=100, high_share=0.0, gamma=gamma, lam_turn=lam, normalise=False)
    one_turn_segments = hiper(turns, segment_turns=1, high_share=1.0, gamma=gamma, lam_segment=lam, normalise=False)
    for credit in (one_segment, one_turn_segments):
        assert credit.advantages == pytest.approx(gae_credit.advantages)
        assert credit.value_targets == pytest.approx(gae_credit.value_targets)


def test_each_level_of_hiper_is_normalised_separately():
    turns = hiper_random_turns(1)
    turn_level = hiper(turns, high_share=0.0).advantages
    assert turn_level.mean() == pytest.approx(0.0, abs=1e-12)
    assert turn_level.std(ddof=1) == pytest.approx(1.0, rel=1e-5)
    is_opening = turns.turn_index % 3 == 0
    segment_level = hiper(turns, high_share=1.0).advantages
    assert segment_level[is_opening].mean() == pytest.approx(0.0, abs=1e-12)
    assert segment_level[is_opening].std(ddof=1) == pytest.approx(1.0, rel=1e-5)
    assert np.array_equal(segment_level[~is_opening], turn_level[~is_opening])
    assert np.array_equal(hiper(turns).value_targets, hiper(turns, normalise=False).value_targets)


def test_hiper_of_equal_turns_or_one_turn_is_0_and_ignores_offsets():
    assert hiper(table([[1.0], [1.0]], values=[0.0, 0.0])).advantages.tolist() == [0.0, 0.0]
    assert hiper(table([[1.0]], values=[0.25]), normalise=False).advantages.tolist() == [0.75]
    assert hiper(table([[0.0, 1e6]], values=[1e6, 1e6])).advantages == pytest.approx([0.0, 0.0])
    assert hiper(
        dataclasses.replace(table([], values=[]), view=np.zeros(0, dtype=int)), segments="view"
    ).advantages.shape == (0,)


def table_with_tokens(rewards, tokens, values):
    return dataclasses.replace(table(rewards, tokens=tokens), token_value=np.array(values, dtype=np.float64))


def bi_level_gae_random_turns(seed, longest=4):
    generator = np.random.Generator(np.random.Philox(seed))
    rewards = [generator.normal(size=generator.integers(1, 4)).tolist() for _ in range(5)]
    tokens = generator.integers(1, longest + 1, sum(map(len, rewards)))
    return table_with_tokens(rewards, tokens, generator.normal(size=tokens.sum()))


def bi_level_gae_by_loops(turns, gamma_turn, lam_turn, gamma_token, lam_token):
    first_tokens = np.cumsum(turns.n_tokens) - turns.n_tokens
    values = [turns.token_value[b : b + n] for b, n in zip(first_tokens, turns.n_tokens, strict=True)]
    advantages = [np.zeros(n) for n in turns.n_tokens]
    for turn in reversed(range(len(values))):
        next_value, next_advantage = (
            (0.0, 0.0) if turns.done[turn] else (values[turn + 1][-1], advantages[turn + 1][-1])
        )
        advantages[turn][-1] = (
            turns.reward[turn] + gamma_turn * next_value - values[turn][-1] + gamma_turn * lam_turn * next_advantage
        )
        for token in reversed(range(len(values[turn]) - 1)):
            advantages[turn][token] = (
                gamma_token * values[turn][token + 1]
                - values[turn][token]
                + gamma_token * lam_token * advantages[turn][token + 1]
            )
    return np.concatenate(advantages)


def test_bi_level_gae_by_hand():
    """Two turns of two tokens: A[1] = 4 - 1 = 3, A[0] = 0.5 * 1 - 2 + 0.5 * 3 = 0; first tokens 1 - 3 + 3 and 2 - 1."""
    credit = bi_level_gae(table_with_tokens([[0.0, 4.0]], [2, 2], [1.0, 2.0, 3.0, 1.0]), gamma_turn=0.5)
    assert credit.advantages == pytest.approx([1.0, 0.0, 1.0, 3.0])
    assert credit.value_targets == pytest.approx([2.0, 2.0, 4.0, 4.0])
    assert credit.level == "token"


@given(st.integers(0, 500), st.tuples(*[st.sampled_from([0.0, 0.6, 1.0])] * 4))
def test_bi_level_gae_equals_plain_loops(seed, decays):
    turns = bi_level_gae_random_turns(seed)
    names = ("gamma_turn", "lam_turn", "gamma_token", "lam_token")
    credit = bi_level_gae(turns, **dict(zip(names, decays, strict=True)))
    assert credit.advantages == pytest.approx(bi_level_gae_by_loops(turns, *decays))
    assert credit.value_targets == pytest.approx(credit.advantages + turns.token_value)


@given(st.integers(0, 500), st.floats(0, 1), st.floats(0, 1))
def test_with_replies_of_one_token_bi_level_gae_is_gae_over_turns(seed, gamma, lam):
    turns = bi_level_gae_random_turns(seed, longest=1)
    credit = bi_level_gae(turns, gamma_turn=gamma, lam_turn=lam)
    gae_credit = gae(dataclasses.replace(turns, value=turns.token_value), gamma=gamma, lam=lam)
    assert np.array_equal(credit.advantages, gae_credit.advantages)
    assert np.array_equal(credit.value_targets, gae_credit.value_targets)


def test_bi_level_gae_whitening_does_not_change_the_targets_of_the_critic():
    turns = bi_level_gae_random_turns(3)
    unwhitened, whitened = bi_level_gae(turns), bi_level_gae(turns, whiten=True)
    assert whitened.advantages.mean() == pytest.approx(0.0, abs=1e-12)
    assert whitened.advantages.std(ddof=1) == pytest.approx(1.0)
    assert np.array_equal(unwhitened.value_targets, whitened.value_targets)


def test_bi_level_gae_of_equal_tokens_and_one_token():
    assert bi_level_gae(table_with_tokens([[1e6], [1e6]], [2, 1], [1e6] * 3), whiten=True).advantages == pytest.approx(
        [0.0] * 3
    )
    assert bi_level_gae(table_with_tokens([[1.0]], [1], [0.5]), whiten=True).advantages.tolist() == [0.5]


def test_bi_level_gae_reward_of_a_turn_without_tokens_counts_for_the_previous_turn():
    # the last turn of the first trajectory and the first of the second have no tokens
    with_empty_turns = table_with_tokens(
        [[1.0, 2.0, 4.0], [8.0, 16.0], [5.0]], [2, 1, 0, 0, 1, 0], [0.5, 0.25, 1.0, 2.0]
    )
    without_empty_turns = table_with_tokens([[1.0, 6.0], [16.0]], [2, 1, 1], [0.5, 0.25, 1.0, 2.0])
    options = {"gamma_turn": 0.9, "lam_turn": 0.8, "gamma_token": 0.7, "lam_token": 0.6}
    credit, expected = (bi_level_gae(turns, **options) for turns in (with_empty_turns, without_empty_turns))
    assert credit.advantages == pytest.approx(expected.advantages)
    assert credit.value_targets == pytest.approx(expected.value_targets)
    assert bi_level_gae(table_with_tokens([[1.0], [2.0]], [0, 0], [])).advantages.shape == (0,)


def table_with_contributions(rewards, contributions, **options):
    return dataclasses.replace(table(rewards, **options), value_after=np.array(contributions, dtype=np.float64))


def spa_random_turns(seed):
    generator = np.random.Generator(np.random.Philox(seed))
    rewards = [generator.normal(size=generator.integers(1, 5)).tolist() for _ in range(6)]
    turns = table_with_contributions(rewards, generator.normal(size=sum(map(len, rewards))), groups=[0, 0, 0, 1, 1, 2])
    return dataclasses.replace(turns, legal=generator.random(len(turns.reward)) < 0.7)


def test_spa_by_hand():
    """Contributions .2 and .5 of a return of 1: .3 are missing from each target. The second turn was illegal."""
    turns = dataclasses.replace(table_with_contributions([[0.0, 1.0]], [0.2, 0.5]), legal=np.array([True, False]))
    credit = spa(turns)
    assert credit.advantages == pytest.approx([1.2, 0.5])
    assert credit.value_targets == pytest.approx([0.5, 0.8])
    assert credit.metrics == {"attribution_error": pytest.approx(0.3)}


@given(st.integers(0, 500), st.sampled_from([0.5, 1.0]), st.sampled_from([0.0, 0.5]), st.booleans())
def test_spa_equals_plain_loops(seed, gamma, grounding, with_baseline):
    turns = spa_random_turns(seed)
    rows = [np.flatnonzero(turns.trajectory == index) for index in range(6)]
    step = [c + (grounding if legal else 0.0) for c, legal in zip(turns.value_after, turns.legal, strict=True)]
    totals = [sum(step[row] for row in members) for members in rows]
    expected = []
    for index, members in enumerate(rows):
        peer_returns = [
            totals[j] for j in range(6) if j != index and turns.group[rows[j][0]] == turns.group[members[0]]
        ]
        baseline = (np.mean(peer_returns) if peer_returns else totals[index]) if with_baseline else 0.0
        expected += [sum(gamma ** (k - t) * step[k] for k in members if k >= t) - baseline for t in members]
    credit = spa(turns, gamma=gamma, grounding=grounding, baseline="group" if with_baseline else "none")
    assert credit.advantages == pytest.approx(expected, abs=1e-9)
    shortfalls = [turns.reward[members].sum() - turns.value_after[members].sum() for members in rows]
    targets = [turns.value_after[row] + shortfalls[index] for index, members in enumerate(rows) for row in members]
    assert credit.value_targets == pytest.approx(targets, abs=1e-9)


@given(st.integers(0, 500))
def test_with_contributions_equal_to_rewards_spa_gives_returns_to_go(seed):
    turns = spa_random_turns(seed)
    turns = dataclasses.replace(turns, value_after=turns.reward)
    credit = spa(turns, grounding=0.0)
    assert credit.advantages - credit.advantages.mean() == pytest.approx(mars(turns).advantages, abs=1e-9)
    assert credit.value_targets == pytest.approx(turns.reward)


def test_spa_of_equal_turns_one_member_and_offsets():
    for turns in (
        table_with_contributions([[1.0], [1.0]], [0.5, 0.5], groups=[0, 0]),
        table_with_contributions([[1.0]], [0.5]),
    ):
        assert not spa(turns, baseline="group").advantages.any()
    large_offset = spa(table_with_contributions([[0.0, 1e6]], [1e6, 1.0]), grounding=0.0)
    assert large_offset.advantages == pytest.approx([1e6 + 1, 1.0])
    assert large_offset.value_targets == pytest.approx([1e6 - 1, 0.0])


PLAYS = st.lists(
    st.lists(st.tuples(EIGHTHS, EIGHTHS, EIGHTHS, EIGHTHS), min_size=1, max_size=4), min_size=1, max_size=6
)


def table_with_values(payoffs, before, after, shaping=None, **columns):
    """Return a table of payoffs with the value of the game before and after every turn."""
    turns = table(payoffs, **columns)
    other_rewards = np.zeros(len(turns.reward)) if shaping is None else np.array(shaping)
    components = {"game": turns.reward, "best_action": other_rewards}
    return replace(
        turns,
        reward=turns.reward + other_rewards,
        components=components,
        playout_before=np.array(before),
        playout=np.array(after),
    )


def test_vine_ppo_by_hand():
    # two episodes with final rewards 1 and 0; V of the initial state is 1/2, after the first turns 3/4 and 1/4
    turns = table_with_values([[0.0, 1.0], [0.0, 0.0]], [0.5, 0.75, 0.5, 0.25], [0.75, 1.0, 0.25, 0.0])
    assert vine_ppo(turns, whiten=False).advantages.tolist() == [0.25, 0.25, -0.25, -0.25]
    # to go: V(s') is 3/4, 0, 1/4, 0 and V(s) is 1/2, 3/4, 1/2, 1/4
    assert vine_ppo(turns, gamma=0.5, whiten=False).advantages.tolist() == [-0.125, 0.25, -0.375, -0.25]


def test_vine_ppo_whitening_counts_a_turn_once_per_token():
    turns = table_with_values([[0.0, 1.0], [0.0]], [0.5, 0.75, 0.5], [0.75, 1.0, 0.0], tokens=[1, 3, 2])
    raw_values = np.repeat(vine_ppo(turns, whiten=False).advantages, [1, 3, 2])
    whitened_values = np.repeat(vine_ppo(turns).advantages, [1, 3, 2])
    assert whitened_values == pytest.approx((raw_values - raw_values.mean()) / raw_values.std(ddof=1), abs=1e-6)


@given(PLAYS, st.sampled_from([0.0, 0.5, 1.0]))
def test_vine_ppo_equals_its_definition(plays, gamma):
    payoffs = [[turn[0] for turn in play] for play in plays]
    flat_turns = [turn for play in plays for turn in play]
    turns = table_with_values(
        payoffs, [turn[1] for turn in flat_turns], [turn[2] for turn in flat_turns], [turn[3] for turn in flat_turns]
    )
    expected = []
    for play in plays:
        payoff_so_far = 0.0
        for payoff, value_before, value_after, shaping in play:
            expected.append(
                payoff + shaping + gamma * (value_after - payoff_so_far - payoff) - (value_before - payoff_so_far)
            )
            payoff_so_far += payoff
    assert vine_ppo(turns, gamma=gamma, whiten=False).advantages == pytest.approx(expected, abs=1e-9)


def test_vine_ppo_equal_value_differences_give_exactly_zero():
    turns = table_with_values([[0.0], [0.0]], [0.1, 0.3], [0.3, 0.5])
    assert vine_ppo(turns).advantages.tolist() == [0.0, 0.0]
    assert whiten_values(np.array([1.0]), np.array([1.0]), 1.0).tolist() == [0.0]


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({}, MissingError, "rollout.playouts: 4"),
        ({"rollout": {"playouts": 2}, "outcome_weight": 0.5}, ConfigError, "outcome_weight"),
        (
            {"rollout": {"playouts": 2}, "environments": [{"name": "kuhn_poker", "scale": 2.0}]},
            ConfigError,
            "the scale of 'kuhn_poker'",
        ),
    ],
)
def test_vine_ppo_invalid_configurations_are_refused_before_a_run(changes, error, words):
    with pytest.raises(error, match=words):
        resolve({"environments": [{"name": "kuhn_poker"}], "credit": {"name": "vine_ppo"}, **changes})
