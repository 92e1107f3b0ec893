import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError
from sparring.methods.losses.etr import etr
from sparring.methods.losses.ppo_clip import ppo_clip

NEUTRAL = {"advantage_gain": 0.0, "group_gain": 0.0}


def test_widths_by_hand(make_whole, gradient_of):
    """One success of two: p (1 - p) = 1/4, factor 1.5; |A| = 0.5: factor 1.25. Width 0.2 * 1.875 = 0.375."""
    for ratio, cut in ((1.37, False), (1.38, True)):
        batches, free = make_whole([math.log(ratio), 0.0], old=[0.0, 0.0], advantages=[0.5, 0.5], trajectory=[0, 1], outcome=[1.0, -1.0])
        term = etr(batches[0])
        assert term.values[0].item() == pytest.approx(-0.5 * min(ratio, 1.375))
        assert term.metrics["width_mean"].item() == pytest.approx(1.875)
        assert gradient_of(etr, batches, free)[0].item() == pytest.approx(0.0 if cut else -0.5 * ratio)


@given(st.lists(st.tuples(st.floats(-3, 3), st.floats(-2, 2), st.integers(0, 2)), min_size=1, max_size=8))
def test_without_gains_it_is_ppo_clip_and_with_them_it_never_clips_more(make_whole, rows):
    batches, _ = make_whole([row[0] for row in rows], old=[0.0] * len(rows), advantages=[row[1] for row in rows],
                            trajectory=list(range(len(rows))), group=[row[2] for row in rows],
                            outcome=[row[1] for row in rows])  # fmt: skip
    plain, elastic = ppo_clip(batches[0]), etr(batches[0])
    assert torch.equal(etr(batches[0], **NEUTRAL).values, plain.values)
    assert elastic.metrics["clip_fraction"] <= plain.metrics["clip_fraction"]
    assert (elastic.values <= plain.values + 1e-9).all()


@pytest.mark.parametrize(("options", "bound"), [
    ({}, 1 + 0.2 * 1.5 * 1.5), ({"group_gain": 0.0}, 1 + 0.2 * 1.5), ({"advantage_gain": 0.0}, 1 + 0.2 * 1.5),
    ({"success_above": 5.0}, 1 + 0.2 * 1.5), ({"clip_high": 0.4}, 1 + 0.4 * 2.25), ({"clip_low": 0.9}, 1.45),
])  # fmt: skip
def test_options(make_whole, options, bound):
    batches, _ = make_whole([2.0, 0.0], old=[0.0, 0.0], advantages=[2.0, 0.0], trajectory=[0, 1], outcome=[1.0, 0.0])
    assert etr(batches[0], **options).values[0].item() == pytest.approx(-2.0 * bound)


def test_the_lower_width_is_scaled_too(make_whole):
    batches, _ = make_whole([math.log(0.3)], old=[0.0], advantages=[-3.0], outcome=[1.0])
    assert etr(batches[0]).values.item() == pytest.approx(3.0 * (1 - 0.2 * 1.5))
    assert etr(batches[0], clip_low=0.4).values.item() == pytest.approx(3.0 * (1 - 0.4 * 1.5))


def test_the_group_is_seen_across_forward_passes(make_whole):
    batches, _ = make_whole([1.0, 1.0], old=[0.0, 0.0], trajectory=[0, 1], outcome=[1.0, -1.0], cut=(1,))
    assert [etr(batch, advantage_gain=0.0).values.item() for batch in batches] == pytest.approx([-1.3, -1.3])


def test_bad_options_are_refused():
    with pytest.raises(ConfigError, match="advantage_gain"):
        bind("losses", "etr", {"advantage_gain": -1.0})
