import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.methods.losses.base import (
    clip_loss,
    reduce,
)
from sparring.methods.losses.cispo import cispo
from sparring.methods.losses.gmpo import gmpo
from sparring.methods.losses.gspo import gspo
from sparring.methods.losses.policy_gradient import policy_gradient
from sparring.methods.losses.ppo_clip import ppo_clip
from sparring.methods.losses.sapo import sapo


def gradient(batch, **options):
    ppo_clip(batch, **options).values.sum().backward()
    return batch.logprobs.grad.tolist()


def test_ppo_clip_at_ratio_one_the_gradient_is_the_plain_one(make_batch):
    batch, equal_batch = (
        make_batch([-1.0, -2.0], advantages=[2.0, -3.0]),
        make_batch([-1.0, -2.0], advantages=[2.0, -3.0]),
    )
    policy_gradient(equal_batch).values.sum().backward()
    assert gradient(batch) == pytest.approx(equal_batch.logprobs.grad.tolist())


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "is_clipped"),
    [
        (1.5, 1.0, -1.2, True),  # clipped at 1 + clip_high
        (0.5, 1.0, -0.5, False),  # ratio fell though it should rise: not clipped
        (0.5, -1.0, 0.8, True),  # clipped at 1 - clip_low
        (1.5, -1.0, 1.5, False),  # ratio rose though it should fall: not clipped
        (1.1, 1.0, -1.1, False),
    ],
)
def test_ppo_clip_clips_only_ratios_that_moved_in_the_direction_of_the_advantage(
    make_batch, ratio, advantage, loss, is_clipped
):
    batch = make_batch([math.log(ratio)], old_logprobs=[0.0], advantages=[advantage])
    term = ppo_clip(batch)
    assert term.values.item() == pytest.approx(loss)
    assert term.metrics["clip_fraction"].item() == is_clipped
    assert gradient(batch)[0] == pytest.approx(0.0 if is_clipped else -ratio * advantage)


def test_ppo_clip_dapo_preset_clips_higher(make_batch):
    batch = make_batch([math.log(1.27)], old_logprobs=[0.0])
    assert bind("losses", "ppo_clip", preset="dapo")(batch).values.item() == pytest.approx(-1.27)
    assert ppo_clip(batch).values.item() == pytest.approx(-1.2)


def test_loop_preset_is_symmetric_in_the_logarithm(make_batch):
    loss = bind("losses", "ppo_clip", preset="loop")
    for ratio, advantage in ((1.11, 1.0), (1 / 1.11, -1.0)):
        term = loss(make_batch([math.log(ratio)], old_logprobs=[0.0], advantages=[advantage]))
        assert term.values.item() == pytest.approx(-advantage * 1.1**advantage)
        assert term.metrics["clip_fraction"].item() == 1.0
    assert (
        loss(make_batch([math.log(1.09), -math.log(1.09)], old_logprobs=[0.0, 0.0], advantages=[1.0, -1.0]))
        .metrics["clip_fraction"]
        .item()
        == 0.0
    )


def test_ppo_clip_dual_clip_bounds_an_extreme_ratio(make_batch):
    batch = make_batch([math.log(10.0)], old_logprobs=[0.0], advantages=[-1.0])
    assert ppo_clip(batch).values.item() == pytest.approx(10.0)
    dual = bind("losses", "ppo_clip", preset="dual_clip")
    assert dual(batch).values.item() == pytest.approx(3.0)
    assert dual(batch).metrics["clip_fraction"].item() == 1.0


def test_ppo_clip_extreme_ratios_stay_finite(make_batch):
    term = ppo_clip(make_batch([0.0, -500.0], old_logprobs=[-500.0, 0.0], advantages=[-1.0, -1.0]))
    assert torch.isfinite(term.values).all()
    assert term.values[0].item() == pytest.approx(math.exp(20))


@given(st.floats(-2, 2), st.floats(-5, 5))
def test_ppo_clip_loss_is_never_below_the_clipped_surrogate(make_batch, log_ratio, advantage):
    ratio = math.exp(log_ratio)
    loss = ppo_clip(make_batch([log_ratio], old_logprobs=[0.0], advantages=[advantage])).values.item()
    assert loss >= -ratio * advantage - 1e-9
    assert loss >= -min(max(ratio, 0.8), 1.2) * advantage - 1e-9


def test_ppo_clip_metrics_use_unclipped_ratios(make_batch):
    metrics = ppo_clip(make_batch([math.log(4.0), 0.0], old_logprobs=[0.0, 0.0])).metrics
    assert (metrics["ratio_max"].item(), metrics["ratio_mean"].item()) == (pytest.approx(4.0), pytest.approx(2.5))
    assert metrics["approximate_kl"].item() == pytest.approx((4 - 1 - math.log(4)) / 2)


ROWS_OF_GSPO = st.lists(st.tuples(st.floats(-1, 1), st.integers(0, 2)), min_size=1, max_size=9)


def test_gspo_by_hand(make_minibatch):
    """The mean log-ratio is (0.4 + 0.2) / 2 = 0.3 in the first sequence and -0.1 in the second."""
    (batch,), _ = make_minibatch(
        [0.4, 0.2, -0.1], old_logprobs=[0.0] * 3, advantages=[1.0, 1.0, 2.0], trajectory=[0, 0, 1]
    )
    with_wide_clip = gspo(batch, clip_low=0.5, clip_high=0.5)
    assert with_wide_clip.values.tolist() == pytest.approx([-math.exp(0.3)] * 2 + [-2 * math.exp(-0.1)])
    assert gspo(batch).values.tolist() == pytest.approx([-1.0004] * 2 + [-2 * math.exp(-0.1)])
    assert gspo(batch).metrics["clip_fraction"].item() == pytest.approx(2 / 3)
    assert gspo(batch).metrics["ratio_max"].item() == pytest.approx(math.exp(0.3))
    assert gspo(batch, length_normalised=False, clip_high=9.0).values[0].item() == pytest.approx(-math.exp(0.6))


@given(ROWS_OF_GSPO, st.booleans())
def test_gspo_gradient_is_that_of_the_segments_ratios(make_minibatch, gradient_of, rows, length_normalised):
    """With one advantage per sequence, the loss is the mean over sequences of -ratio * advantage."""
    names = sorted({row[1] for row in rows})
    rows = sorted(rows, key=lambda row: row[1])
    trajectory = [names.index(row[1]) for row in rows]
    advantages = [1.0, -2.0, 0.5]
    batches, leaf = make_minibatch(
        [r[0] for r in rows],
        old_logprobs=[0.1] * len(rows),
        advantages=[advantages[t] for t in trajectory],
        trajectory=trajectory,
    )
    term = gspo(batches[0], length_normalised=length_normalised, clip_low=1.0, clip_high=1e12)
    gradient = torch.autograd.grad(reduce(term.values, batches[0].sequence, len(names), "sequence_mean"), leaf)[0]
    loss = 0.0
    for index in range(len(names)):
        log_ratios = leaf[[t == index for t in trajectory]] - 0.1
        ratio = log_ratios.mean().exp() if length_normalised else log_ratios.sum().exp() / len(log_ratios)
        loss = loss - advantages[index] * ratio / len(names)
    assert torch.allclose(gradient, torch.autograd.grad(loss, leaf)[0])


@given(
    st.lists(st.tuples(st.floats(-2, 2), st.floats(-3, 3)), min_size=1, max_size=6),
    st.sampled_from(["sequence", "turn"]),
)
def test_with_segments_of_one_token_gspo_is_ppo_clip(make_minibatch, gradient_of, rows, level):
    batches, leaf = make_minibatch(
        [r[0] for r in rows],
        old_logprobs=[0.0] * len(rows),
        advantages=[r[1] for r in rows],
        trajectory=list(range(len(rows))),
    )

    def loss(batch):
        return gspo(batch, level=level, clip_low=0.2, clip_high=0.3)

    assert torch.allclose(loss(batches[0]).values, ppo_clip(batches[0], clip_low=0.2, clip_high=0.3).values)
    ppo_gradient = gradient_of(lambda batch: ppo_clip(batch, clip_low=0.2, clip_high=0.3), batches, leaf)
    assert torch.allclose(gradient_of(loss, batches, leaf), ppo_gradient)


def test_gspo_option_level_makes_a_turn_the_segment(make_minibatch):
    (batch,), _ = make_minibatch([0.4, 0.2, -0.1], old_logprobs=[0.0] * 3, turn_index=[0, 0, 1])
    wide_clip = {"clip_low": 0.9, "clip_high": 9.0}
    assert gspo(batch, level="turn", **wide_clip).values.tolist() == pytest.approx(
        [-math.exp(0.3)] * 2 + [-math.exp(-0.1)]
    )
    assert gspo(batch, **wide_clip).values.tolist() == pytest.approx([-math.exp(0.5 / 3)] * 3)
    seeupo = bind("losses", "gspo", preset="seeupo")(batch)
    assert seeupo.values.tolist() == pytest.approx([-1.2] * 2 + [-math.exp(-0.1)])  # exp(0.6) is clipped at 1.2


def test_gspo_extreme_sums_stay_finite(make_minibatch):
    (batch,), _ = make_minibatch([1e9] * 4, old_logprobs=[0.0] * 4, advantages=[-1.0] * 4)
    assert gspo(batch, length_normalised=False).values[0].item() == pytest.approx(math.exp(20))


ROWS_OF_GMPO = st.lists(st.tuples(st.floats(-2, 2), st.floats(-2, 2), st.integers(0, 2)), min_size=1, max_size=8)


def gmpo_by_loops(leaf, advantages, trajectory, low, high):
    """Return the mean over sequences of -mean(A) times the product of clipped ratios to the power 1 / length."""
    total = 0.0
    for number in sorted(set(trajectory)):
        product, members = 0.0 * leaf.sum() + 1.0, [token for token, t in enumerate(trajectory) if t == number]
        for token in members:
            ratio, clipped = leaf[token].exp(), leaf[token].clamp(-low, high).exp()
            clipped_ratio = torch.minimum(ratio, clipped) if advantages[token] > 0 else torch.maximum(ratio, clipped)
            product = product * (clipped_ratio if advantages[token] != 0 else 1.0)
        total = total - sum(advantages[token] for token in members) / len(members) * product ** (1 / len(members))
    return total / len(set(trajectory))


def test_gmpo_by_hand(make_minibatch):
    """For A > 0 the log-ratio 1 is clipped at 0.4, so the geometric mean is exp(0.1); for A < 0 it is exp(0.4)."""
    for advantage, value in ((2.0, -2 * math.exp(0.1)), (-2.0, 2 * math.exp(0.4))):
        (batch,), _ = make_minibatch([1.0, -0.2], old_logprobs=[0.0, 0.0], advantages=[advantage] * 2)
        term = gmpo(batch)
        assert term.values.tolist() == pytest.approx([value] * 2)
        assert term.metrics["clip_fraction"].item() == (0.5 if advantage > 0 else 0.0)


@given(ROWS_OF_GMPO)
def test_gmpo_value_and_gradient_are_those_of_a_loop(make_minibatch, rows):
    names = sorted({row[2] for row in rows})
    logs, advantages, trajectory = [r[0] for r in rows], [r[1] for r in rows], [names.index(r[2]) for r in rows]
    (batch,), leaf = make_minibatch(logs, old_logprobs=[0.0] * len(rows), advantages=advantages, trajectory=trajectory)
    result = reduce(gmpo(batch, clip_low=0.3).values, batch.sequence, len(names), "sequence_mean")
    expected_loss = gmpo_by_loops(leaf, advantages, trajectory, 0.3, 0.4)
    assert result.item() == pytest.approx(expected_loss.item(), rel=1e-5, abs=1e-5)
    (expected,) = torch.autograd.grad(expected_loss, leaf, retain_graph=True)
    assert torch.allclose(torch.autograd.grad(result, leaf)[0], expected, atol=1e-12)


def test_gmpo_with_turn_level_advantages_needs_level_turn(make_minibatch):
    (batch,), _ = make_minibatch([0.2, 0.0], old_logprobs=[0.0, 0.0], advantages=[1.0, -1.0], turn_index=[0, 1])
    assert gmpo(batch, level="turn").values.tolist() == pytest.approx([-math.exp(0.2), 1.0])
    assert gmpo(batch).values.tolist() == pytest.approx([0.0, 0.0])


def test_gmpo_token_with_zero_advantage_is_not_clipped_and_does_not_count(make_minibatch):
    (batch,), _ = make_minibatch([3.0, 0.2], old_logprobs=[0.0, 0.0], advantages=[0.0, 2.0])
    assert gmpo(batch).values.tolist() == pytest.approx([-math.exp(0.1)] * 2)
    assert gmpo(batch).metrics["clip_fraction"].item() == 0.0


def test_gmpo_each_clip_width_has_an_effect(make_minibatch):
    (batch,), _ = make_minibatch([3.0], old_logprobs=[0.0])
    assert gmpo(batch, clip_high=1.0).values.item() == pytest.approx(-math.e)
    (batch,), _ = make_minibatch([-3.0], old_logprobs=[0.0], advantages=[-1.0])
    assert gmpo(batch, clip_low=1.0).values.item() == pytest.approx(1 / math.e)


def test_cispo_by_hand(make_minibatch, gradient_of):
    batches, leaf = make_minibatch(
        [-1.0, -2.0], old_logprobs=[-1.0 - math.log(3.0), -2.0 - math.log(0.5)], advantages=[2.0, -4.0]
    )
    term = cispo(batches[0])
    assert term.values.tolist() == pytest.approx([1.2 * 2.0 * 1.0, -0.5 * 4.0 * 2.0])
    assert gradient_of(cispo, batches, leaf).tolist() == pytest.approx([-2.4, 2.0])
    assert term.metrics["clip_fraction"].item() == 0.5
    assert term.metrics["ratio_max"].item() == pytest.approx(3.0)
    assert term.weighted and term.level == "token"


def test_cispo_each_bound_has_an_effect(make_minibatch):
    (batch,), _ = make_minibatch([-1.0, -1.0], old_logprobs=[-1.0 - math.log(3.0), -1.0 - math.log(0.5)])
    assert cispo(batch, clip_high=5.0).values.tolist() == pytest.approx([3.0, 0.5])
    assert cispo(batch, clip_low=0.1).values.tolist() == pytest.approx([1.2, 0.9])


@given(st.lists(st.tuples(st.floats(-5, 0), st.floats(-3, 3)), min_size=1, max_size=6))
def test_at_ratio_one_cispo_is_the_policy_gradient(make_minibatch, rows):
    (batch,), _ = make_minibatch([row[0] for row in rows], advantages=[row[1] for row in rows])
    assert torch.equal(cispo(batch).values, policy_gradient(batch).values)


@given(st.lists(st.tuples(st.floats(-30, 30), st.floats(-3, 3)), min_size=1, max_size=6))
def test_cispo_every_token_with_an_advantage_keeps_a_bounded_gradient(make_minibatch, gradient_of, rows):
    batches, leaf = make_minibatch(
        [row[0] for row in rows], old_logprobs=[0.0] * len(rows), advantages=[row[1] for row in rows]
    )
    expected = [-min(math.exp(max(x, -20.0)), 1.2) * advantage for x, advantage in rows]
    assert gradient_of(cispo, batches, leaf).tolist() == pytest.approx(expected)


def sapo_by_loops(ratio, advantage, positive_temperature=1.0, negative_temperature=1.05):
    tau = positive_temperature if advantage > 0 else negative_temperature
    return -4 / (tau * (1 + (-tau * (ratio - 1)).exp())) * advantage


def test_sapo_by_hand(make_minibatch):
    (batch,), _ = make_minibatch([math.log(2.0), 0.0, 0.0], old_logprobs=[0.0] * 3, advantages=[1.0, 1.0, -2.1])
    term = sapo(batch)
    assert term.values.tolist() == pytest.approx([-4 / (1 + math.exp(-1)), -2.0, 4.0])
    gate = 1 / (1 + math.exp(-1))
    assert term.metrics["gate_mean"].item() == pytest.approx((4 * gate * (1 - gate) * 2 + 1 + 1) / 3)


@given(
    st.lists(st.tuples(st.floats(-3, 3), st.floats(-2, 2)), min_size=1, max_size=8),
    st.floats(0.1, 5),
    st.floats(0.1, 5),
)
def test_sapo_value_and_gradient_are_those_of_the_formula(make_minibatch, gradient_of, rows, positive, negative):
    batches, leaf = make_minibatch(
        [r[0] for r in rows], old_logprobs=[0.0] * len(rows), advantages=[r[1] for r in rows]
    )

    def loss(batch):
        return sapo(batch, temperature_positive=positive, temperature_negative=negative)

    expected_loss = sum(sapo_by_loops(leaf[i].exp(), rows[i][1], positive, negative) for i in range(len(rows)))
    assert loss(batches[0]).values.sum().item() == pytest.approx(expected_loss.item(), rel=1e-5, abs=1e-5)
    assert torch.allclose(gradient_of(loss, batches, leaf), torch.autograd.grad(expected_loss, leaf)[0])


def test_sapo_extreme_ratios_have_no_gradient(make_minibatch, gradient_of):
    batches, leaf = make_minibatch([1e9, -1e9], old_logprobs=[0.0, 0.0])
    assert gradient_of(sapo, batches, leaf).tolist() == [0.0, 0.0]


def test_clip_widths_can_differ_by_token():
    ratio, signs = torch.tensor([2.0, 2.0, 0.1]), torch.tensor([1.0, 1.0, -1.0])
    loss, is_clipped = clip_loss(ratio, signs, torch.tensor([0.2, 0.2, 0.5]), torch.tensor([0.5, 2.0, 0.2]))
    assert (loss.tolist(), is_clipped.tolist()) == ([-1.5, -2.0, 0.5], [True, False, True])
