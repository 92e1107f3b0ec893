import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.methods.losses.log_ratio_clip import log_ratio_clip
from sparring.methods.losses.masked_is import masked_is
from sparring.methods.losses.policy_gradient import policy_gradient
from sparring.methods.losses.ppo_clip import ppo_clip
from sparring.methods.losses.probability_mask import probability_mask
from sparring.methods.losses.truncated_is import truncated_is

RATIOS = [0.4, 0.5 + 1e-9, 1.0, 2.0 - 1e-9, 2.1]


def masked_is_batch_of(make_batch, ratios):
    return make_batch(
        [0.0] * len(ratios), old_logprobs=[math.log(ratio) for ratio in ratios], sampler=[0.0] * len(ratios)
    )


def test_masked_is_by_hand(make_batch):
    term = masked_is(masked_is_batch_of(make_batch, RATIOS))
    assert (term.level, term.values.tolist()) == ("weight", [0.0, 1.0, 1.0, 1.0, 0.0])
    assert term.metrics["masked_fraction"].item() == pytest.approx(0.4)
    assert (term.metrics["weight_min"].item(), term.metrics["weight_max"].item()) == (
        pytest.approx(0.4),
        pytest.approx(2.1),
    )
    assert not term.values.requires_grad


def test_options_of_masked_is(make_batch):
    batch = masked_is_batch_of(make_batch, [*RATIOS, 6.0])
    assert masked_is(batch, low=0.0, high=3.0).values.tolist() == [1.0] * 5 + [0.0]
    assert masked_is(batch, low=0.9).values.tolist() == [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]
    icepop = bind("losses", "masked_is", preset="icepop")
    assert icepop(batch).values.tolist() == pytest.approx([0.0, 0.5, 1.0, 2.0, 2.1, 0.0])


@given(st.lists(st.floats(0.01, 50), min_size=1, max_size=8))
def test_within_the_bounds_kept_ratios_are_those_of_truncated_is(make_batch, ratios):
    batch = masked_is_batch_of(make_batch, ratios)
    mask, ratio = masked_is(batch).values, masked_is(batch, keep_ratio=True).values
    assert torch.equal(ratio, mask * truncated_is(batch, cap=1e9).values)
    assert torch.equal(mask, mask**2)


def test_masked_is_equal_probabilities_keep_every_token(make_batch):
    assert masked_is(make_batch([-1.0, -2.0])).values.tolist() == [1.0, 1.0]


def test_truncated_is_weights_are_capped_ratios_of_learner_to_sampler(make_batch):
    term = truncated_is(make_batch([0.0] * 3, old_logprobs=[0.0, math.log(5.0), -1.0], sampler=[0.0, 0.0, 0.0]))
    assert term.level == "weight"
    assert term.values.tolist() == pytest.approx([1.0, 2.0, math.exp(-1)])
    assert term.metrics["weight_max"].item() == pytest.approx(5.0)
    assert term.metrics["capped_fraction"].item() == pytest.approx(1 / 3)
    assert not term.values.requires_grad


def test_truncated_is_cap_is_an_option(make_batch):
    assert truncated_is(make_batch([0.0], old_logprobs=[3.0], sampler=[0.0]), cap=10.0).values.item() == pytest.approx(
        10.0
    )


LOGPROBS = st.lists(st.tuples(st.floats(-30, 0), st.floats(-30, 0)), min_size=1, max_size=6)


@given(LOGPROBS, st.floats(0.01, 100))
def test_truncated_is_weights_are_the_ratio_up_to_the_cap_token_by_token(make_batch, rows, cap):
    weights = truncated_is(
        make_batch(
            [0.0] * len(rows),
            old_logprobs=[row[0] for row in rows],
            sampler=[row[1] for row in rows],
        ),
        cap=cap,
    ).values
    expected = [min(math.exp(min(max(logprob - sampled, -20.0), 20.0)), cap) for logprob, sampled in rows]
    assert weights.tolist() == pytest.approx(expected)


P = st.floats(1e-6, 1.0)


def probability_mask_batch_of(make_batch, probabilities):
    return make_batch([0.0] * len(probabilities), old_logprobs=[math.log(p) for p in probabilities])


def test_probability_mask_by_hand(make_batch):
    term = probability_mask(probability_mask_batch_of(make_batch, [1.0, 0.91, 0.89, 0.1]))
    assert (term.level, term.values.tolist()) == ("weight", [0.0, 0.0, 1.0, 1.0])
    assert term.metrics["kept_fraction"].item() == 0.5
    assert not term.values.requires_grad


def test_the_mask_uses_the_old_probability(make_batch):
    assert probability_mask(make_batch([math.log(0.1)], old_logprobs=[math.log(0.95)])).values.item() == 0.0


@given(st.lists(P, min_size=1, max_size=8), P, P)
def test_probability_mask_higher_limit_keeps_more_and_one_above_one_keeps_all(make_batch, probabilities, first, second):
    batch = probability_mask_batch_of(make_batch, probabilities)
    fewer_kept, more_kept = (probability_mask(batch, below=limit).values for limit in sorted((first, second)))
    assert (fewer_kept <= more_kept).all()
    assert probability_mask(batch, below=1.1).values.all()


def test_tokens_of_probability_one_are_masked(make_batch):
    assert probability_mask(make_batch([0.0, 0.0])).values.tolist() == [0.0, 0.0]


def test_log_ratio_clip_by_hand(make_minibatch, gradient_of):
    """Log-ratios 0.1 (inside), 0.5 (above) and -0.5 (below), with advantages of both signs."""
    batches, leaf = make_minibatch(
        [-1.0, -1.0, -1.0, -1.0], old_logprobs=[-1.1, -1.5, -0.5, -0.5], advantages=[2.0, 3.0, 5.0, -5.0]
    )
    term = log_ratio_clip(batches[0])
    penalty = 0.1 * 0.25
    assert term.values.tolist() == pytest.approx(
        [
            -2 * math.exp(0.1) + 0.001,
            -3 * math.exp(0.2) + penalty,
            -5 * math.exp(-0.2) + penalty,
            5 * math.exp(-0.2) + penalty,
        ],
        rel=1e-5,
    )
    # the advantage trains only the first token; the penalty pulls all back
    assert gradient_of(log_ratio_clip, batches, leaf).tolist() == pytest.approx(
        [-2 * math.exp(0.1) + 0.02, 0.1, -0.1, -0.1], rel=1e-4
    )
    assert term.metrics["clip_fraction"].item() == 0.75 and term.metrics["low_fraction"].item() == 0.5
    assert term.weighted and term.level == "token"


def test_log_ratio_clip_option_divided_scales_the_advantage_and_has_no_penalty(make_minibatch, gradient_of):
    batches, leaf = make_minibatch([-1.0, -1.0], old_logprobs=[-1.1, -1.5], advantages=[2.0, 3.0])
    gradient = gradient_of(lambda batch: log_ratio_clip(batch, form="divided", tau=0.5), batches, leaf)
    assert gradient.tolist() == pytest.approx([-4 * math.exp(0.1), 0.0], rel=1e-5)
    preset = bind("losses", "log_ratio_clip", {}, preset="divided")(batches[0], progress=0.0)
    assert preset.values.tolist() == pytest.approx([-2 * math.exp(0.1), -3 * math.exp(0.2)], rel=1e-5)


def test_log_ratio_clip_each_bound_has_an_effect(make_minibatch, gradient_of):
    batches, leaf = make_minibatch([-1.0, -1.0], old_logprobs=[-1.5, -0.5], advantages=[1.0, 1.0])
    for bounds, expected in (({"high": 0.6}, [-math.exp(0.5), 0.0]), ({"low": -0.6}, [0.0, -math.exp(-0.5)])):
        gradient = gradient_of(lambda batch, bounds=bounds: log_ratio_clip(batch, tau=1e-9, **bounds), batches, leaf)
        assert gradient.tolist() == pytest.approx(expected, abs=1e-6)


LOG_RATIO_ROWS = st.lists(st.tuples(st.floats(-3, 3), st.floats(-3, 3)), min_size=1, max_size=6)


@given(LOG_RATIO_ROWS)
def test_at_ratio_one_the_gradient_is_that_of_the_policy_gradient(make_minibatch, gradient_of, rows):
    batches, leaf = make_minibatch([row[0] for row in rows], advantages=[row[1] for row in rows])
    assert torch.allclose(gradient_of(log_ratio_clip, batches, leaf), gradient_of(policy_gradient, batches, leaf))


@given(LOG_RATIO_ROWS)
def test_log_ratio_clip_agrees_with_ppo_except_where_ppo_ignores_the_sign(make_minibatch, gradient_of, rows):
    """Without a penalty, a token's gradient equals PPO's, or is 0 if PPO's clipping depends on the advantage's sign."""
    batches, leaf = make_minibatch(
        [row[0] for row in rows],
        old_logprobs=[0.0] * len(rows),
        advantages=[row[1] for row in rows],
    )
    slopes = gradient_of(
        lambda batch: log_ratio_clip(batch, low=math.log(0.8), high=math.log(1.2), tau=1e-12), batches, leaf
    )
    ppo_slopes = gradient_of(lambda batch: ppo_clip(batch, clip_low=0.2, clip_high=0.2), batches, leaf)
    for slope, ppo_slope, (log_ratio, _) in zip(slopes.tolist(), ppo_slopes.tolist(), rows, strict=True):
        is_inside = math.log(0.8) <= log_ratio <= math.log(1.2)
        assert slope == (pytest.approx(ppo_slope, abs=1e-5) if is_inside else pytest.approx(0.0, abs=1e-5))


@pytest.mark.parametrize("old", [-1e6, 1e6])
def test_log_ratio_clip_extreme_ratios_stay_finite(make_minibatch, gradient_of, old):
    batches, leaf = make_minibatch([-1.0], old_logprobs=[old], advantages=[1e6])
    assert (
        torch.isfinite(log_ratio_clip(batches[0]).values).all()
        and torch.isfinite(gradient_of(log_ratio_clip, batches, leaf)).all()
    )
