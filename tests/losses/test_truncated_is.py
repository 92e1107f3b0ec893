import math

import pytest

from sparring.errors import ConfigError
from sparring.losses.truncated_is import truncated_is


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
