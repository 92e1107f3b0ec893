import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError
from sparring.methods.losses.kl_penalty import kl_penalty


@pytest.mark.parametrize(("estimator", "value"), [("k1", 0.5), ("k2", 0.125), ("k3", math.exp(-0.5) + 0.5 - 1)])
def test_values_by_hand(make_batch, estimator, value):
    batch = make_batch([-1.0], reference_logprobs=torch.tensor([-1.5], dtype=torch.float64))
    assert kl_penalty(batch, estimator=estimator).values.item() == pytest.approx(value)


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_zero_at_the_reference(make_batch, estimator):
    batch = make_batch([-1.0, -2.0], reference_logprobs=torch.tensor([-1.0, -2.0], dtype=torch.float64))
    assert kl_penalty(batch, estimator=estimator).values.abs().max().item() == pytest.approx(0)


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_the_mean_over_samples_is_the_divergence(make_batch, estimator):
    policy, reference = torch.tensor([0.7, 0.2, 0.1]), torch.tensor([0.3, 0.3, 0.4])
    batch = make_batch(policy.log().tolist(), reference_logprobs=reference.log().double())
    mean = (policy * kl_penalty(batch, estimator=estimator).values).sum()
    assert mean.item() == pytest.approx((policy * (policy / reference).log()).sum().item(), abs=1e-6)


def test_wild_differences_stay_finite(make_batch):
    term = kl_penalty(make_batch([-1000.0, 0.0], reference_logprobs=torch.tensor([0.0, -1000.0], dtype=torch.float64)))
    assert term.values.abs().max().item() <= 20.0


def test_gradient_of_k1_has_mean_zero_and_that_of_k3_does_not():
    logits, reference = torch.tensor([1.0, 0.0, -1.0], dtype=torch.float64), torch.tensor([0.3, 0.3, 0.4], dtype=torch.float64)
    for estimator, vanishes in (("k1", True), ("k3", False)):
        free = logits.clone().requires_grad_(True)
        log_p = free.log_softmax(-1)
        difference = reference.log() - log_p
        values = -difference if estimator == "k1" else difference.exp() - difference - 1
        (log_p.detach().exp() * values).sum().backward()
        assert (free.grad.abs().max().item() < 1e-12) == vanishes


PAIRS = st.lists(st.tuples(st.floats(-2, 0), st.floats(-2, 0)), min_size=1, max_size=6)


def penalty(make_batch, pairs, estimator):
    """Return the values for pairs of log-probabilities, of the policy and of the reference."""
    batch = make_batch([new for new, _ in pairs], reference_logprobs=torch.tensor([old for _, old in pairs], dtype=torch.float64))
    return kl_penalty(batch, estimator=estimator).values


@given(PAIRS)
def test_k2_and_k3_are_never_negative_and_k1_changes_its_sign_with_the_direction(make_batch, pairs):
    swapped = [(old, new) for new, old in pairs]
    assert (penalty(make_batch, pairs, "k2") >= 0).all()
    assert (penalty(make_batch, pairs, "k3") >= -1e-15).all()
    assert torch.equal(penalty(make_batch, pairs, "k1"), -penalty(make_batch, swapped, "k1"))
    assert torch.equal(penalty(make_batch, pairs, "k2"), penalty(make_batch, swapped, "k2"))


@given(PAIRS)
def test_near_the_reference_k3_becomes_k2(make_batch, pairs):
    """exp(d) - d - 1 = d^2 / 2 + d^3 / 6 + ..."""
    near = [(new, new + (old - new) / 100) for new, old in pairs]
    second, third = penalty(make_batch, near, "k2"), penalty(make_batch, near, "k3")
    assert ((third - second).abs() <= 0.02 / 6 * 2 * second * 1.01 + 1e-15).all()


@given(st.lists(st.tuples(st.floats(-0.5, 0.5), st.floats(-0.5, 0.5)), min_size=2, max_size=5))
def test_summed_over_the_policy_k3_is_the_divergence_and_k2_has_its_gradient(make_batch, rows):
    logits = torch.tensor([row[0] for row in rows], dtype=torch.float64, requires_grad=True)
    reference = torch.tensor([row[1] for row in rows], dtype=torch.float64).log_softmax(-1)
    log_p = logits.log_softmax(-1)
    divergence = (log_p.exp() * (log_p - reference)).sum()
    share = log_p.detach().exp()
    batch = make_batch(log_p.tolist(), reference_logprobs=reference)
    assert (share * kl_penalty(batch, estimator="k3").values).sum().item() == pytest.approx(divergence.item(), abs=1e-9)
    (share * kl_penalty(batch, estimator="k2").values).sum().backward()
    (through,) = torch.autograd.grad(log_p, logits, batch.logprobs.grad, retain_graph=True)
    assert torch.allclose(through, torch.autograd.grad(divergence, logits)[0], atol=1e-9)


@given(st.lists(st.tuples(st.floats(-0.5, 0.5), st.floats(-0.5, 0.5)), min_size=2, max_size=5))
def test_summed_over_the_policy_k3_has_the_gradient_of_the_other_direction(make_batch, rows):
    logits = torch.tensor([row[0] for row in rows], dtype=torch.float64, requires_grad=True)
    reference = torch.tensor([row[1] for row in rows], dtype=torch.float64).log_softmax(-1)
    log_p = logits.log_softmax(-1)
    other = (reference.exp() * (reference - log_p)).sum()  # KL(pi_ref || pi)
    batch = make_batch(log_p.tolist(), reference_logprobs=reference)
    (log_p.detach().exp() * kl_penalty(batch, estimator="k3").values).sum().backward()
    (through,) = torch.autograd.grad(log_p, logits, batch.logprobs.grad, retain_graph=True)
    assert torch.allclose(through, torch.autograd.grad(other, logits)[0], atol=1e-12)


def test_where_the_clamp_acts_the_mean_of_k3_is_below_the_divergence(make_batch):
    policy, reference = torch.tensor([0.99, 0.01]), torch.tensor([0.1, 0.9])  # d = 4.5 for the second
    batch = make_batch(policy.log().tolist(), reference_logprobs=reference.log().double())
    mean = (policy * kl_penalty(batch, estimator="k3").values).sum()
    assert mean.item() < (policy * (policy / reference).log()).sum().item() - 0.1


def test_no_tokens_and_a_wrong_estimator(make_batch):
    assert penalty(make_batch, [], "k3").shape == (0,)
    with pytest.raises(ConfigError, match="estimator"):
        bind("losses", "kl_penalty", {"estimator": "k4"})


@given(st.sampled_from(["k1", "k2", "k3"]), PAIRS)
def test_gradients_by_hand(make_batch, estimator, pairs):
    """With d = log pi_ref - log pi: 1, -d and 1 - exp(d)."""
    batch = make_batch([new for new, _ in pairs], reference_logprobs=torch.tensor([old for _, old in pairs], dtype=torch.float64))
    (gradient,) = torch.autograd.grad(kl_penalty(batch, estimator=estimator).values.sum(), batch.logprobs)
    exact = {"k1": lambda d: 1.0, "k2": lambda d: -d, "k3": lambda d: 1.0 - math.exp(d)}[estimator]
    assert gradient.tolist() == pytest.approx([exact(old - new) for new, old in pairs], abs=1e-12)


def test_where_a_clamp_acts_a_token_is_not_pulled(make_batch):
    """exp(d) - d - 1 passes 10 at d = 2.6."""
    batch = make_batch([-2.4, -2.7, -3.0], reference_logprobs=torch.zeros(3, dtype=torch.float64))
    term = kl_penalty(batch)
    assert (term.values == 10.0).tolist() == [False, True, True]
    term.values.sum().backward()
    assert (batch.logprobs.grad == 0.0).tolist() == [False, True, True]
