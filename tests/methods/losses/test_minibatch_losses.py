import dataclasses
import math

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.methods.losses.aepo_clip import aepo_clip
from sparring.methods.losses.base import LossTerm
from sparring.methods.losses.clip_cov import clip_cov
from sparring.methods.losses.d3s_tokens import d3s_tokens
from sparring.methods.losses.etr import etr
from sparring.methods.losses.hapo_clip import hapo_clip
from sparring.methods.losses.kl_cov import kl_cov
from sparring.methods.losses.minibatch import (
    standardise,
    token_losses,
)
from sparring.methods.losses.ppo_clip import ppo_clip


@pytest.mark.parametrize(("ratio", "advantage", "value", "slope"), [
    (3.0, 2.0, -2.4, -2.4),  # above the bound: clipped, with a gradient of that size
    (3.0, -2.0, 6.0, 6.0),
    (0.5, -2.0, 1.6, 0.0),  # clipped below
    (0.5, 2.0, -1.0, -1.0),
    (1.1, 2.0, -2.2, -2.2),
])  # fmt: skip
def test_aepo_values_and_slopes_on_both_sides_of_the_bounds(
    make_minibatch, gradient_of, ratio, advantage, value, slope
):
    batches, leaf = make_minibatch([math.log(ratio)], old_logprobs=[0.0], advantages=[advantage], entropy=[1.0])
    assert aepo_clip(batches[0]).values.item() == pytest.approx(value)
    assert gradient_of(aepo_clip, batches, leaf).item() == pytest.approx(slope)


def test_aepo_clip_high_entropy_tokens_weigh_more(make_minibatch):
    (batch,), _ = make_minibatch([0.0, 0.0], entropy=[1.0, 3.0])
    assert aepo_clip(batch, entropy_gain=0.5).values.tolist() == pytest.approx([-0.5, -1.5])
    assert aepo_clip(batch, entropy_gain=0.0).values.tolist() == [-1.0, -1.0]
    assert aepo_clip(batch, entropy_gain=5.0).values.tolist() == pytest.approx([0.0, -6.0])  # the sign never changes


def test_aepo_clip_entropies_are_compared_within_the_minibatch(make_minibatch):
    batches, _ = make_minibatch([0.0, 0.0], entropy=[1.0, 3.0], splits=(1,))
    assert [aepo_clip(batch, entropy_gain=0.5).values.item() for batch in batches] == pytest.approx([-0.5, -1.5])


@given(st.lists(st.tuples(st.floats(-3, 3), st.floats(-2, 2)), min_size=1, max_size=8))
def test_aepo_has_ppos_value_and_another_gradient_only_above_the_bound(make_minibatch, gradient_of, rows):
    logs, advantages = [row[0] for row in rows], [row[1] for row in rows]
    batches, leaf = make_minibatch(
        logs, old_logprobs=[0.0] * len(rows), advantages=advantages, entropy=[1.0] * len(rows)
    )
    assert torch.allclose(aepo_clip(batches[0]).values, ppo_clip(batches[0]).values)
    slopes, ppo_slopes = gradient_of(aepo_clip, batches, leaf), gradient_of(ppo_clip, batches, leaf)
    is_above = [a > 0 and math.exp(x) > 1.2 for x, a in rows]
    expected = [-1.2 * a if up else g for a, up, g in zip(advantages, is_above, ppo_slopes.tolist(), strict=True)]
    assert slopes.tolist() == pytest.approx(expected)


def test_aepo_clip_widths_and_metrics(make_minibatch):
    (batch,), _ = make_minibatch(
        [math.log(3.0), math.log(0.5)], old_logprobs=[0.0, 0.0], advantages=[1.0, -1.0], entropy=[1.0, 1.0]
    )
    metrics = aepo_clip(batch).metrics
    assert (metrics["clip_fraction"].item(), metrics["bounded_fraction"].item()) == (0.5, 0.5)
    with_wide_clip = aepo_clip(batch, clip_low=0.6, clip_high=2.5)
    assert with_wide_clip.values.tolist() == pytest.approx([-3.0, 0.5])
    assert with_wide_clip.metrics["clip_fraction"].item() == with_wide_clip.metrics["bounded_fraction"].item() == 0.0


def test_aepo_clip_extreme_ratio_keeps_a_bounded_gradient(make_minibatch, gradient_of):
    batches, leaf = make_minibatch([0.0], old_logprobs=[-1e9], entropy=[1.0])
    assert gradient_of(aepo_clip, batches, leaf).item() == pytest.approx(-1.2)


# A and log pi have mean 0; the covariances are 4, 4, 0.01, 2.25, 2.25, 0.01
LOGPROBS, ADVANTAGES = [2.0, -2.0, 0.1, -1.5, 1.5, -0.1], [2.0, -2.0, 0.1, -1.5, 1.5, -0.1]


def chosen_tokens(term):
    return [i for i, value in enumerate(term.values.tolist()) if value == 0.0]


def test_clip_cov_by_hand(make_minibatch, gradient_of):
    batches, leaf = make_minibatch(LOGPROBS, advantages=ADVANTAGES, uniform=[0.9, 0.1, 0.0, 0.3, 0.5, 0.0])
    assert chosen_tokens(clip_cov(batches[0])) == [
        1
    ]  # at least one: the token with the smallest uniform number of those above 1
    assert chosen_tokens(clip_cov(batches[0], share=0.5)) == [1, 3, 4]
    assert chosen_tokens(clip_cov(batches[0], share=1.0)) == [0, 1, 3, 4]
    assert chosen_tokens(clip_cov(batches[0], share=1.0, lower=3.0)) == [0, 1]
    assert chosen_tokens(clip_cov(batches[0], share=1.0, upper=3.0)) == [3, 4]
    term = clip_cov(batches[0], share=0.5)
    assert term.metrics["covariance_max"].item() == pytest.approx(4.0)
    assert term.metrics["chosen_fraction"].item() == 0.5
    slopes = gradient_of(lambda batch: clip_cov(batch, share=0.5), batches, leaf)
    assert slopes.tolist() == pytest.approx([-2.0, 0.0, -0.1, 0.0, 0.0, 0.1])


def test_the_share_of_clip_cov_is_of_the_minibatch(make_minibatch):
    uniform_numbers = [0.9, 0.1, 0.0, 0.3, 0.5, 0.0]
    minibatch, _ = make_minibatch(LOGPROBS, advantages=ADVANTAGES, uniform=uniform_numbers)
    passes, _ = make_minibatch(LOGPROBS, advantages=ADVANTAGES, uniform=uniform_numbers, splits=(1, 4))
    values = torch.cat([clip_cov(forward_pass, share=0.5).values for forward_pass in passes])
    assert torch.equal(values, clip_cov(minibatch[0], share=0.5).values)


def test_clip_cov_tokens_that_ppo_clips_are_not_drawn(make_minibatch):
    old_logprobs = [2.0, -2.0 + math.log(2.0), 0.1, -1.5, 1.5, -0.1]  # the second ratio fell to 1/2 and A < 0: clipped
    (batch,), _ = make_minibatch(
        LOGPROBS, old_logprobs=old_logprobs, advantages=ADVANTAGES, uniform=[0.9, 0.1, 0.0, 0.3, 0.5, 0.0]
    )
    assert chosen_tokens(clip_cov(batch)) == [3]
    assert clip_cov(batch).metrics["clip_fraction"].item() == pytest.approx(1 / 6)
    assert chosen_tokens(clip_cov(batch, clip_low=0.9)) == [1]


@given(
    st.lists(st.tuples(st.floats(-3, 3), st.floats(-3, 3), st.floats(0, 0.99)), min_size=1, max_size=10),
    st.floats(0, 1),
)
def test_clip_cov_is_ppo_clip_except_for_the_drawn_tokens(make_minibatch, rows, share):
    (batch,), _ = make_minibatch(
        [r[0] for r in rows],
        old_logprobs=[0.0] * len(rows),
        advantages=[r[1] for r in rows],
        uniform=[r[2] for r in rows],
    )
    term, ppo_values = clip_cov(batch, share=share, lower=0.0, upper=99.0), ppo_clip(batch).values
    num_drawn = int((term.values != ppo_values).sum())
    assert num_drawn <= (max(1, int(share * len(rows))) if share else 0)
    assert ((term.values == ppo_values) | (term.values == 0)).all()
    assert torch.equal(clip_cov(batch, share=0.0).values, ppo_values)
    assert torch.equal(clip_cov(batch, lower=99.0, upper=100.0).values, ppo_values)


def test_clip_cov_preset_of_spear(make_minibatch):
    (batch,), _ = make_minibatch([5.0, -5.0], advantages=[5.0, -5.0], uniform=[0.5, 0.1])  # covariances 25
    assert chosen_tokens(bind("losses", "clip_cov", preset="spear")(batch)) == [1]
    assert chosen_tokens(clip_cov(batch)) == []


ROWS_OF_D3S_TOKENS = st.lists(st.tuples(st.floats(-2, 2), st.floats(0, 3)), min_size=1, max_size=10)


def test_d3s_tokens_by_hand(make_minibatch):
    """Scores 2, 0, 3, 0.5."""
    (batch,), _ = make_minibatch([0.0] * 4, advantages=[-2.0, 0.0, 1.0, 0.5], entropy=[1.0, 9.0, 3.0, 1.0])
    term = d3s_tokens(batch)
    assert (term.level, term.values.tolist()) == ("weight", [1.0, 0.0, 1.0, 0.0])
    assert term.metrics["kept_fraction"].item() == 0.5
    assert term.metrics["score_mean"].item() == pytest.approx(5.5 / 4)
    assert d3s_tokens(batch, keep=0.01).values.tolist() == [0.0, 0.0, 1.0, 0.0]
    assert d3s_tokens(batch, keep=0.75).values.tolist() == [1.0, 0.0, 1.0, 1.0]
    assert not term.values.requires_grad


def test_the_share_of_d3s_tokens_is_of_the_minibatch(make_minibatch):
    batches, _ = make_minibatch([0.0] * 4, advantages=[1.0, 2.0, 3.0, 4.0], entropy=[1.0] * 4, splits=(2,))
    assert [d3s_tokens(batch).values.tolist() for batch in batches] == [[0.0, 0.0], [1.0, 1.0]]


@given(ROWS_OF_D3S_TOKENS, st.floats(0.01, 1))
def test_d3s_keeps_the_requested_share_with_the_highest_scores(make_minibatch, rows, share):
    (batch,), _ = make_minibatch([0.0] * len(rows), advantages=[r[0] for r in rows], entropy=[r[1] for r in rows])
    mask, scores = d3s_tokens(batch, keep=share).values.bool(), batch.advantages.abs() * batch.entropy
    assert int(mask.sum()) >= math.ceil(share * len(rows) - 1e-9)
    if len(scores.unique()) == len(rows):
        assert int(mask.sum()) == math.ceil(share * len(rows) - 1e-9)
    assert mask.all() or scores[mask].min() > scores[~mask].max()
    assert d3s_tokens(batch, keep=1.0).values.all()


def test_without_a_signal_d3s_keeps_all_tokens(make_minibatch):
    (batch,), _ = make_minibatch([0.0] * 3, advantages=[0.0] * 3, entropy=[1.0, 2.0, 3.0])
    assert d3s_tokens(batch, keep=0.1).values.tolist() == [1.0] * 3


def test_d3s_tokens_keep_can_be_a_schedule(make_minibatch):
    (batch,), _ = make_minibatch([0.0] * 4, advantages=[1.0, 2.0, 3.0, 4.0], entropy=[1.0] * 4)
    loss = bind("losses", "d3s_tokens", {"keep": {"schedule": "linear", "start": 1.0, "end": 0.25}})
    assert [int(loss(batch, progress=progress_value).values.sum()) for progress_value in (0.0, 1.0)] == [4, 1]
    assert torch.equal(loss(batch, progress=1.0).values, d3s_tokens(batch, keep=0.25).values)


NEUTRAL = {"advantage_gain": 0.0, "group_gain": 0.0}


def test_etr_clip_widths_by_hand(make_minibatch, gradient_of):
    """One success of two: p (1 - p) = 1/4, factor 1.5; |A| = 0.5: factor 1.25. Width 0.2 * 1.875 = 0.375."""
    for ratio, is_clipped in ((1.37, False), (1.38, True)):
        batches, leaf = make_minibatch(
            [math.log(ratio), 0.0],
            old_logprobs=[0.0, 0.0],
            advantages=[0.5, 0.5],
            trajectory=[0, 1],
            outcome=[1.0, -1.0],
        )
        term = etr(batches[0])
        assert term.values[0].item() == pytest.approx(-0.5 * min(ratio, 1.375))
        assert term.metrics["width_mean"].item() == pytest.approx(1.875)
        assert gradient_of(etr, batches, leaf)[0].item() == pytest.approx(0.0 if is_clipped else -0.5 * ratio)


@given(st.lists(st.tuples(st.floats(-3, 3), st.floats(-2, 2), st.integers(0, 2)), min_size=1, max_size=8))
def test_etr_without_gains_is_ppo_clip_and_never_clips_more(make_minibatch, rows):
    batches, _ = make_minibatch([row[0] for row in rows], old_logprobs=[0.0] * len(rows), advantages=[row[1] for row in rows],
                            trajectory=list(range(len(rows))), group=[row[2] for row in rows],
                            outcome=[row[1] for row in rows])  # fmt: skip
    ppo_term, elastic = ppo_clip(batches[0]), etr(batches[0])
    assert torch.equal(etr(batches[0], **NEUTRAL).values, ppo_term.values)
    assert elastic.metrics["clip_fraction"] <= ppo_term.metrics["clip_fraction"]
    assert (elastic.values <= ppo_term.values + 1e-9).all()


@pytest.mark.parametrize(("options", "bound"), [
    ({}, 1 + 0.2 * 1.5 * 1.5), ({"group_gain": 0.0}, 1 + 0.2 * 1.5), ({"advantage_gain": 0.0}, 1 + 0.2 * 1.5),
    ({"success_above": 5.0}, 1 + 0.2 * 1.5), ({"clip_high": 0.4}, 1 + 0.4 * 2.25), ({"clip_low": 0.9}, 1.45),
])  # fmt: skip
def test_etr_gains_set_the_bound(make_minibatch, options, bound):
    batches, _ = make_minibatch(
        [2.0, 0.0], old_logprobs=[0.0, 0.0], advantages=[2.0, 0.0], trajectory=[0, 1], outcome=[1.0, 0.0]
    )
    assert etr(batches[0], **options).values[0].item() == pytest.approx(-2.0 * bound)


def test_etr_scales_the_lower_width_too(make_minibatch):
    batches, _ = make_minibatch([math.log(0.3)], old_logprobs=[0.0], advantages=[-3.0], outcome=[1.0])
    assert etr(batches[0]).values.item() == pytest.approx(3.0 * (1 - 0.2 * 1.5))
    assert etr(batches[0], clip_low=0.4).values.item() == pytest.approx(3.0 * (1 - 0.4 * 1.5))


def test_etr_groups_span_forward_passes(make_minibatch):
    batches, _ = make_minibatch(
        [1.0, 1.0], old_logprobs=[0.0, 0.0], trajectory=[0, 1], outcome=[1.0, -1.0], splits=(1,)
    )
    assert [etr(batch, advantage_gain=0.0).values.item() for batch in batches] == pytest.approx([-1.3, -1.3])


E = math.e
ENTROPY = [1 / E**2, 1 / E, 1.0, E**4]  # logarithms -2, -1, 0, 4; their 2/3 quantile is 0: h = -1, -1/2, 0, 1
ROWS_OF_HAPO_CLIP = st.lists(st.tuples(st.floats(-3, 3), st.floats(-2, 2), st.floats(0, 4)), min_size=1, max_size=8)


def hapo_clip_by_loops(log_ratio, advantages, entropy, *, low=0.2, high=0.2, alpha=1.0, beta=1.0, pivot=0.8, dual=10.0):
    logs = [math.log(max(value, 1e-8)) for value in entropy]
    median = sorted(logs)[round(pivot * (len(logs) - 1))]
    span_above, span_below = max(max(logs) - median, 1e-8), max(median - min(logs), 1e-8)
    total = 0.0
    for token_log_ratio, advantage, log_entropy in zip(log_ratio, advantages, logs, strict=True):
        scaled_entropy = (log_entropy - median) / (span_above if log_entropy > median else span_below)
        lower, upper = (
            low * (1 - scaled_entropy * alpha) if scaled_entropy <= 0 else low,
            high * (1 + scaled_entropy * alpha) if scaled_entropy > 0 else high,
        )
        ratio = token_log_ratio.exp()
        is_inside = 1 - lower / 2 < ratio.item() < 1 + upper / 2
        if (scaled_entropy > 0 and not is_inside) or (scaled_entropy <= 0 and is_inside):
            advantage = advantage * (1 + beta * scaled_entropy)
        loss = torch.maximum(-ratio * advantage, -torch.clamp(ratio, 1 - lower, 1 + upper) * advantage)
        total = total + (loss.clamp(max=-dual * advantage) if advantage < 0 else loss)
    return total


@pytest.mark.parametrize(("token", "log_ratio", "advantage", "value"), [
    (3, math.log(1.5), 1.0, -1.4 * 2.0),  # h = 1: upper width 0.4; outside 1 + 0.4 / 2, so the advantage doubles
    (3, math.log(1.1), 1.0, -1.1),  # inside: the advantage stays
    (0, math.log(0.65), -1.0, 0.65),  # h = -1: lower width 0.4, not clipped at 0.8; outside: the advantage stays
    (0, math.log(0.5), -1.0, 0.6),  # clipped at 1 - 0.4
    (0, math.log(1.05), 1.0, 0.0),  # inside: 1 + h = 0
    (1, math.log(1.05), 1.0, -1.05 * 0.5),
    (0, math.log(1.5), 1.0, -1.2),  # a token of low entropy keeps the usual upper width
    (2, math.log(0.5), -1.0, 0.8),  # h = 0
])  # fmt: skip
def test_hapo_clip_by_hand(make_minibatch, token, log_ratio, advantage, value):
    logprobs = [0.0] * 4
    logprobs[token] = log_ratio
    batches, _ = make_minibatch(logprobs, old_logprobs=[0.0] * 4, advantages=[advantage] * 4, entropy=ENTROPY)
    assert hapo_clip(batches[0], pivot=2 / 3).values[token].item() == pytest.approx(value)


@given(ROWS_OF_HAPO_CLIP)
def test_hapo_value_and_gradient_equal_a_loop(make_minibatch, gradient_of, rows):
    columns = [list(column) for column in zip(*rows, strict=True)]
    batches, leaf = make_minibatch(
        columns[0], old_logprobs=[0.0] * len(rows), advantages=columns[1], entropy=columns[2], splits=(len(rows) // 2,)
    )
    loss_by_loop = hapo_clip_by_loops(leaf, columns[1], columns[2])
    assert sum(hapo_clip(batch).values.sum() for batch in batches if len(batch.index)).item() == pytest.approx(
        loss_by_loop.item(), rel=1e-5, abs=1e-5
    )
    nonempty = [batch for batch in batches if len(batch.index)]
    expected = torch.autograd.grad(loss_by_loop, leaf)[0]
    assert torch.allclose(gradient_of(hapo_clip, nonempty, leaf), expected)


@given(ROWS_OF_HAPO_CLIP)
def test_hapo_without_alpha_and_beta_is_ppo_clip(make_minibatch, rows):
    columns = [list(column) for column in zip(*rows, strict=True)]
    batches, _ = make_minibatch(columns[0], old_logprobs=[0.0] * len(rows), advantages=columns[1], entropy=columns[2])
    for dual in (None, 3.0):
        neutral = hapo_clip(batches[0], alpha=0.0, beta=0.0, dual_clip=dual)
        assert torch.equal(neutral.values, ppo_clip(batches[0], dual_clip=dual).values)


def test_hapo_with_and_without_dual_clip(make_minibatch):
    (batch,), _ = make_minibatch([math.log(30.0)], old_logprobs=[0.0], advantages=[-1.0], entropy=[1.0])
    assert hapo_clip(batch).values.item() == pytest.approx(10.0)
    assert hapo_clip(batch).metrics["clip_fraction"].item() == 1.0
    assert hapo_clip(batch, dual_clip=None).values.item() == pytest.approx(30.0)
    assert hapo_clip(batch, dual_clip=None).metrics["clip_fraction"].item() == 0.0


def test_hapo_clip_high_entropy_tokens_are_counted_and_equal_entropies_change_nothing(make_minibatch):
    (batch,), _ = make_minibatch([0.3] * 4, old_logprobs=[0.0] * 4, entropy=ENTROPY)
    assert hapo_clip(batch, pivot=2 / 3).metrics["uncertain_fraction"].item() == 0.25
    assert hapo_clip(batch, pivot=1 / 3).metrics["uncertain_fraction"].item() == 0.5
    (batch,), _ = make_minibatch([0.3] * 4, old_logprobs=[0.0] * 4, entropy=[0.7] * 4)
    assert torch.equal(hapo_clip(batch).values, ppo_clip(batch).values)


ROWS_OF_KL_COV = st.lists(st.tuples(st.floats(-2, 2), st.floats(-2, 2), st.floats(-2, 2)), min_size=1, max_size=10)


def kl_cov_by_loops(leaf, old_logprobs, advantages, share, coefficient):
    size = len(advantages)
    mean_advantage, mean_logprob = sum(advantages) / size, sum(leaf.tolist()) / size
    scores = [(advantages[token] - mean_advantage) * (leaf[token].item() - mean_logprob) for token in range(size)]
    chosen_tokens = sorted(range(size), key=lambda i: -scores[i])[: max(1, int(share * size))]
    total = 0.0
    for token in range(size):
        difference = leaf[token] - old_logprobs[token]
        total = (
            total
            - difference.exp() * advantages[token]
            + (coefficient * difference.abs() if token in chosen_tokens and scores[token] > 0 else 0.0)
        )
    return total


def test_kl_cov_by_hand(make_minibatch):
    """Both means are 0: covariances 4, 1, -1, 0."""
    (batch,), _ = make_minibatch(
        [2.0, -1.0, 1.0, -2.0], old_logprobs=[1.5, -1.0, 1.0, -1.0], advantages=[2.0, -1.0, -1.0, 0.0]
    )
    first_value = torch.tensor(0.5).exp().item() * -2.0
    assert kl_cov(batch).values.tolist() == pytest.approx([first_value + 0.5, 1.0, 1.0, 0.0])
    assert kl_cov(batch, coefficient=0.1).values[0].item() == pytest.approx(first_value + 0.05)
    assert kl_cov(batch).metrics["chosen_fraction"].item() == 0.25
    assert (
        kl_cov(batch, share=1.0).metrics["chosen_fraction"].item() == 0.5
    )  # covariances of 0 and less are never chosen
    assert kl_cov(batch).metrics["covariance_max"].item() == pytest.approx(4.0)


@example([(0.0, 0.0, 0.0), (0.0, 0.0, 1.0), (0.01953125, 0.0, 1.8984375)], 1.0, 1.9372722689201964)
@given(ROWS_OF_KL_COV, st.floats(0.01, 1), st.floats(0, 2))
def test_kl_cov_equals_a_loop_for_any_split_into_forward_passes(make_minibatch, gradient_of, rows, share, coefficient):
    logprobs, old_logprobs, advantages = ([row[k] for row in rows] for k in range(3))
    splits = (len(rows) // 2,) if len(rows) > 1 else ()
    batches, leaf = make_minibatch(logprobs, old_logprobs=old_logprobs, advantages=advantages, splits=splits)

    def loss(batch):
        return kl_cov(batch, share=share, coefficient=coefficient)

    loss_by_loop = kl_cov_by_loops(leaf, old_logprobs, advantages, share, coefficient)
    scores = (batches[0].whole.advantages - sum(advantages) / len(rows)) * (leaf.detach() - sum(logprobs) / len(rows))
    if len(scores.round(decimals=9).unique()) < len(scores):
        return  # rounding decides between equal covariances
    assert sum(loss(batch).values.sum() for batch in batches).item() == pytest.approx(
        loss_by_loop.item(), rel=1e-5, abs=1e-5
    )
    assert torch.allclose(
        gradient_of(loss, batches, leaf), torch.autograd.grad(loss_by_loop, leaf)[0], atol=1e-6
    )  # terms in single precision may cancel


@pytest.mark.parametrize("options", [{"share": 0.0}, {"coefficient": 0.0}])
def test_kl_cov_without_share_or_coefficient_is_the_surrogate_loss(make_minibatch, options):
    (batch,), _ = make_minibatch([2.0, -2.0], old_logprobs=[1.0, -1.0], advantages=[1.0, -1.0])
    assert torch.equal(kl_cov(batch, **options).values, -(batch.logprobs - batch.old_logprobs).exp() * batch.advantages)


def test_kl_cov_with_equal_advantages_no_token_is_chosen(make_minibatch):
    (batch,), _ = make_minibatch([2.0, -2.0, 0.0], old_logprobs=[0.0] * 3, advantages=[3.0] * 3)
    assert kl_cov(batch, share=1.0).metrics["chosen_fraction"].item() == 0.0


@pytest.mark.parametrize(
    ("values", "expected"), [([1.0, 3.0], [-1.0, 1.0]), ([1e6, 1e6, 1e6], [0.0] * 3), ([0.1] * 3, [0.0] * 3)]
)
def test_standardised_scores_by_hand(values, expected):
    assert standardise(torch.tensor(values, dtype=torch.float64)).tolist() == pytest.approx(expected)


def test_a_loss_that_uses_no_token_has_gradient_zero(make_minibatch, gradient_of):
    batches, leaf = make_minibatch([-1.0, -2.0])
    gradient = gradient_of(
        lambda batch: LossTerm(values=token_losses(batch, lambda _: torch.zeros((), dtype=torch.float64))),
        batches,
        leaf,
    )
    assert gradient.tolist() == [0.0, 0.0]


def test_a_batch_without_its_minibatch_is_refused_with_the_reason(make_minibatch):
    (batch,), _ = make_minibatch([-1.0])
    with pytest.raises(AssertionError, match="NEEDS"):
        token_losses(dataclasses.replace(batch, whole=None), lambda x: x.sum())
