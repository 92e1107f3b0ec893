import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError
from sparring.methods.losses.policy_gradient import policy_gradient
from sparring.methods.losses.ppo_clip import ppo_clip


def gradient(batch, **options):
    ppo_clip(batch, **options).values.sum().backward()
    return batch.logprobs.grad.tolist()


def test_at_ratio_one_the_gradient_is_the_plain_one(make_batch):
    first, second = make_batch([-1.0, -2.0], advantages=[2.0, -3.0]), make_batch([-1.0, -2.0], advantages=[2.0, -3.0])
    policy_gradient(second).values.sum().backward()
    assert gradient(first) == pytest.approx(second.logprobs.grad.tolist())


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "cut"),
    [
        (1.5, 1.0, -1.2, True),  # gained enough: held at 1 + clip_high
        (0.5, 1.0, -0.5, False),  # lost ground it should win back
        (0.5, -1.0, 0.8, True),  # fell enough: held at 1 - clip_low
        (1.5, -1.0, 1.5, False),  # rose though it should fall
        (1.1, 1.0, -1.1, False),
    ],
)
def test_four_corners(make_batch, ratio, advantage, loss, cut):
    batch = make_batch([math.log(ratio)], old=[0.0], advantages=[advantage])
    term = ppo_clip(batch)
    assert term.values.item() == pytest.approx(loss)
    assert term.metrics["clip_fraction"].item() == cut
    assert gradient(batch)[0] == pytest.approx(0.0 if cut else -ratio * advantage)


def test_dapo_preset_clips_higher(make_batch):
    batch = make_batch([math.log(1.27)], old=[0.0])
    assert bind("losses", "ppo_clip", preset="dapo")(batch).values.item() == pytest.approx(-1.27)
    assert ppo_clip(batch).values.item() == pytest.approx(-1.2)


def test_loop_preset_is_symmetric_in_the_logarithm(make_batch):
    loss = bind("losses", "ppo_clip", preset="loop")
    for ratio, advantage in ((1.11, 1.0), (1 / 1.11, -1.0)):
        term = loss(make_batch([math.log(ratio)], old=[0.0], advantages=[advantage]))
        assert term.values.item() == pytest.approx(-advantage * 1.1**advantage)
        assert term.metrics["clip_fraction"].item() == 1.0
    assert (
        loss(make_batch([math.log(1.09), -math.log(1.09)], old=[0.0, 0.0], advantages=[1.0, -1.0])).metrics["clip_fraction"].item() == 0.0
    )


def test_dual_clip_bounds_a_ratio_run_wild(make_batch):
    batch = make_batch([math.log(10.0)], old=[0.0], advantages=[-1.0])
    assert ppo_clip(batch).values.item() == pytest.approx(10.0)
    dual = bind("losses", "ppo_clip", preset="dual_clip")
    assert dual(batch).values.item() == pytest.approx(3.0)
    assert dual(batch).metrics["clip_fraction"].item() == 1.0


def test_ratios_beyond_reason_stay_finite(make_batch):
    term = ppo_clip(make_batch([0.0, -500.0], old=[-500.0, 0.0], advantages=[-1.0, -1.0]))
    assert torch.isfinite(term.values).all()
    assert term.values[0].item() == pytest.approx(math.exp(20))


@given(st.floats(-2, 2), st.floats(-5, 5))
def test_the_loss_is_never_below_the_clipped_surrogate(log_ratio, advantage):
    from sparring.methods.losses.base import LossBatch

    one = torch.zeros(1, dtype=torch.float64)
    batch = LossBatch(
        logprobs=one + log_ratio,
        old_logprobs=one,
        sampler_logprobs=one,
        advantages=one + advantage,
        sequence=torch.zeros(1, dtype=torch.int64),
        turn=torch.zeros(1, dtype=torch.int64),
        num_sequences=1,
    )
    ratio = math.exp(log_ratio)
    assert ppo_clip(batch).values.item() >= -ratio * advantage - 1e-9
    assert ppo_clip(batch).values.item() >= -min(max(ratio, 0.8), 1.2) * advantage - 1e-9


def test_metrics_are_raw(make_batch):
    metrics = ppo_clip(make_batch([math.log(4.0), 0.0], old=[0.0, 0.0])).metrics
    assert (metrics["ratio_max"].item(), metrics["ratio_mean"].item()) == (pytest.approx(4.0), pytest.approx(2.5))
    assert metrics["approximate_kl"].item() == pytest.approx((4 - 1 - math.log(4)) / 2)


@pytest.mark.parametrize("options", [{"clip_low": -0.1}, {"clip_high": -1.0}, {"dual_clip": 1.0}])
def test_bad_widths_are_refused(make_batch, options):
    with pytest.raises(ConfigError, match="ppo_clip"):
        ppo_clip(make_batch([0.0]), **options)
