import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError
from sparring.methods.losses.aepo_clip import aepo_clip
from sparring.methods.losses.ppo_clip import ppo_clip


@pytest.mark.parametrize(("ratio", "advantage", "value", "slope"), [
    (3.0, 2.0, -2.4, -2.4),  # above the bound: held there with a gradient of that size
    (3.0, -2.0, 6.0, 6.0),
    (0.5, -2.0, 1.6, 0.0),  # fell enough
    (0.5, 2.0, -1.0, -1.0),
    (1.1, 2.0, -2.2, -2.2),
])  # fmt: skip
def test_corners(make_whole, gradient_of, ratio, advantage, value, slope):
    batches, free = make_whole([math.log(ratio)], old=[0.0], advantages=[advantage], entropy=[1.0])
    assert aepo_clip(batches[0]).values.item() == pytest.approx(value)
    assert gradient_of(aepo_clip, batches, free).item() == pytest.approx(slope)


def test_uncertain_tokens_weigh_more(make_whole):
    (batch,), _ = make_whole([0.0, 0.0], entropy=[1.0, 3.0])
    assert aepo_clip(batch, entropy_gain=0.5).values.tolist() == pytest.approx([-0.5, -1.5])
    assert aepo_clip(batch, entropy_gain=0.0).values.tolist() == [-1.0, -1.0]
    assert aepo_clip(batch, entropy_gain=5.0).values.tolist() == pytest.approx([0.0, -6.0])  # never turned round


def test_the_minibatch_s_entropies_count_not_the_forward_pass_s(make_whole):
    batches, _ = make_whole([0.0, 0.0], entropy=[1.0, 3.0], cut=(1,))
    assert [aepo_clip(batch, entropy_gain=0.5).values.item() for batch in batches] == pytest.approx([-0.5, -1.5])


@given(st.lists(st.tuples(st.floats(-3, 3), st.floats(-2, 2)), min_size=1, max_size=8))
def test_value_is_ppo_clip_s_and_the_gradient_differs_only_above_the_bound(make_whole, gradient_of, rows):
    logs, advantages = [row[0] for row in rows], [row[1] for row in rows]
    batches, free = make_whole(logs, old=[0.0] * len(rows), advantages=advantages, entropy=[1.0] * len(rows))
    assert torch.allclose(aepo_clip(batches[0]).values, ppo_clip(batches[0]).values)
    found, plain = gradient_of(aepo_clip, batches, free), gradient_of(ppo_clip, batches, free)
    above = [a > 0 and math.exp(x) > 1.2 for x, a in rows]
    expected = [-1.2 * a if up else g for a, up, g in zip(advantages, above, plain.tolist(), strict=True)]
    assert found.tolist() == pytest.approx(expected)


def test_widths_and_metrics(make_whole):
    (batch,), _ = make_whole([math.log(3.0), math.log(0.5)], old=[0.0, 0.0], advantages=[1.0, -1.0], entropy=[1.0, 1.0])
    metrics = aepo_clip(batch).metrics
    assert (metrics["clip_fraction"].item(), metrics["bounded_fraction"].item()) == (0.5, 0.5)
    wide = aepo_clip(batch, clip_low=0.6, clip_high=2.5)
    assert wide.values.tolist() == pytest.approx([-3.0, 0.5])
    assert wide.metrics["clip_fraction"].item() == wide.metrics["bounded_fraction"].item() == 0.0


def test_a_ratio_run_wild_keeps_its_bounded_gradient(make_whole, gradient_of):
    batches, free = make_whole([0.0], old=[-1e9], entropy=[1.0])
    assert gradient_of(aepo_clip, batches, free).item() == pytest.approx(-1.2)


def test_bad_options_are_refused():
    with pytest.raises(ConfigError, match="clip_low"):
        bind("losses", "aepo_clip", {"clip_low": -1.0})
