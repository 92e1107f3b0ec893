import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError
from sparring.methods.losses.d3s_tokens import d3s_tokens

ROWS = st.lists(st.tuples(st.floats(-2, 2), st.floats(0, 3)), min_size=1, max_size=10)


def test_by_hand(make_whole):
    """Scores 2, 0, 3, 0.5."""
    (batch,), _ = make_whole([0.0] * 4, advantages=[-2.0, 0.0, 1.0, 0.5], entropy=[1.0, 9.0, 3.0, 1.0])
    term = d3s_tokens(batch)
    assert (term.level, term.values.tolist()) == ("weight", [1.0, 0.0, 1.0, 0.0])
    assert term.metrics["kept_fraction"].item() == 0.5
    assert term.metrics["score_mean"].item() == pytest.approx(5.5 / 4)
    assert d3s_tokens(batch, keep=0.01).values.tolist() == [0.0, 0.0, 1.0, 0.0]
    assert d3s_tokens(batch, keep=0.75).values.tolist() == [1.0, 0.0, 1.0, 1.0]
    assert not term.values.requires_grad


def test_the_share_is_of_the_minibatch_not_of_a_forward_pass(make_whole):
    batches, _ = make_whole([0.0] * 4, advantages=[1.0, 2.0, 3.0, 4.0], entropy=[1.0] * 4, cut=(2,))
    assert [d3s_tokens(batch).values.tolist() for batch in batches] == [[0.0, 0.0], [1.0, 1.0]]


@given(ROWS, st.floats(0.01, 1))
def test_as_many_are_kept_as_asked_and_none_below_one_left_out(make_whole, rows, keep):
    (batch,), _ = make_whole([0.0] * len(rows), advantages=[r[0] for r in rows], entropy=[r[1] for r in rows])
    kept, scores = d3s_tokens(batch, keep=keep).values.bool(), batch.advantages.abs() * batch.entropy
    assert int(kept.sum()) >= math.ceil(keep * len(rows) - 1e-9)
    if len(scores.unique()) == len(rows):
        assert int(kept.sum()) == math.ceil(keep * len(rows) - 1e-9)
    assert kept.all() or scores[kept].min() > scores[~kept].max()
    assert d3s_tokens(batch, keep=1.0).values.all()


def test_without_signal_all_are_kept(make_whole):
    (batch,), _ = make_whole([0.0] * 3, advantages=[0.0] * 3, entropy=[1.0, 2.0, 3.0])
    assert d3s_tokens(batch, keep=0.1).values.tolist() == [1.0] * 3


def test_keep_may_be_a_schedule_and_is_in_bounds(make_whole):
    (batch,), _ = make_whole([0.0] * 4, advantages=[1.0, 2.0, 3.0, 4.0], entropy=[1.0] * 4)
    loss = bind("losses", "d3s_tokens", {"keep": {"schedule": "linear", "start": 1.0, "end": 0.25}})
    assert [int(loss(batch, progress=at).values.sum()) for at in (0.0, 1.0)] == [4, 1]
    assert torch.equal(loss(batch, progress=1.0).values, d3s_tokens(batch, keep=0.25).values)
    with pytest.raises(ConfigError, match="keep"):
        bind("losses", "d3s_tokens", {"keep": 0.0})
