import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError
from sparring.methods.losses.masked_is import masked_is
from sparring.methods.losses.truncated_is import truncated_is

RATIOS = [0.4, 0.5 + 1e-9, 1.0, 2.0 - 1e-9, 2.1]


def batch_of(make_batch, ratios):
    return make_batch([0.0] * len(ratios), old=[math.log(ratio) for ratio in ratios], sampler=[0.0] * len(ratios))


def test_by_hand(make_batch):
    term = masked_is(batch_of(make_batch, RATIOS))
    assert (term.level, term.values.tolist()) == ("weight", [0.0, 1.0, 1.0, 1.0, 0.0])
    assert term.metrics["masked_fraction"].item() == pytest.approx(0.4)
    assert (term.metrics["weight_min"].item(), term.metrics["weight_max"].item()) == (pytest.approx(0.4), pytest.approx(2.1))
    assert not term.values.requires_grad


def test_options(make_batch):
    batch = batch_of(make_batch, [*RATIOS, 6.0])
    assert masked_is(batch, low=0.0, high=3.0).values.tolist() == [1.0] * 5 + [0.0]
    assert masked_is(batch, low=0.9).values.tolist() == [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]
    icepop = bind("losses", "masked_is", preset="icepop")
    assert icepop(batch).values.tolist() == pytest.approx([0.0, 0.5, 1.0, 2.0, 2.1, 0.0])


@given(st.lists(st.floats(0.01, 50), min_size=1, max_size=8))
def test_within_the_bounds_kept_ratios_are_those_of_truncated_is(make_batch, ratios):
    batch = batch_of(make_batch, ratios)
    mask, kept = masked_is(batch).values, masked_is(batch, keep_ratio=True).values
    assert torch.equal(kept, mask * truncated_is(batch, cap=1e9).values)
    assert torch.equal(mask, mask**2)


def test_the_same_engine_leaves_everything(make_batch):
    assert masked_is(make_batch([-1.0, -2.0])).values.tolist() == [1.0, 1.0]


def test_bad_options_are_refused():
    with pytest.raises(ConfigError, match="low"):
        bind("losses", "masked_is", {"low": -0.5})
