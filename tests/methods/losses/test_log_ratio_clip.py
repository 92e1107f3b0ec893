import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError
from sparring.methods.losses.log_ratio_clip import log_ratio_clip
from sparring.methods.losses.policy_gradient import policy_gradient
from sparring.methods.losses.ppo_clip import ppo_clip


def test_by_hand(make_whole, gradient_of):
    """Log-ratios 0.1 (inside), 0.5 (above) and -0.5 (below), with advantages of both signs."""
    batches, free = make_whole([-1.0, -1.0, -1.0, -1.0], old=[-1.1, -1.5, -0.5, -0.5], advantages=[2.0, 3.0, 5.0, -5.0])
    term = log_ratio_clip(batches[0])
    outside = 0.1 * 0.25
    assert term.values.tolist() == pytest.approx(
        [-2 * math.exp(0.1) + 0.001, -3 * math.exp(0.2) + outside, -5 * math.exp(-0.2) + outside, 5 * math.exp(-0.2) + outside], rel=1e-5
    )
    # the advantage trains the first alone; the penalty pulls all back
    assert gradient_of(log_ratio_clip, batches, free).tolist() == pytest.approx([-2 * math.exp(0.1) + 0.02, 0.1, -0.1, -0.1], rel=1e-4)
    assert term.metrics["clip_fraction"].item() == 0.75 and term.metrics["low_fraction"].item() == 0.5
    assert term.weighted and term.level == "token"


def test_divided_scales_the_advantage_and_has_no_penalty(make_whole, gradient_of):
    batches, free = make_whole([-1.0, -1.0], old=[-1.1, -1.5], advantages=[2.0, 3.0])
    found = gradient_of(lambda batch: log_ratio_clip(batch, form="divided", tau=0.5), batches, free)
    assert found.tolist() == pytest.approx([-4 * math.exp(0.1), 0.0], rel=1e-5)
    preset = bind("losses", "log_ratio_clip", {}, preset="divided")(batches[0], progress=0.0)
    assert preset.values.tolist() == pytest.approx([-2 * math.exp(0.1), -3 * math.exp(0.2)], rel=1e-5)


def test_bounds_both_ways(make_whole, gradient_of):
    batches, free = make_whole([-1.0, -1.0], old=[-1.5, -0.5], advantages=[1.0, 1.0])
    for bounds, expected in (({"high": 0.6}, [-math.exp(0.5), 0.0]), ({"low": -0.6}, [0.0, -math.exp(-0.5)])):
        found = gradient_of(lambda batch, bounds=bounds: log_ratio_clip(batch, tau=1e-9, **bounds), batches, free)
        assert found.tolist() == pytest.approx(expected, abs=1e-6)


rows = st.lists(st.tuples(st.floats(-3, 3), st.floats(-3, 3)), min_size=1, max_size=6)


@given(rows)
def test_at_ratio_one_the_gradient_is_that_of_the_policy_gradient(make_whole, gradient_of, rows):
    batches, free = make_whole([row[0] for row in rows], advantages=[row[1] for row in rows])
    assert torch.allclose(gradient_of(log_ratio_clip, batches, free), gradient_of(policy_gradient, batches, free))


@given(rows)
def test_where_ppo_s_clip_is_active_it_agrees_but_for_the_other_sign(make_whole, gradient_of, rows):
    """Reduction: without a penalty a token's gradient is PPO's, or 0 where PPO's clip looks away by the advantage's sign."""
    batches, free = make_whole([row[0] for row in rows], old=[0.0] * len(rows), advantages=[row[1] for row in rows])
    ours = gradient_of(lambda batch: log_ratio_clip(batch, low=math.log(0.8), high=math.log(1.2), tau=1e-12), batches, free)
    theirs = gradient_of(lambda batch: ppo_clip(batch, clip_low=0.2, clip_high=0.2), batches, free)
    for own, other, (x, _) in zip(ours.tolist(), theirs.tolist(), rows, strict=True):
        inside = math.log(0.8) <= x <= math.log(1.2)
        assert own == (pytest.approx(other, abs=1e-5) if inside else pytest.approx(0.0, abs=1e-5))


@pytest.mark.parametrize("old", [-1e6, 1e6])
def test_ratios_far_away_stay_finite(make_whole, gradient_of, old):
    batches, free = make_whole([-1.0], old=[old], advantages=[1e6])
    assert torch.isfinite(log_ratio_clip(batches[0]).values).all() and torch.isfinite(gradient_of(log_ratio_clip, batches, free)).all()


@pytest.mark.parametrize("options", [{"low": 0.1}, {"high": -0.1}, {"tau": 0.0}, {"form": "mask"}])
def test_bad_options_are_refused(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        bind("losses", "log_ratio_clip", options)
