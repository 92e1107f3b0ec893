import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.methods.features.centred_logit import centred_logit
from sparring.methods.losses.base import LossBatch, agent_weights, reduce
from sparring.methods.losses.magnetic_mirror_descent import magnetic_mirror_descent
from sparring.methods.losses.neurd import neurd
from sparring.methods.losses.policy_gradient import policy_gradient
from sparring.methods.losses.ppo_clip import ppo_clip
from sparring.methods.losses.self_imitation import self_imitation


def test_policy_gradient_value_and_gradient_by_hand(make_batch):
    batch = make_batch([-1.0, -2.0], advantages=[3.0, -1.0])
    term = policy_gradient(batch)
    assert term.values.tolist() == [3.0, -2.0]
    term.values.sum().backward()
    assert batch.logprobs.grad.tolist() == [-3.0, 1.0]
    assert term.weighted and term.level == "token"


@given(st.lists(st.floats(-3, 3), min_size=2, max_size=5), st.floats(-5, 5))
def test_policy_gradient_constant_advantage_has_zero_mean_gradient(make_batch, logits, advantage):
    """The expected gradient in the logits is 0, which is why baselines do not bias."""
    leaf = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
    log_p = leaf.log_softmax(-1)
    batch = make_batch(log_p.tolist(), advantages=[advantage] * len(logits))
    (log_p.detach().exp() * policy_gradient(batch).values).sum().backward()
    (logit_gradient,) = torch.autograd.grad(log_p, leaf, batch.logprobs.grad)
    assert logit_gradient.abs().max().item() < 1e-9


LOGITS_OF_NEURD = st.lists(st.floats(-1, 1), min_size=3, max_size=3)


def batch_of(make_batch, logits, *, old_logprobs=None, advantages=None):
    logit = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
    batch = make_batch([-1.0] * len(logits), old_logprobs=old_logprobs, advantages=advantages)
    return dataclasses.replace(batch, features={"centred_logit": logit}), logit


@pytest.mark.parametrize(("logit", "advantage", "slope"), [
    (0.5, 3.0, -6.0),  # probability 1/2: weight 2
    (1.9, 3.0, -6.0), (2.0, 3.0, 0.0), (2.5, -3.0, 6.0), (-2.5, 3.0, -6.0), (-2.0, -3.0, 0.0), (-1.9, -3.0, 6.0),
])  # fmt: skip
def test_neurd_by_hand(make_batch, logit, advantage, slope):
    batch, leaf = batch_of(make_batch, [logit], old_logprobs=[math.log(0.5)], advantages=[advantage])
    term = neurd(batch)
    assert term.values.item() == pytest.approx(slope * logit)
    assert term.metrics["held_fraction"].item() == (slope == 0.0)
    assert term.metrics["centred_logit_max"].item() == abs(logit)
    term.values.sum().backward()
    assert leaf.grad.item() == pytest.approx(slope)


def test_options_of_neurd(make_batch):
    batch, _ = batch_of(make_batch, [3.0], old_logprobs=[math.log(0.01)])
    assert neurd(batch).values.item() == 0.0
    assert neurd(batch, threshold=4.0).values.item() == pytest.approx(-30.0)
    assert neurd(batch, threshold=4.0, importance_cap=1.0).values.item() == pytest.approx(-3.0)
    assert neurd(batch, threshold=4.0, importance_cap=1e6).values.item() == pytest.approx(-300.0)
    assert neurd(batch).metrics["weight_mean"].item() == 10.0


@given(LOGITS_OF_NEURD, LOGITS_OF_NEURD)
def test_neurd_expectation_over_samples_is_the_all_action_rule(make_batch, logits, gains):
    """Without cap and threshold, the mean over samples of the policy is the gradient of sum_a A(a) y(a)."""
    leaf = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
    logit, log_p = centred_logit(leaf[None])[0], leaf.detach().log_softmax(0)
    batch = make_batch(log_p.tolist(), advantages=gains)
    batch = dataclasses.replace(batch, features={"centred_logit": logit})
    mean = (log_p.exp() * neurd(batch, threshold=1e9, importance_cap=1e9).values).sum()
    all_action_loss = -(torch.tensor(gains, dtype=torch.float64) * (leaf - leaf.mean())).sum()
    expected = torch.autograd.grad(all_action_loss, leaf)[0]
    assert torch.allclose(torch.autograd.grad(mean, leaf, retain_graph=True)[0], expected)
    surrogate = (log_p.exp() * neurd(batch, threshold=1e9, importance_cap=1.0).values).sum()
    weighted_loss = -(log_p.exp() * torch.tensor(gains, dtype=torch.float64) * (leaf - leaf.mean())).sum()
    assert torch.allclose(torch.autograd.grad(surrogate, leaf)[0], torch.autograd.grad(weighted_loss, leaf)[0])


@given(LOGITS_OF_NEURD, st.lists(st.floats(-5, 5), min_size=3, max_size=3), st.floats(0.1, 2))
def test_neurd_pushes_no_logit_beyond_the_threshold(make_batch, advantages, logits, threshold):
    batch, leaf = batch_of(make_batch, logits, advantages=advantages)
    neurd(batch, threshold=threshold).values.sum().backward()
    is_outside = leaf.detach().abs() >= threshold
    assert (
        (leaf.grad * leaf.detach())[is_outside].min().item() >= 0.0 if is_outside.any() else True
    )  # gradient descent moves it inwards


def test_neurd_samples_of_probability_zero_stay_finite(make_batch):
    batch, _ = batch_of(make_batch, [0.0], old_logprobs=[-1e9])
    assert neurd(batch, importance_cap=1e9).metrics["weight_mean"].item() == pytest.approx(1e9)


LOGITS_OF_MAGNETIC_MIRROR_DESCENT = st.lists(st.floats(-2, 2), min_size=3, max_size=3)


def test_magnetic_mirror_descent_by_hand(make_batch):
    """rho = 2, pi / pi_ref = 4, pi_ref / pi_old = 1/2."""
    batch = make_batch(
        [math.log(0.8)],
        old_logprobs=[math.log(0.4)],
        advantages=[3.0],
        reference_logprobs=torch.tensor([math.log(0.2)]).double(),
    )
    magnet_kl, old_kl = 2 * math.log(4) - 2 + 0.5, 2 * math.log(2) - 2 + 1
    term = magnetic_mirror_descent(batch, magnet=0.5, proximity=0.25)
    assert term.values.item() == pytest.approx(-6.0 + 0.5 * magnet_kl + 0.25 * old_kl)
    assert term.metrics["magnet_kl"].item() == pytest.approx(magnet_kl)
    assert term.metrics["old_kl"].item() == pytest.approx(old_kl)
    assert magnetic_mirror_descent(batch, magnet=0.0, proximity=0.0).values.item() == pytest.approx(-6.0)


@given(
    LOGITS_OF_MAGNETIC_MIRROR_DESCENT,
    LOGITS_OF_MAGNETIC_MIRROR_DESCENT,
    LOGITS_OF_MAGNETIC_MIRROR_DESCENT,
    LOGITS_OF_MAGNETIC_MIRROR_DESCENT,
    st.floats(0, 2),
    st.floats(0, 2),
)
def test_mmd_expectation_over_samples_is_the_exact_objective(
    make_batch, logits, old_logits, reference, gains, magnet, proximity
):
    """The mean over actions under the old policy gives the exact objective."""
    leaf = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
    log_p, log_old, log_ref = (
        torch.as_tensor(x, dtype=torch.float64).log_softmax(0) for x in (leaf, old_logits, reference)
    )
    batch = make_batch([0.0] * 3, old_logprobs=log_old.tolist(), advantages=gains, reference_logprobs=log_ref)
    object.__setattr__(batch, "logprobs", log_p)
    mean = (log_old.exp() * magnetic_mirror_descent(batch, magnet=magnet, proximity=proximity).values).sum()
    probabilities = log_p.exp()
    objective = -(probabilities * torch.tensor(gains, dtype=torch.float64)).sum()
    objective = (
        objective
        + magnet * (probabilities * (log_p - log_ref)).sum()
        + proximity * (probabilities * (log_p - log_old)).sum()
    )
    assert mean.item() == pytest.approx(objective.item(), abs=1e-9)
    expected = torch.autograd.grad(objective, leaf, retain_graph=True)[0]
    assert torch.allclose(torch.autograd.grad(mean, leaf)[0], expected, atol=1e-9)


def test_mmd_magnet_acts_from_the_first_update_and_proximity_from_the_second(make_batch):
    for options, slope in (
        ({"magnet": 1.0, "proximity": 0.0}, math.log(2.0)),
        ({"magnet": 0.0, "proximity": 1.0}, 0.0),
    ):
        batch = make_batch([math.log(0.4)], advantages=[0.0], reference_logprobs=torch.tensor([math.log(0.2)]).double())
        magnetic_mirror_descent(batch, **options).values.sum().backward()
        assert batch.logprobs.grad.item() == pytest.approx(slope, abs=1e-7)


def test_mmd_has_zero_gradient_at_the_exact_published_update():
    """Self-play of a biased rock-paper-scissors: new logits are (old + step (gains + magnet log uniform)) / (1 + step magnet)."""
    payoff = torch.tensor([[0.0, -1.0, 2.0], [1.0, 0.0, -1.0], [-2.0, 1.0, 0.0]], dtype=torch.float64)
    magnet, step = 0.2, 0.1
    first_policy = second_policy = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64).log()
    log_uniform = torch.full((3,), 1 / 3, dtype=torch.float64).log()

    def update_policy(policy, gains):
        return ((policy + step * (gains + magnet * log_uniform)) / (1 + step * magnet)).log_softmax(0)

    for _ in range(2000):
        first_policy, second_policy = (
            update_policy(first_policy, payoff @ second_policy.exp()),
            update_policy(second_policy, -payoff.T @ first_policy.exp()),
        )
    leaf = first_policy.clone().requires_grad_(True)
    log_probabilities = leaf.log_softmax(0)
    index = torch.arange(3)
    batch = LossBatch(logprobs=log_probabilities, old_logprobs=first_policy, sampler_logprobs=first_policy, advantages=payoff @ second_policy.exp(), sequence=index, turn=index,
                      num_sequences=3, reference_logprobs=log_uniform)  # fmt: skip
    loss = (first_policy.exp() * magnetic_mirror_descent(batch, magnet=magnet, proximity=1 / step).values).sum()
    assert torch.autograd.grad(loss, leaf)[0].abs().max().item() < 1e-6


ROWS_OF_SELF_IMITATION = st.lists(st.tuples(st.floats(-3, 3), st.floats(0, 3)), min_size=1, max_size=8)


def test_self_imitation_by_hand(make_minibatch, gradient_of):
    batches, leaf = make_minibatch(
        [-1.0, -2.0, -3.0], old_logprobs=[-1.0 - math.log(2.0), -2.0, -3.0], advantages=[2.0, -4.0, 0.0]
    )
    term = self_imitation(batches[0])
    assert term.values.tolist() == [2.0, 0.0, 0.0]
    assert gradient_of(self_imitation, batches, leaf).tolist() == [-2.0, 0.0, 0.0]
    assert term.metrics["imitated_fraction"].item() == pytest.approx(1 / 3)
    assert term.metrics["ratio_max"].item() == pytest.approx(2.0)
    assert bind("losses", "self_imitation", preset="spear")(batches[0]).values.tolist() == pytest.approx(
        [-2.4, 0.0, 0.0]
    )


@given(ROWS_OF_SELF_IMITATION)
def test_self_imitation_on_positive_advantages_is_the_policy_gradient_or_ppo(make_minibatch, gradient_of, rows):
    batches, leaf = make_minibatch(
        [r[0] for r in rows], old_logprobs=[0.0] * len(rows), advantages=[r[1] for r in rows]
    )
    assert torch.equal(self_imitation(batches[0]).values, policy_gradient(batches[0]).values)

    def clipped_self_imitation(batch):
        return self_imitation(batch, clip_high=0.3)

    def ppo(batch):
        return ppo_clip(batch, clip_high=0.3)

    assert torch.equal(clipped_self_imitation(batches[0]).values, ppo(batches[0]).values)
    assert torch.equal(gradient_of(clipped_self_imitation, batches, leaf), gradient_of(ppo, batches, leaf))


@given(ROWS_OF_SELF_IMITATION, st.sampled_from([None, 0.2]))
def test_failures_have_no_gradient_in_self_imitation(make_minibatch, gradient_of, rows, clip_high):
    batches, leaf = make_minibatch(
        [r[0] for r in rows], old_logprobs=[0.0] * len(rows), advantages=[-r[1] for r in rows]
    )
    assert (
        gradient_of(lambda batch: self_imitation(batch, clip_high=clip_high), batches, leaf).abs().max().item() == 0.0
    )


VALUES, SEQUENCE = torch.tensor([1.0, 2.0, 3.0, 10.0]), torch.tensor([0, 0, 0, 1])


def test_reductions_by_hand_on_uneven_lengths():
    assert reduce(VALUES, SEQUENCE, 2, "token_mean").item() == pytest.approx(4.0)
    assert reduce(VALUES, SEQUENCE, 2, "sequence_mean").item() == pytest.approx((2 + 10) / 2)
    assert reduce(VALUES, SEQUENCE, 2, "constant", 8.0).item() == pytest.approx(16 / 16)


def test_a_sequence_without_tokens_counts_as_zero():
    assert reduce(VALUES, SEQUENCE, 3, "sequence_mean").item() == pytest.approx(4.0)


@pytest.mark.parametrize("reduction", ["token_mean", "sequence_mean", "agent_mean", "constant"])
def test_no_tokens_give_zero(reduction):
    assert reduce(torch.zeros(0), torch.zeros(0, dtype=torch.int64), 2, reduction).item() == 0.0


def test_episodes_weigh_the_same_with_one_agent_as_with_three():
    """Two episodes: one agent with 2 tokens, and three agents with 1, 4 and 5."""
    sequence = torch.repeat_interleave(torch.arange(4), torch.tensor([2, 1, 4, 5]))
    weight = torch.from_numpy(agent_weights(np.array([7, 3, 3, 3])))
    losses = torch.ones(12, dtype=torch.float64, requires_grad=True)
    total = reduce(losses, sequence, 4, "agent_mean", weight=weight)
    total.backward()
    assert total.item() == pytest.approx(1.0) and weight.mean().item() == pytest.approx(1.0)
    assert losses.grad.tolist() == pytest.approx([1 / 4] * 2 + [1 / 6] + [1 / 24] * 4 + [1 / 30] * 5)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.integers(0, 1000))
def test_the_agent_mean_averages_conversations_then_episodes(plays, seed):
    generator = np.random.Generator(np.random.Philox(seed))
    lengths = generator.integers(1, 5, len(plays))
    values = [torch.from_numpy(generator.normal(size=length)) for length in lengths]
    sequence = torch.repeat_interleave(torch.arange(len(plays)), torch.from_numpy(lengths))
    result = reduce(
        torch.cat(values), sequence, len(plays), "agent_mean", weight=torch.from_numpy(agent_weights(np.array(plays)))
    )
    means = {
        play: [losses.mean() for losses, other_play in zip(values, plays, strict=True) if other_play == play]
        for play in plays
    }
    assert result.item() == pytest.approx(np.mean([np.mean(losses) for losses in means.values()]))
    if len(set(plays)) == len(plays):  # one agent in each episode
        assert result.item() == pytest.approx(reduce(torch.cat(values), sequence, len(plays), "sequence_mean").item())


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=10))
def test_equal_lengths_make_means_agree(values):
    tokens, sequence = torch.tensor(values), torch.arange(len(values))
    assert reduce(tokens, sequence, len(values), "token_mean").item() == pytest.approx(
        reduce(tokens, sequence, len(values), "sequence_mean").item(), abs=1e-5
    )
