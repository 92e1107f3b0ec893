import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError
from sparring.methods.losses.clip_cov import clip_cov
from sparring.methods.losses.ppo_clip import ppo_clip

# means of A and log pi are 0: covariances 4, 4, 0.01, 2.25, and the sums of the negative ones
LOGPROBS, ADVANTAGES = [2.0, -2.0, 0.1, -1.5, 1.5, -0.1], [2.0, -2.0, 0.1, -1.5, 1.5, -0.1]


def chosen(term):
    return [i for i, value in enumerate(term.values.tolist()) if value == 0.0]


def test_by_hand(make_whole, gradient_of):
    batches, free = make_whole(LOGPROBS, advantages=ADVANTAGES, uniform=[0.9, 0.1, 0.0, 0.3, 0.5, 0.0])
    assert chosen(clip_cov(batches[0])) == [1]  # one at least: the smallest number of those above 1
    assert chosen(clip_cov(batches[0], share=0.5)) == [1, 3, 4]
    assert chosen(clip_cov(batches[0], share=1.0)) == [0, 1, 3, 4]
    assert chosen(clip_cov(batches[0], share=1.0, lower=3.0)) == [0, 1]
    assert chosen(clip_cov(batches[0], share=1.0, upper=3.0)) == [3, 4]
    term = clip_cov(batches[0], share=0.5)
    assert term.metrics["covariance_max"].item() == pytest.approx(4.0)
    assert term.metrics["chosen_fraction"].item() == 0.5
    slopes = gradient_of(lambda batch: clip_cov(batch, share=0.5), batches, free)
    assert slopes.tolist() == pytest.approx([-2.0, 0.0, -0.1, 0.0, 0.0, 0.1])


def test_the_share_is_of_the_minibatch_not_of_a_forward_pass(make_whole):
    uniform = [0.9, 0.1, 0.0, 0.3, 0.5, 0.0]
    whole, _ = make_whole(LOGPROBS, advantages=ADVANTAGES, uniform=uniform)
    parts, _ = make_whole(LOGPROBS, advantages=ADVANTAGES, uniform=uniform, cut=(1, 4))
    found = torch.cat([clip_cov(part, share=0.5).values for part in parts])
    assert torch.equal(found, clip_cov(whole[0], share=0.5).values)


def test_tokens_that_ppo_cuts_are_not_drawn(make_whole):
    old = [2.0, -2.0 + math.log(2.0), 0.1, -1.5, 1.5, -0.1]  # the second fell to half: cut, A < 0
    (batch,), _ = make_whole(LOGPROBS, old=old, advantages=ADVANTAGES, uniform=[0.9, 0.1, 0.0, 0.3, 0.5, 0.0])
    assert chosen(clip_cov(batch)) == [3]
    assert clip_cov(batch).metrics["clip_fraction"].item() == pytest.approx(1 / 6)
    assert chosen(clip_cov(batch, clip_low=0.9)) == [1]


@given(st.lists(st.tuples(st.floats(-3, 3), st.floats(-3, 3), st.floats(0, 0.99)), min_size=1, max_size=10), st.floats(0, 1))
def test_it_is_ppo_clip_but_for_the_share_drawn(make_whole, rows, share):
    (batch,), _ = make_whole([r[0] for r in rows], old=[0.0] * len(rows), advantages=[r[1] for r in rows], uniform=[r[2] for r in rows])
    term, plain = clip_cov(batch, share=share, lower=0.0, upper=99.0), ppo_clip(batch).values
    differ = int((term.values != plain).sum())
    assert differ <= (max(1, int(share * len(rows))) if share else 0)
    assert ((term.values == plain) | (term.values == 0)).all()
    assert torch.equal(clip_cov(batch, share=0.0).values, plain)
    assert torch.equal(clip_cov(batch, lower=99.0, upper=100.0).values, plain)


def test_preset_of_spear(make_whole):
    (batch,), _ = make_whole([5.0, -5.0], advantages=[5.0, -5.0], uniform=[0.5, 0.1])  # covariances 25
    assert chosen(bind("losses", "clip_cov", preset="spear")(batch)) == [1]
    assert chosen(clip_cov(batch)) == []


def test_bad_options_are_refused():
    with pytest.raises(ConfigError, match="share"):
        bind("losses", "clip_cov", {"share": 1.5})
