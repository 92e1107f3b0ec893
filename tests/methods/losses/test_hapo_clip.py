import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError
from sparring.methods.losses.hapo_clip import hapo_clip
from sparring.methods.losses.ppo_clip import ppo_clip

E = math.e
ENTROPY = [1 / E**2, 1 / E, 1.0, E**4]  # logarithms -2, -1, 0, 4; their 2/3 quantile is 0: h = -1, -1/2, 0, 1
ROWS = st.lists(st.tuples(st.floats(-3, 3), st.floats(-2, 2), st.floats(0, 4)), min_size=1, max_size=8)


def naive(log_ratio, advantages, entropy, *, low=0.2, high=0.2, alpha=1.0, beta=1.0, pivot=0.8, dual=10.0):
    logs = [math.log(max(value, 1e-8)) for value in entropy]
    middle = sorted(logs)[round(pivot * (len(logs) - 1))]
    top, bottom = max(max(logs) - middle, 1e-8), max(middle - min(logs), 1e-8)
    total = 0.0
    for x, a, e in zip(log_ratio, advantages, logs, strict=True):
        h = (e - middle) / (top if e > middle else bottom)
        lower, upper = low * (1 - h * alpha) if h <= 0 else low, high * (1 + h * alpha) if h > 0 else high
        ratio = x.exp()
        inside = 1 - lower / 2 < ratio.item() < 1 + upper / 2
        if (h > 0 and not inside) or (h <= 0 and inside):
            a = a * (1 + beta * h)
        loss = torch.maximum(-ratio * a, -torch.clamp(ratio, 1 - lower, 1 + upper) * a)
        total = total + (loss.clamp(max=-dual * a) if a < 0 else loss)
    return total


@pytest.mark.parametrize(("token", "log_ratio", "advantage", "value"), [
    (3, math.log(1.5), 1.0, -1.4 * 2.0),  # h = 1: upper width 0.4; outside 1 + 0.4 / 2, so the advantage doubles
    (3, math.log(1.1), 1.0, -1.1),  # inside: the advantage stays
    (0, math.log(0.65), -1.0, 0.65),  # h = -1: lower width 0.4, not cut at 0.8; outside: the advantage stays
    (0, math.log(0.5), -1.0, 0.6),  # held at 1 - 0.4
    (0, math.log(1.05), 1.0, 0.0),  # inside: 1 + h = 0
    (1, math.log(1.05), 1.0, -1.05 * 0.5),
    (0, math.log(1.5), 1.0, -1.2),  # the upper width of a certain token is the plain one
    (2, math.log(0.5), -1.0, 0.8),  # h = 0
])  # fmt: skip
def test_by_hand(make_whole, token, log_ratio, advantage, value):
    now = [0.0] * 4
    now[token] = log_ratio
    batches, _ = make_whole(now, old=[0.0] * 4, advantages=[advantage] * 4, entropy=ENTROPY)
    assert hapo_clip(batches[0], pivot=2 / 3).values[token].item() == pytest.approx(value)


@given(ROWS)
def test_value_and_gradient_are_those_of_a_loop(make_whole, gradient_of, rows):
    columns = [list(column) for column in zip(*rows, strict=True)]
    batches, free = make_whole(columns[0], old=[0.0] * len(rows), advantages=columns[1], entropy=columns[2], cut=(len(rows) // 2,))
    direct = naive(free, columns[1], columns[2])
    assert sum(hapo_clip(batch).values.sum() for batch in batches if len(batch.index)).item() == pytest.approx(direct.item(), rel=1e-5, abs=1e-5)
    full = [batch for batch in batches if len(batch.index)]
    expected = torch.autograd.grad(direct, free)[0]
    assert torch.allclose(gradient_of(hapo_clip, full, free), expected)


@given(ROWS)
def test_without_alpha_and_beta_it_is_ppo_clip(make_whole, rows):
    columns = [list(column) for column in zip(*rows, strict=True)]
    batches, _ = make_whole(columns[0], old=[0.0] * len(rows), advantages=columns[1], entropy=columns[2])
    for dual in (None, 3.0):
        neutral = hapo_clip(batches[0], alpha=0.0, beta=0.0, dual_clip=dual)
        assert torch.equal(neutral.values, ppo_clip(batches[0], dual_clip=dual).values)


def test_dual_clip_both_ways(make_whole):
    (batch,), _ = make_whole([math.log(30.0)], old=[0.0], advantages=[-1.0], entropy=[1.0])
    assert hapo_clip(batch).values.item() == pytest.approx(10.0)
    assert hapo_clip(batch).metrics["clip_fraction"].item() == 1.0
    assert hapo_clip(batch, dual_clip=None).values.item() == pytest.approx(30.0)
    assert hapo_clip(batch, dual_clip=None).metrics["clip_fraction"].item() == 0.0


def test_uncertain_tokens_are_counted_and_equal_entropies_change_nothing(make_whole):
    (batch,), _ = make_whole([0.3] * 4, old=[0.0] * 4, entropy=ENTROPY)
    assert hapo_clip(batch, pivot=2 / 3).metrics["uncertain_fraction"].item() == 0.25
    assert hapo_clip(batch, pivot=1 / 3).metrics["uncertain_fraction"].item() == 0.5
    (batch,), _ = make_whole([0.3] * 4, old=[0.0] * 4, entropy=[0.7] * 4)
    assert torch.equal(hapo_clip(batch).values, ppo_clip(batch).values)


def test_bad_options_are_refused():
    for options in ({"alpha": 2.0}, {"pivot": -0.1}, {"dual_clip": 1.0}):
        with pytest.raises(ConfigError, match=next(iter(options))):
            bind("losses", "hapo_clip", options)
