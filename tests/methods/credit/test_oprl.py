import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.credit.tables import table

from sparring.config.plugins.registry import bind
from sparring.core.errors import CreditError
from sparring.methods.credit.grpo import grpo
from sparring.methods.credit.oprl import oprl
from sparring.methods.credit.rloo import rloo

NEWER = {"process": "process_logprob", "policy": "old_logprob"}
OLDER = {"process": "old_logprob", "policy": "reference_logprob"}
MODELS = st.sampled_from(sorted(NEWER))


def trained(rewards, gains, model="process", **options):
    """A table of turns that the model finds likelier by these log-ratios; the columns that it does not read are missing."""
    columns = {NEWER[model]: np.array(gains, dtype=np.float64) - 2.0, OLDER[model]: np.full(len(gains), -2.0)}
    return dataclasses.replace(table(rewards, **options), **columns)


def test_what_each_model_needs():
    assert bind("credit", "oprl").needs == {"old_logprob", "process_logprob"}
    assert bind("credit", "oprl", preset="policy").needs == {"old_logprob", "reference_logprob"}


def random_turns(seed, model="process"):
    generator = np.random.Generator(np.random.Philox(seed))
    rewards = [generator.normal(size=generator.integers(1, 5)).tolist() for _ in range(8)]
    roles = generator.integers(0, 2, 8).tolist()
    return trained(rewards, generator.normal(size=sum(map(len, rewards))), model, groups=[0, 0, 0, 0, 0, 1, 1, 2], roles=roles)


def naive(turns, model, beta, alpha, form):
    def against(value, pool):
        others = list(pool)
        others.remove(value)
        if not others:
            return 0.0
        return value - np.mean(others) if form == "rloo" else (value - np.mean(pool)) / (np.std(pool, ddof=1) + 1e-6)

    key = list(zip(turns.group, turns.role, strict=True))
    step = [beta * (a - b) for a, b in zip(getattr(turns, NEWER[model]), getattr(turns, OLDER[model]), strict=True)]
    totals = {number: sum(turns.reward[turns.trajectory == number]) for number in np.unique(turns.trajectory)}
    of = {number: key[int(np.argmax(turns.trajectory == number))] for number in totals}
    result = []
    for row, number in enumerate(turns.trajectory):
        episode = against(totals[number], [totals[other] for other in totals if of[other] == key[row]])
        result.append(episode + alpha * against(step[row], [s for s, k in zip(step, key, strict=True) if k == key[row]]))
    return result


@pytest.mark.parametrize("model", NEWER)
def test_by_hand(model):
    """Returns 1 and 0; step rewards .5, .1 and 0 against the mean of the other two."""
    turns = trained([[0.0, 1.0], [0.0]], [5.0, 1.0, 0.0], model, groups=[0, 0])
    credit = oprl(turns, model=model, beta=0.1, alpha=2.0)
    assert credit.advantages == pytest.approx([1 + 2 * 0.45, 1 - 2 * 0.15, -1 - 2 * 0.3])
    assert credit.metrics == {"step_reward_mean": pytest.approx(0.2), "step_reward_std": pytest.approx(np.std([0.5, 0.1, 0.0]))}


@given(st.integers(0, 500), MODELS, st.sampled_from([0.05, 1.0]), st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from(["rloo", "grpo"]))
def test_equals_plain_loops(seed, model, beta, alpha, form):
    turns = random_turns(seed, model)
    expected = naive(turns, model, beta, alpha, form)
    assert oprl(turns, model=model, beta=beta, alpha=alpha, form=form).advantages == pytest.approx(expected, abs=1e-8)


@given(st.integers(0, 500), MODELS)
def test_without_step_rewards_it_is_the_plain_estimator(seed, model):
    turns = random_turns(seed, model)
    start = dataclasses.replace(turns, **{NEWER[model]: getattr(turns, OLDER[model])})  # before the first update
    for form, plain in (("rloo", rloo), ("grpo", grpo)):
        expected = plain(turns).advantages
        assert oprl(turns, model=model, alpha=0.0, form=form).advantages == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert oprl(start, model=model, form=form).advantages == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(st.integers(0, 500), MODELS, st.floats(-100, 100))
def test_a_reference_that_is_likelier_everywhere_changes_nothing(seed, model, shift):
    turns = random_turns(seed, model)
    moved = dataclasses.replace(turns, **{OLDER[model]: getattr(turns, OLDER[model]) + shift})
    assert oprl(moved, model=model).advantages == pytest.approx(oprl(turns, model=model).advantages, abs=1e-9)


def test_beta_matters_in_one_form_only():
    turns = trained([[1.0], [1.0], [1.0]], [5.0, 1.0, 0.0], groups=[0, 0, 0])
    small, large = (oprl(turns, beta=beta).advantages for beta in (0.1, 1.0))
    assert large == pytest.approx(10 * small)
    small, large = (oprl(turns, beta=beta, form="grpo").advantages for beta in (0.1, 1.0))
    assert large == pytest.approx(small, rel=1e-4)


@pytest.mark.parametrize("form", ["rloo", "grpo"])
def test_all_equal_one_member_offsets_and_no_turns(form):
    same = trained([[1e6], [1e6]], [0.3, 0.3], groups=[0, 0])
    assert oprl(same, form=form).advantages == pytest.approx([0.0, 0.0])
    assert oprl(trained([[1e6]], [0.3]), form=form).advantages.tolist() == [0.0]
    assert oprl(trained([], []), form=form).advantages.shape == (0,)


def test_what_is_missing_is_named():
    with pytest.raises(CreditError, match=r"'process_logprob'.*only a run trains.*preset policy"):
        bind("credit", "oprl")(dataclasses.replace(trained([[1.0]], [1.0]), process_logprob=None), {})
