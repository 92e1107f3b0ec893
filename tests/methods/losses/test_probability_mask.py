import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError
from sparring.methods.losses.probability_mask import probability_mask

P = st.floats(1e-6, 1.0)


def batch_of(make_batch, probabilities):
    return make_batch([0.0] * len(probabilities), old=[math.log(p) for p in probabilities])


def test_by_hand(make_batch):
    term = probability_mask(batch_of(make_batch, [1.0, 0.91, 0.89, 0.1]))
    assert (term.level, term.values.tolist()) == ("weight", [0.0, 0.0, 1.0, 1.0])
    assert term.metrics["kept_fraction"].item() == 0.5
    assert not term.values.requires_grad


def test_it_is_the_old_probability_that_counts(make_batch):
    assert probability_mask(make_batch([math.log(0.1)], old=[math.log(0.95)])).values.item() == 0.0


@given(st.lists(P, min_size=1, max_size=8), P, P)
def test_a_higher_limit_keeps_more_and_one_above_one_keeps_all(make_batch, probabilities, first, second):
    batch = batch_of(make_batch, probabilities)
    few, more = (probability_mask(batch, below=limit).values for limit in sorted((first, second)))
    assert (few <= more).all()
    assert probability_mask(batch, below=1.1).values.all()


def test_certain_tokens_are_all_left_out(make_batch):
    assert probability_mask(make_batch([0.0, 0.0])).values.tolist() == [0.0, 0.0]
    with pytest.raises(ConfigError, match="below"):
        bind("losses", "probability_mask", {"below": 0.0})
