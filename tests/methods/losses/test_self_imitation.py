import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError
from sparring.core.schedule import parse
from sparring.methods.losses.policy_gradient import policy_gradient
from sparring.methods.losses.ppo_clip import ppo_clip
from sparring.methods.losses.self_imitation import self_imitation

ROWS = st.lists(st.tuples(st.floats(-3, 3), st.floats(0, 3)), min_size=1, max_size=8)


def test_by_hand(make_whole, gradient_of):
    batches, free = make_whole([-1.0, -2.0, -3.0], old=[-1.0 - math.log(2.0), -2.0, -3.0], advantages=[2.0, -4.0, 0.0])
    term = self_imitation(batches[0])
    assert term.values.tolist() == [2.0, 0.0, 0.0]
    assert gradient_of(self_imitation, batches, free).tolist() == [-2.0, 0.0, 0.0]
    assert term.metrics["imitated_fraction"].item() == pytest.approx(1 / 3)
    assert term.metrics["ratio_max"].item() == pytest.approx(2.0)
    assert bind("losses", "self_imitation", preset="spear")(batches[0]).values.tolist() == pytest.approx([-2.4, 0.0, 0.0])


@given(ROWS)
def test_on_positive_advantages_it_is_the_policy_gradient_or_ppo(make_whole, gradient_of, rows):
    batches, free = make_whole([r[0] for r in rows], old=[0.0] * len(rows), advantages=[r[1] for r in rows])
    assert torch.equal(self_imitation(batches[0]).values, policy_gradient(batches[0]).values)

    def ours(batch):
        return self_imitation(batch, clip_high=0.3)

    def ppo(batch):
        return ppo_clip(batch, clip_high=0.3)

    assert torch.equal(ours(batches[0]).values, ppo(batches[0]).values)
    assert torch.equal(gradient_of(ours, batches, free), gradient_of(ppo, batches, free))


@given(ROWS, st.sampled_from([None, 0.2]))
def test_failures_never_have_a_gradient(make_whole, gradient_of, rows, clip_high):
    batches, free = make_whole([r[0] for r in rows], old=[0.0] * len(rows), advantages=[-r[1] for r in rows])
    assert gradient_of(lambda batch: self_imitation(batch, clip_high=clip_high), batches, free).abs().max().item() == 0.0


def test_the_published_weight_is_a_cosine_schedule():
    weight = parse({"schedule": "cosine", "start": 0.0, "end": 1.0, "until": 0.5})  # 200 of 400 steps
    assert [weight(step / 400) for step in (0, 50, 100, 200, 400)] == pytest.approx([0.0, 0.1464, 0.5, 1.0, 1.0], abs=1e-4)


def test_bad_options_are_refused():
    with pytest.raises(ConfigError, match="clip_high"):
        bind("losses", "self_imitation", {"clip_high": -1.0})
