import dataclasses
import runpy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import table

from sparring.methods.credit.gae import gae
from sparring.methods.credit.vtrace import vtrace

BIAS = runpy.run_path(str(Path(__file__).with_name("test_bias.py")))


def stale(rewards, values, ratios):
    """A table whose turns today's policy takes with these ratios to the policy that played."""
    return dataclasses.replace(table(rewards, values=values), logprob=np.full(len(values), -3.0), old_logprob=np.log(ratios) - 3.0)


def random_turns(seed, spread=1.0):
    generator = np.random.Generator(np.random.Philox(seed))
    rewards = [generator.normal(size=generator.integers(1, 5)).tolist() for _ in range(6)]
    size = sum(map(len, rewards))
    return stale(rewards, generator.normal(size=size), np.exp(spread * generator.normal(size=size)))


def naive(turns, gamma, lam, rho_bar, c_bar):
    """The paper's sum over later steps, with its products written out."""
    targets, advantages = [], []
    for number in np.unique(turns.trajectory):
        own = turns.trajectory == number
        r, v, w = turns.reward[own], np.append(turns.value[own], 0.0), np.exp((turns.old_logprob - turns.logprob)[own])
        rho, c = np.minimum(w, rho_bar), lam * np.minimum(w, c_bar)
        v_s = [
            v[s] + sum(gamma ** (t - s) * np.prod(c[s:t]) * rho[t] * (r[t] + gamma * v[t + 1] - v[t]) for t in range(s, len(r)))
            for s in range(len(r))
        ] + [0.0]
        advantages += [rho[s] * (r[s] + gamma * v_s[s + 1] - v[s]) for s in range(len(r))]
        targets += v_s[:-1]
    return advantages, targets


def test_by_hand():
    """w = 2, 0.5: rho = c = 1, 0.5. v_1 = 1 + 0.5 (4 - 1) = 2.5; v_0 = 0 + (0 + 1 - 0) + (2.5 - 1) = 2.5."""
    credit = vtrace(stale([[0.0, 4.0]], [0.0, 1.0], [2.0, 0.5]))
    assert credit.value_targets == pytest.approx([2.5, 2.5])
    assert credit.advantages == pytest.approx([2.5, 1.5])
    assert credit.metrics == {"ratio_mean": pytest.approx(1.25), "truncated_share": 0.5}


@given(st.integers(0, 500), st.sampled_from([0.5, 1.0]), st.sampled_from([0.0, 0.7, 1.0]), st.sampled_from([(1.0, 1.0), (2.0, 0.5)]))
def test_equals_the_papers_sum(seed, gamma, lam, bars):
    turns = random_turns(seed)
    credit = vtrace(turns, gamma=gamma, lam=lam, rho_bar=bars[0], c_bar=bars[1])
    advantages, targets = naive(turns, gamma, lam, *bars)
    assert credit.advantages == pytest.approx(advantages)
    assert credit.value_targets == pytest.approx(targets)


@given(st.integers(0, 500), st.floats(0, 1))
def test_with_fresh_games_it_is_gae(seed, gamma):
    turns = random_turns(seed, spread=0.0)
    assert vtrace(turns, gamma=gamma).advantages == pytest.approx(gae(turns, gamma=gamma, lam=1.0).advantages)
    assert vtrace(turns, gamma=gamma, lam=0.6).value_targets == pytest.approx(gae(turns, gamma=gamma, lam=0.6).value_targets)


@pytest.mark.parametrize("values", [[4.0, -1.0], [0.0, 0.0]])
def test_fresh_games_give_the_exact_gradient_whatever_the_critic(values):
    def estimate(turns):
        zeros = np.zeros(len(turns.reward))
        return vtrace(dataclasses.replace(turns, logprob=zeros, old_logprob=zeros))

    assert BIAS["expected_gradient"](estimate, 1, values=values) == pytest.approx(BIAS["EXACT"])


def test_without_truncation_a_stale_decision_gives_todays_gradient():
    """One decision, played with q, today with p: the ratio turns the mean over q into that over p."""
    q, p = 0.7, 0.4
    total = 0.0
    for probability, ratio, reward, score in ((q, p / q, 1.0, 1 - p), (1 - q, (1 - p) / (1 - q), 5.0, -p)):
        total += probability * vtrace(stale([[reward]], [2.0], [ratio]), rho_bar=1e9).advantages[0] * score
    assert total == pytest.approx(p * (1 - p) * (1.0 - 5.0))


def test_the_policys_weight_may_be_left_to_the_loss():
    turns = stale([[4.0]], [1.0], [0.5])
    assert vtrace(turns).advantages == pytest.approx([1.5])
    assert vtrace(turns, weigh_policy=False).advantages == pytest.approx([3.0])


@given(st.integers(0, 500))
def test_a_lower_bar_for_traces_weakens_what_comes_later(seed):
    turns = random_turns(seed)
    one_step = vtrace(turns, lam=0.0)
    assert vtrace(turns, c_bar=1e-12).value_targets == pytest.approx(one_step.value_targets)


def test_huge_ratios_offsets_and_no_turns():
    wild = stale([[1.0, 1.0]], [0.0, 0.0], [1.0, 1.0])
    wild = dataclasses.replace(wild, old_logprob=np.array([1e4, -1e4]))
    assert np.isfinite(vtrace(wild, rho_bar=1e12, c_bar=1e12).advantages).all()
    assert vtrace(stale([[0.0, 1e6]], [1e6, 1e6], [1.0, 1.0])).advantages == pytest.approx([0.0, 0.0])
    empty = vtrace(stale([], [], np.zeros(0)))
    assert empty.advantages.shape == empty.value_targets.shape == (0,)
