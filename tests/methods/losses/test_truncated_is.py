import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.core.errors import ConfigError
from sparring.methods.losses.masked_is import masked_is
from sparring.methods.losses.truncated_is import truncated_is


def test_weights_are_capped_ratios_of_learner_to_sampler(make_batch):
    term = truncated_is(make_batch([0.0] * 3, old=[0.0, math.log(5.0), -1.0], sampler=[0.0, 0.0, 0.0]))
    assert term.level == "weight"
    assert term.values.tolist() == pytest.approx([1.0, 2.0, math.exp(-1)])
    assert term.metrics["weight_max"].item() == pytest.approx(5.0)
    assert term.metrics["capped_fraction"].item() == pytest.approx(1 / 3)
    assert not term.values.requires_grad


def test_same_engine_leaves_everything(make_batch):
    assert truncated_is(make_batch([-1.0, -2.0])).values.tolist() == [1.0, 1.0]


def test_cap_is_an_option(make_batch):
    batch = make_batch([0.0], old=[3.0], sampler=[0.0])
    assert truncated_is(batch, cap=10.0).values.item() == pytest.approx(10.0)
    with pytest.raises(ConfigError, match="cap=0"):
        truncated_is(batch, cap=0)


LOGPROBS = st.lists(st.tuples(st.floats(-30, 0), st.floats(-30, 0)), min_size=1, max_size=6)


@given(LOGPROBS, st.floats(0.01, 100))
def test_weights_are_the_ratio_up_to_the_cap_token_by_token(make_batch, rows, cap):
    weights = truncated_is(make_batch([0.0] * len(rows), old=[row[0] for row in rows], sampler=[row[1] for row in rows]), cap=cap).values
    expected = [min(math.exp(min(max(old - sampled, -20.0), 20.0)), cap) for old, sampled in rows]
    assert weights.tolist() == pytest.approx(expected)


@given(LOGPROBS, st.floats(0.01, 10), st.floats(1, 10))
def test_a_higher_cap_lowers_no_weight(make_batch, rows, cap, factor):
    batch = make_batch([0.0] * len(rows), old=[row[0] for row in rows], sampler=[row[1] for row in rows])
    assert (truncated_is(batch, cap=cap * factor).values >= truncated_is(batch, cap=cap).values).all()


@given(st.lists(st.tuples(st.floats(-5, 0), st.floats(-5, 0)), min_size=1, max_size=6))
def test_without_a_bound_in_reach_it_is_the_masked_ratio(make_batch, rows):
    batch = make_batch([0.0] * len(rows), old=[row[0] for row in rows], sampler=[row[1] for row in rows])
    whole = masked_is(batch, low=0.0, high=1e9, keep_ratio=True).values
    assert truncated_is(batch, cap=1e9).values.tolist() == whole.tolist()


@given(st.lists(st.floats(-3, 3), min_size=2, max_size=5), st.lists(st.floats(-3, 3), min_size=5, max_size=5))
def test_uncapped_weights_turn_the_samplers_mean_into_the_learners_and_a_cap_only_takes_away(make_batch, logits, others):
    learner, sampler = (_log_softmax(values) for values in (logits, others[: len(logits)]))
    batch = make_batch([0.0] * len(logits), old=learner, sampler=sampler)
    for cap, exact in ((1e9, True), (1.5, False)):
        mass = sum(math.exp(s) * w for s, w in zip(sampler, truncated_is(batch, cap=cap).values.tolist(), strict=True))
        assert mass == pytest.approx(1.0) if exact else mass <= 1.0 + 1e-9


def _log_softmax(values):
    total = math.log(sum(math.exp(value) for value in values))
    return [value - total for value in values]
